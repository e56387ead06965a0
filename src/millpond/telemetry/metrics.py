"""Counters for `/metrics`, in base units. Labels are bounded: topics, outcomes and error kinds, never ids.

Counting is a plain addition, because every message is counted several times. The Prometheus client library only
renders them for a request. The engine, `live.outcomes` and flow runs count; `http`, `live` and alerts read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from millpond.core.ack import Answered
from millpond.core.model import Outcome, Result

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_STEP_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)
_SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)


class Distribution:
    """A histogram: the number of observations in each bucket."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Metrics:
    def __init__(self) -> None:
        # (topic, outcome, reason) of every message answered.
        self.messages: Counter[tuple[str, str, str]] = Counter()
        # (view, outcome) of every event of a view.
        self.view_events: Counter[tuple[str, str]] = Counter()
        self.push_responses: Counter[int] = Counter()
        # Present from the start, so that Prometheus sees the first increase.
        self.store_errors: Counter[str] = Counter({"AccessDenied": 0, "Unavailable": 0})
        # (outcome, reason) of every event about a flow run.
        self.flow_events: Counter[tuple[str, str]] = Counter()
        self.flow_event_seconds = Distribution(_STEP_SECONDS)
        self.message_seconds = Distribution(_SECONDS)
        self.commit_seconds = Distribution(_SECONDS)
        self.messages_per_commit = Distribution(_SIZES)
        self.commits = 0
        self.conflicts = 0
        self.documents_read = 0
        self.verdicts_checked = 0
        self.documents_written = 0
        self.letters_buried = 0
        self.log_lines_dropped = 0
        self._gauges: list[tuple[str, str, Callable[[], float | None]]] = []
        self._registry = CollectorRegistry()
        self._registry.register(_Renderer(self))

    def on_outcome(self, answered: Answered) -> None:
        """Called with every outcome."""
        status = answered.settlement.http_status
        if status:
            self.push_responses[status] += 1
        if answered.counts:
            self.count_message(answered.result, answered.latency_s)

    def count_message(self, result: Result, latency_s: float) -> None:
        """Count a message that was answered: push, pull or file."""
        self.messages[result.topic, result.outcome, result.reason] += 1
        self.message_seconds.observe(latency_s)
        retried = result.outcome is Outcome.RETRY
        for view in result.views:
            # A message that is to be redelivered counts in views that failed, and in those it was written to. The
            # others, such as one that found it stale, count once: when the message is settled.
            if not retried or view.wrote or view.outcome is Outcome.RETRY:
                self.view_events[view.view, view.outcome] += 1

    def expect_views(self, names: Iterable[str]) -> None:
        """Begin each view's counters at zero, so that Prometheus sees the first increase."""
        for name in names:
            for outcome in Outcome:
                self.view_events[name, outcome] += 0

    def events_by_view(self) -> dict[str, dict[str, int]]:
        """The number of events by view and outcome since this process began, without zeros."""
        found: dict[str, dict[str, int]] = {}
        for (view, outcome), n in self.view_events.items():
            if n:
                found.setdefault(view, {})[str(outcome)] = n
        return found

    def count_flow_event(self, outcome: str, reason: str, latency_s: float) -> None:
        """Count an event about a flow run that was answered, after its step's work if it led to some."""
        self.flow_events[outcome, reason] += 1
        self.flow_event_seconds.observe(latency_s)

    def watch(self, name: str, text: str, value: Callable[[], float | None]) -> None:
        """Add a gauge. `value` is called for each rendering; the gauge is left out while it returns None."""
        self._gauges.append((name, text, value))

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        yield _labelled(
            "millpond_messages",
            "Messages answered, by topic, outcome and reason.",
            ("topic", "outcome", "reason"),
            self.messages,
        )
        yield _labelled(
            "millpond_view_events",
            "Events a view was asked about, by view and outcome.",
            ("view", "outcome"),
            self.view_events,
        )
        responses = {(str(status),): n for status, n in self.push_responses.items()}
        yield _labelled("millpond_push_responses", "Push requests answered, by status.", ("status",), responses)
        errors = {(kind,): n for kind, n in self.store_errors.items()}
        yield _labelled("millpond_store_errors", "Failed store calls, by kind.", ("kind",), errors)
        yield _labelled(
            "millpond_flow_events",
            "Events about flow runs answered, by outcome and reason.",
            ("outcome", "reason"),
            self.flow_events,
        )
        yield _histogram("millpond_flow_event_seconds", "From an event to its answer.", self.flow_event_seconds)
        yield _histogram("millpond_message_seconds", "From arrival to answer.", self.message_seconds)
        yield _histogram("millpond_commit_seconds", "One commit, until durable.", self.commit_seconds)
        yield _histogram("millpond_messages_per_commit", "Messages sharing a commit.", self.messages_per_commit)
        for name, text, value in (
            ("millpond_commits", "Commits applied.", self.commits),
            ("millpond_conflicts", "Commits refused by a precondition.", self.conflicts),
            ("millpond_documents_read", "Documents read from the store.", self.documents_read),
            (
                "millpond_verdicts_checked",
                "Reads that checked a verdict of stale or duplicate from the cache.",
                self.verdicts_checked,
            ),
            ("millpond_documents_written", "Documents written.", self.documents_written),
            ("millpond_letters_buried", "Dead letters written.", self.letters_buried),
            (
                "millpond_log_lines_dropped",
                "Log lines dropped: the output was not read in time.",
                self.log_lines_dropped,
            ),
        ):
            yield CounterMetricFamily(name, text, value=value)
        for name, text, ask in self._gauges:
            known = ask()
            if known is not None:
                yield GaugeMetricFamily(name, text, value=known)


class _Renderer(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics.collect()


def _labelled(name: str, text: str, labels: tuple[str, ...], counts: Mapping[Any, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, n in sorted(counts.items()):
        family.add_metric(values, n)
    return family


def _histogram(name: str, text: str, distribution: Distribution) -> Metric:
    below = 0
    buckets: list[tuple[str, float]] = []
    for bound, n in zip((*distribution.bounds, float("inf")), distribution.counts, strict=True):
        below += n
        buckets.append(("+Inf" if bound == float("inf") else f"{bound}", below))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=distribution.total)
