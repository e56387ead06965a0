"""What a step says of two readings, and what the ring keeps of steps: no clock, no server."""

from __future__ import annotations

import math
import random
import time

import pytest

from millpond.core.errors import Unavailable
from millpond.core.model import Outcome, Result, ViewResult
from millpond.live.alerting import Alerting
from millpond.live.history import SHOWN_MAX, STEPS_MAX, VIEW_STEPS, History, shown_step
from millpond.live.sample import OUTCOMES, quantile, read
from millpond.telemetry.metrics import Metrics

BOUNDS = Metrics().message_seconds.bounds


def test_a_step_is_what_was_gained() -> None:
    """Every counter by its own difference, whatever stood there before."""
    metrics = Metrics()
    metrics.count_message(Result(Outcome.APPLIED, "applied", "t"), 0.002)
    metrics.commits = 7
    history = History(metrics, lambda: 3)
    metrics.count_message(Result(Outcome.APPLIED, "applied", "t"), 0.002)
    metrics.count_message(Result(Outcome.APPLIED, "applied", "u"), 0.002)
    metrics.count_message(Result(Outcome.STALE, "stale_event_ignored", "u", [view("v", Outcome.STALE)]), 0.002)
    metrics.push_responses[503] += 2
    metrics.store_errors[Unavailable.__name__] += 4
    metrics.letters_buried += 5
    metrics.commits += 1
    metrics.messages_per_commit.observe(3)
    step = history.sample(1_000.12345)
    assert step.outcomes == {**dict.fromkeys(OUTCOMES, 0), "applied": 2, "stale_ignored": 1}
    assert (step.commits, step.committed, step.buried, step.waiting) == (1, 3, 5, 3)
    assert (step.signals["push_5xx"], step.signals["transient_errors"], step.signals["stale"]) == (2, 4, 1)
    assert (step.at, step.letters) == (1_000.1, None)
    assert step.p50 is not None
    assert 0.001 < step.p50 <= 0.0025
    history.letters = 9
    quiet = history.sample(1_002.0)
    assert (quiet.outcomes["applied"], quiet.commits, quiet.p50, quiet.p99, quiet.letters) == (0, 0, None, None, 9)
    assert shown_step(quiet).keys() | {"stepSeconds", "viewSteps"} == history.shown().keys()


def view(name: str, outcome: Outcome) -> ViewResult:
    return ViewResult(name, f"{name}/1", outcome, "reason")


def tick(*, stale: bool) -> Result:
    """One message for two views: the history applies it, the latest tick may be newer."""
    latest = Outcome.STALE if stale else Outcome.APPLIED
    views = [view("market_ticks_latest", latest), view("market_ticks", Outcome.APPLIED)]
    return Result(Outcome.APPLIED, "applied", "market-ticks", views)


def test_a_step_has_the_outcomes_of_each_view() -> None:
    """Which the outcomes of messages do not tell: all 41 were applied by some view."""
    metrics = Metrics()
    metrics.expect_views(["market_ticks_latest", "market_ticks", "trade_signals"])
    metrics.count_message(tick(stale=True), 0.002)
    history = History(metrics, lambda: 0)
    for number in range(41):
        metrics.count_message(tick(stale=number > 0), 0.002)
    step = history.sample(1_000)
    assert step.outcomes["applied"] == 41
    assert step.views == {
        "market_ticks_latest": {"applied": 1, "stale_ignored": 40},
        "market_ticks": {"applied": 41},
    }
    assert shown_step(step)["views"] == step.views
    assert history.sample(1_002).views == {}
    assert metrics.events_by_view()["market_ticks_latest"] == {"stale_ignored": 41, "applied": 1}
    assert "trade_signals" not in metrics.events_by_view()


def test_a_view_that_begins_late_is_as_long_as_the_others() -> None:
    """With zeros before, so that a number stands beside the time it belongs to."""
    metrics = Metrics()
    history = History(metrics, lambda: 0)
    for number in range(5):
        if number in {2, 4}:
            metrics.count_message(tick(stale=number == 4), 0.002)
        history.sample(number)
    found = {name: {o: list(column) for o, column in by.items()} for name, by in history.columns.views.items()}
    assert found == {
        "market_ticks_latest": {"applied": [0, 0, 1, 0, 0], "stale_ignored": [0, 0, 0, 0, 1]},
        "market_ticks": {"applied": [0, 0, 1, 0, 1]},
    }


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        (1, [1]),
        (VIEW_STEPS, [VIEW_STEPS]),
        (VIEW_STEPS + 7, [7, VIEW_STEPS]),
        (2 * VIEW_STEPS, [VIEW_STEPS, VIEW_STEPS]),
        (SHOWN_MAX + 45, [VIEW_STEPS] * (SHOWN_MAX // VIEW_STEPS)),
    ],
)
def test_views_are_shown_by_the_minute(steps: int, wanted: list[int]) -> None:
    """Stretches end with the newest step, so a page begins another with its first sample."""
    metrics = Metrics()
    history = History(metrics, lambda: 0)
    for number in range(steps):
        metrics.count_message(tick(stale=True), 0.002)
        history.sample(number)
    shown = history.shown()
    assert shown["viewSteps"] == VIEW_STEPS == 60 // shown["stepSeconds"]
    assert shown["views"]["market_ticks_latest"] == {"stale_ignored": wanted}


