"""The last half hour and a little more, in steps of two seconds: what pages draw, and what alerts are decided on.

Sampling reads counters that are there anyway, so a message costs nothing more for it. It must never fail for long,
nor wait for the store: how many letters lie there is asked elsewhere (`totals.py`) and put down here.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millpond import alerts
from millpond.alerts import signals
from millpond.live.sample import OUTCOMES, Step, difference, read
from millpond.telemetry.metrics import Metrics

STEP_S = 2
# Half an hour is shown. Alerts look back further: some compare with half an hour ago, for a while.
SHOWN_MAX = 900
STEPS_MAX = int(alerts.load().needed_s()) // STEP_S + 1
# What each view counted is shown by the minute.
VIEW_STEPS = 30
# What pages are told of a step; the rest is for alerts.
_SHOWN = ("p50", "p99", "waiting", "commits", "committed", "buried")
_COLUMNS = tuple(name for name in Step.__struct_fields__ if name != "views")


class Columns:
    """One list for each figure, equally long, the oldest step first."""

    def __init__(self) -> None:
        self.at: deque[float] = deque(maxlen=STEPS_MAX)
        self.outcomes = {name: deque[int](maxlen=STEPS_MAX) for name in OUTCOMES}
        # By view and outcome; only those that ever occurred.
        self.views: dict[str, dict[str, deque[int]]] = {}
        self.signals = {name: deque[int](maxlen=STEPS_MAX) for name in signals.COUNTERS}
        self.commits: deque[int] = deque(maxlen=STEPS_MAX)
        self.committed: deque[int] = deque(maxlen=STEPS_MAX)
        self.buried: deque[int] = deque(maxlen=STEPS_MAX)
        self.p50: deque[float | None] = deque(maxlen=STEPS_MAX)
        self.p99: deque[float | None] = deque(maxlen=STEPS_MAX)
        self.waiting: deque[int] = deque(maxlen=STEPS_MAX)
        self.letters: deque[int | None] = deque(maxlen=STEPS_MAX)
        self.store_failing: deque[float] = deque(maxlen=STEPS_MAX)

    def append(self, step: Step) -> None:
        for name in _COLUMNS:
            column, value = getattr(self, name), getattr(step, name)
            if isinstance(value, dict):
                for key, n in value.items():
                    column[key].append(n)
            else:
                column.append(value)
        self._append_views(step.views)

    def _append_views(self, gained: Mapping[str, Mapping[str, int]]) -> None:
        """Called when the step is in `at`: a series that begins with it is filled up with the zeros it missed."""
        for view, outcomes in gained.items():
            known = self.views.setdefault(view, {})
            for outcome in outcomes.keys() - known.keys():
                known[outcome] = deque([0] * (len(self.at) - 1), maxlen=STEPS_MAX)
        for view, known in self.views.items():
            outcomes = gained.get(view, {})
            for outcome, column in known.items():
                column.append(outcomes.get(outcome, 0))


class History:
    """The ring of steps. `sample` is called once a step, by whoever has a clock."""

    def __init__(
        self, metrics: Metrics, waiting: Callable[[], int], store_failing_s: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.columns = Columns()
        # How many letters lie in the store; None until somebody counted.
        self.letters: int | None = None
        self._metrics = metrics
        self._waiting = waiting
        self._store_failing_s = store_failing_s
        self._last = read(metrics)

    def sample(self, at: float) -> Step:
        """Add the step that ends now; `at` is the time in epoch seconds."""
        reading = read(self._metrics)
        step = difference(
            self._last,
            reading,
            bounds=self._metrics.message_seconds.bounds,
            at=round(at, 1),
            waiting=self._waiting(),
            letters=self.letters,
            store_failing=round(self._store_failing_s(), 1),
        )
        self._last = reading
        self.columns.append(step)
        return step

    def shown(self) -> dict[str, Any]:
        """The last half hour, as a page wants it."""
        columns = self.columns
        return {
            "stepSeconds": STEP_S,
            "viewSteps": VIEW_STEPS,
            "at": _newest(columns.at),
            "outcomes": {name: _newest(column) for name, column in columns.outcomes.items()},
            "views": _occurring(columns.views),
            **{name: [_short(value) for value in _newest(getattr(columns, name))] for name in _SHOWN},
        }


def _newest(column: Sequence[Any]) -> list[Any]:
    return list(column)[-SHOWN_MAX:]


def _occurring(views: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, dict[str, list[int]]]:
    """The series that are not all zeros, a minute at a time: with every step they would be most of what is sent."""
    shown = {
        view: {outcome: sums for outcome, column in columns.items() if any(sums := _stretches(_newest(column)))}
        for view, columns in views.items()
    }
    return {view: columns for view, columns in shown.items() if columns}


def _stretches(steps: list[int]) -> list[int]:
    """Sums of VIEW_STEPS steps each, the last ending with the newest step; the first may have fewer."""
    first = len(steps) % VIEW_STEPS
    bounds = [0] * (first > 0) + [*range(first, len(steps) + 1, VIEW_STEPS)]
    return [sum(steps[start:end]) for start, end in itertools.pairwise(bounds)]


def shown_step(step: Step) -> dict[str, Any]:
    """One step under the names of `History.shown`."""
    figures = {name: _short(getattr(step, name)) for name in _SHOWN}
    return {"at": step.at, "outcomes": step.outcomes, "views": step.views, **figures}


def _short(value: float | None) -> float | None:
    """Three digits of a latency are plenty: a page is sent nine hundred of them."""
    return float(f"{value:.3g}") if isinstance(value, float) else value
