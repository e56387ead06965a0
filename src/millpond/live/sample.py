"""One step of the history: the difference between two readings of the counters. Pure; `history` calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from millpond.alerts import signals
from millpond.core.model import Outcome
from millpond.telemetry.metrics import Metrics

OUTCOMES = tuple(str(outcome) for outcome in Outcome)


class Reading(NamedTuple):
    """The counters at one moment; each only ever grows."""

    outcomes: Mapping[str, int]
    # Events by view and outcome: outcomes of one message may differ between views.
    views: Mapping[tuple[str, str], int]
    # The counters of alerts, by signal.
    signals: Mapping[str, int]
    commits: int
    # Messages in those commits.
    committed: int
    buried: int
    # How many messages were answered within each bound of `Metrics.message_seconds`.
    seconds: tuple[int, ...]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one step. Quantiles are None if no message arrived, `letters` until they were counted.

    `views` has the outcomes of each view's events, only those that occurred in this step.
    """

    at: float
    outcomes: dict[str, int]
    views: dict[str, dict[str, int]]
    signals: dict[str, int]
    commits: int
    committed: int
    buried: int
    p50: float | None
    p99: float | None
    waiting: int
    letters: int | None
    # Seconds for which every read, or every commit, of the store has failed.
    store_failing: float = 0.0
    # How many messages were answered within each bound of `Metrics.message_seconds`.
    seconds: tuple[int, ...] = ()


def read(metrics: Metrics) -> Reading:
    outcomes = dict.fromkeys(OUTCOMES, 0)
    for (_, outcome, _), n in metrics.messages.items():
        outcomes[outcome] += n
    return Reading(
        outcomes,
        dict(metrics.view_events),
        signals.totals(metrics),
        metrics.commits,
        round(metrics.messages_per_commit.total),
        metrics.letters_buried,
        tuple(metrics.message_seconds.counts),
    )


def difference(
    before: Reading,
    after: Reading,
    *,
    bounds: Sequence[float],
    at: float,
    waiting: int,
    letters: int | None,
    store_failing: float = 0.0,
) -> Step:
    """The step between two readings; `bounds` are those of `Reading.seconds`."""
    seconds = [now - then for then, now in zip(before.seconds, after.seconds, strict=True)]
    return Step(
        at=at,
        outcomes=_gained(before.outcomes, after.outcomes),
        views=_gained_by_view(before.views, after.views),
        signals=_gained(before.signals, after.signals),
        commits=after.commits - before.commits,
        committed=after.committed - before.committed,
        buried=after.buried - before.buried,
        p50=quantile(0.50, seconds, bounds),
        p99=quantile(0.99, seconds, bounds),
        waiting=waiting,
        letters=letters,
        store_failing=store_failing,
        seconds=tuple(seconds),
    )


def quantile(share: float, counts: Sequence[int], bounds: Sequence[float]) -> float | None:
    """The value below which `share` of the observations are, interpolated linearly between two bounds.

    Above the last bound it returns that bound, because larger values are unknown.
    """
    wanted = share * sum(counts)
    if wanted == 0:
        return None
    below = 0
    lower = 0.0
    for bound, n in zip(bounds, counts, strict=False):
        if below + n >= wanted:
            return round(lower + (bound - lower) * (wanted - below) / n, 6)
        below += n
        lower = bound
    return lower


def _gained(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: n - before[name] for name, n in after.items()}


def _gained_by_view(
    before: Mapping[tuple[str, str], int], after: Mapping[tuple[str, str], int]
) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (view, outcome), n in after.items():
        if gained := n - before.get((view, outcome), 0):
            found.setdefault(view, {})[str(outcome)] = gained
    return found