def test_a_page_is_told_only_of_views_that_had_events() -> None:
    """A series that is all zeros within the half hour is left out, though alerts still look back on it."""
    metrics = Metrics()
    metrics.expect_views(["market_ticks", "trade_signals"])
    history = History(metrics, lambda: 0)
    metrics.count_message(tick(stale=True), 0.002)
    for number in range(SHOWN_MAX):
        history.sample(number)
    assert {name: len(columns) for name, columns in history.shown()["views"].items()} == {
        "market_ticks_latest": 1,
        "market_ticks": 1,
    }
    history.sample(SHOWN_MAX)
    assert history.shown()["views"] == {}
    assert sum(history.columns.views["market_ticks_latest"]["stale_ignored"]) == 1
    for number in range(SHOWN_MAX, STEPS_MAX + 10):
        history.sample(number)
    metrics.count_message(tick(stale=False), 0.002)
    history.sample(STEPS_MAX + 10)
    lengths = {len(column) for columns in history.columns.views.values() for column in columns.values()}
    assert lengths == {STEPS_MAX} == {len(history.columns.at)}


def test_alerts_are_decided_on_the_worst_view() -> None:
    """From counters to the state a page shows."""
    metrics = Metrics()
    history = History(metrics, lambda: 0)
    alerting = Alerting()
    for number in range(41):
        metrics.count_message(tick(stale=number > 0), 0.002)
    history.sample(1_000)
    (state,) = (state for state in alerting(history) if state.id == "stale-events")
    assert (state.state, state.view) == ("critical", "market_ticks_latest")


def test_the_ring_forgets_the_oldest() -> None:
    """Pages get half an hour, alerts what they look back on; all columns equally long, in order."""
    metrics = Metrics()
    history = History(metrics, lambda: 0)
    for number in range(STEPS_MAX + 100):
        metrics.commits += number
        history.sample(number)
    shown = history.shown()
    assert shown["at"] == list(range(STEPS_MAX + 100))[-SHOWN_MAX:]
    assert shown["commits"] == shown["at"]
    lengths = {len(column) for column in (*shown["outcomes"].values(), shown["p50"], shown["waiting"])}
    assert lengths == {SHOWN_MAX} == {900}
    assert {len(column) for column in history.columns.signals.values()} == {STEPS_MAX}
    assert len(history.columns.letters) == STEPS_MAX


@pytest.mark.parametrize(
    ("counts", "share", "wanted"),
    [
        ([0, 0, 0, 0], 0.5, None),
        ([10, 0, 0, 0], 0.5, 0.5),
        ([0, 10, 0, 0], 0.5, 1.5),
        ([5, 5, 0, 0], 0.5, 1.0),
        ([1, 0, 0, 0], 0.99, 0.99),
        ([0, 0, 4, 0], 0.25, 2.5),
        ([99, 0, 1, 0], 0.99, 1.0),
        ([98, 0, 2, 0], 0.99, 3.0),
        # Beyond every bound it is unknown how far.
        ([0, 0, 0, 3], 0.5, 4.0),
        ([1, 0, 0, 99], 0.99, 4.0),
    ],
)
def test_quantiles(counts: list[int], share: float, wanted: float | None) -> None:
    """Between two bounds the observations are taken to lie evenly."""
    assert quantile(share, counts, (1.0, 2.0, 4.0)) == wanted


def test_quantiles_lie_in_the_bucket_of_the_true_one() -> None:
    """Against the observations themselves, for many random histories."""
    draw = random.Random(7)
    for _ in range(300):
        metrics = Metrics()
        seen = sorted(draw.lognormvariate(-5, 1.5) for _ in range(draw.randint(1, 400)))
        for value in seen:
            metrics.message_seconds.observe(value)
        for share in (0.5, 0.99):
            true = seen[math.ceil(share * len(seen)) - 1]
            found = quantile(share, metrics.message_seconds.counts, BOUNDS)
            lower = max((bound for bound in (0.0, *BOUNDS) if bound < true), default=0.0)
            upper = min((bound for bound in BOUNDS if bound >= true), default=BOUNDS[-1])
            assert found is not None
            assert lower <= found <= upper


def test_reading_is_quick() -> None:
    """It happens every two seconds beside the messages: a tenth of a millisecond, also with many series."""
    metrics = Metrics()
    for topic in range(20):
        for outcome in Outcome:
            metrics.messages[f"t{topic}", outcome, "r"] += 1
            metrics.view_events[f"v{topic}", outcome] += 1
    history = History(metrics, lambda: 0)
    taken = []
    for number in range(200):
        began = time.perf_counter()
        history.sample(number)
        taken.append(time.perf_counter() - began)
    assert sorted(taken)[len(taken) // 2] < 0.0005
    assert read(metrics).outcomes["applied"] == 20
