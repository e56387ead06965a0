"""Counters for `/metrics`, in base units. Labels are bounded: topics, outcomes and error kinds, never ids."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.messages = Counter(
            "millpond_messages_total",
            "Messages answered, by topic, outcome and reason.",
            ["topic", "outcome", "reason"],
            registry=self.registry,
        )
        self.responses = Counter(
            "millpond_push_responses_total",
            "Push requests answered, by status.",
            ["status"],
            registry=self.registry,
        )
        self.message_seconds = self._histogram(
            "millpond_message_seconds", "From a message's arrival to its answer.", _SECONDS
        )
        self.commit_seconds = self._histogram("millpond_commit_seconds", "One commit, durable.", _SECONDS)
        self.messages_per_commit = self._histogram(
            "millpond_messages_per_commit", "Messages that shared a commit.", _SIZES
        )
        self.commits = self._counter("millpond_commits_total", "Commits applied.")
        self.conflicts = self._counter("millpond_conflicts_total", "Commits refused by a precondition.")
        self.documents_read = self._counter("millpond_documents_read_total", "Documents read from the store.")
        self.documents_written = self._counter("millpond_documents_written_total", "Documents written.")
        self.store_errors = Counter(
            "millpond_store_errors_total", "Failed store calls, by kind.", ["kind"], registry=self.registry
        )
        self.letters = self._counter("millpond_letters_buried_total", "Dead letters written.")
        self.log_lines_dropped = self._counter(
            "millpond_log_lines_dropped_total", "Log lines dropped because nobody read standard output."
        )
        self._message_children: dict[tuple[str, str, str], Counter] = {}

    def count_message(self, topic: str, outcome: str, reason: str) -> None:
        child = self._message_children.get((topic, outcome, reason))
        if child is None:
            child = self._message_children[(topic, outcome, reason)] = self.messages.labels(topic, outcome, reason)
        child.inc()

    def watch(self, name: str, text: str, value: Callable[[], float]) -> None:
        """A gauge that is asked when somebody looks."""
        Gauge(name, text, registry=self.registry).set_function(value)

    def render(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self.registry)
