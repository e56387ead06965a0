"""A signal is the same thing to the process and to Prometheus, and all of its places know it."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from millpond.alerts.definitions import load
from millpond.alerts.signals import COUNTERS, GAUGES, of_view, totals
from millpond.core.model import Outcome
from millpond.telemetry.metrics import Metrics

ALERTS = load()


def busy() -> Metrics:
    """Every status, kind and outcome, each a different number of times, so that no two sums agree by chance."""
    metrics = Metrics()
    for n, status in enumerate((200, 400, 401, 404, 408, 413, 429, 500, 503)):
        metrics.push_responses[status] = 2**n
    for n, kind in enumerate(("Unavailable", "AccessDenied", "WriteRefused")):
        metrics.store_errors[kind] = 3**n
    for n, outcome in enumerate(Outcome):
        metrics.view_events["ticks", outcome] = 5**n
        metrics.view_events["bars", outcome] = 7**n
    metrics.letters_buried = 11
    return metrics


def selected(selector: str, metrics: Metrics) -> float:
    """What Prometheus would add up: a name, and labels that equal, differ or match."""
    name, _, labels = selector.rstrip("}").partition("{")
    wanted = re.findall(r'(\w+)(=~|!=|=)"([^"]*)"', labels)
    families = text_string_to_metric_families(metrics.render().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return sum(
        sample.value
        for sample in samples
        if all(_fits(sample.labels[label], how, text) for label, how, text in wanted)
    )


def _fits(value: str, how: str, text: str) -> bool:
    if how == "=~":
        return re.fullmatch(text, value) is not None
    return (value == text) == (how == "=")


def test_a_process_counts_what_prometheus_counts() -> None:
    """Each signal, from one set of counters, by both ways."""
    metrics = busy()
    assert totals(metrics) == {name: selected(selector, metrics) for name, selector in COUNTERS.items()}
    assert len(set(totals(metrics).values())) == len(COUNTERS)


def test_what_each_signal_counts() -> None:
    """429 is a request, and no 4xx; a refused write is neither transient nor denied."""
    counted = totals(busy())
    assert counted["push_requests"] == 511
    assert counted["push_4xx"] == 2 + 4 + 8 + 16 + 32
    assert counted["push_5xx"] == 128 + 256
    assert (counted["transient_errors"], counted["denied_errors"]) == (1, 3)


def test_a_fresh_process_has_counted_nothing() -> None:
    """And is asked without leaving a trace."""
    metrics = Metrics()
    before = metrics.render()
    assert set(totals(metrics).values()) == {0}
    assert metrics.render() == before


def test_who_sees_a_signal_has_it() -> None:
    """The data says process and Prometheus of exactly those that are found there."""
    for place in ("process", "prometheus"):
        assert {name for name, signal in ALERTS.signals.items() if place in signal.seen_by} == {*COUNTERS, *GAUGES}


def test_the_signals_of_views_add_up_to_those_of_the_process() -> None:
    """Each signal that a case measures by view, and no other; a view without a stale event has zeros."""
    measured = {
        name for alert in ALERTS.alerts for case in alert.cases if case.by for name in (case.signal, case.of)
    }
    metrics = busy()
    views = [of_view({str(o): [0, metrics.view_events[view, o]] for o in Outcome}) for view in ("ticks", "bars")]
    for name in measured:
        assert name is not None
        assert sum(view[name][1] for view in views) == totals(metrics)[name]
        assert all(view[name][0] == 0 for view in views)
    assert {frozenset(view) for view in views} == {frozenset(measured)}
    assert of_view({"applied": [1, 2], "poison": [3, 0]}) == {"events": [4, 2], "stale": [0, 0]}
