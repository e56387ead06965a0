"""What a step says of two readings, and what the ring keeps of steps: no clock, no server."""

from __future__ import annotations

import math
import random
import time

import pytest

from millpond.errors import Unavailable
from millpond.metrics import Metrics
from millpond.model import Outcome, Result
from millpond.watch.history import SHOWN_MAX, STEPS_MAX, History, shown_step
from millpond.watch.steps import OUTCOMES, quantile, read

BOUNDS = Metrics().message_seconds.bounds


def test_a_step_is_what_was_gained() -> None:
    """Every counter by its own difference, whatever stood there before."""
    metrics = Metrics()
    metrics.count_message(Result(Outcome.APPLIED, "applied", "t"), 0.002)
    metrics.commits = 7
    history = History(metrics, lambda: 3)
    metrics.count_message(Result(Outcome.APPLIED, "applied", "t"), 0.002)
    metrics.count_message(Result(Outcome.APPLIED, "applied", "u"), 0.002)
    metrics.count_message(Result(Outcome.STALE, "stale_event_ignored", "u"), 0.002)
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
    assert shown_step(quiet).keys() | {"stepSeconds"} == history.shown().keys()


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
        # Beyond every bound nobody knows how far.
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
    history = History(metrics, lambda: 0)
    taken = []
    for number in range(200):
        began = time.perf_counter()
        history.sample(number)
        taken.append(time.perf_counter() - began)
    assert sorted(taken)[len(taken) // 2] < 0.0005
    assert read(metrics).outcomes["applied"] == 20
