"""The last half hour and a little more, in steps of two seconds: the data of pages and of alerts.

The monitor calls `sample` once a step. Sampling reads existing counters, so it adds no cost to a message. It must
never wait for the store: `document_counts` counts the letters, and the monitor sets `letters` here.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millpond.alerts import definitions, signals
from millpond.live.sample import OUTCOMES, Step, difference, read
from millpond.telemetry.metrics import Metrics

STEP_S = 2
# Half an hour is shown. Alerts need more: some compare with half an hour ago for several steps.
SHOWN_MAX = 900
STEPS_MAX = int(definitions.load().needed_s()) // STEP_S + 1
# Counts of each view are shown per minute.
VIEW_STEPS = 30
# The columns that pages get; the others are for alerts.
_SHOWN = ("p50", "p99", "waiting", "commits", "committed", "buried")
_COLUMNS = tuple(name for name in Step.__struct_fields__ if name not in {"views", "seconds"})


class Columns:
    """One deque for each figure, all equally long, the oldest step first."""

    def __init__(self) -> None:
        self.at: deque[float] = deque(maxlen=STEPS_MAX)
        self.outcomes = {name: deque[int](maxlen=STEPS_MAX) for name in OUTCOMES}
        # By view and outcome; only those that have occurred.
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
        """Must be called after the step is in `at`. A new series is filled with zeros for the earlier steps."""
        for view, outcomes in gained.items():
            known = self.views.setdefault(view, {})
            for outcome in outcomes.keys() - known.keys():
                known[outcome] = deque([0] * (len(self.at) - 1), maxlen=STEPS_MAX)
        for view, known in self.views.items():
            outcomes = gained.get(view, {})
            for outcome, column in known.items():
                column.append(outcomes.get(outcome, 0))


class History:
    """The ring buffer of steps."""

    def __init__(
        self, metrics: Metrics, waiting: Callable[[], int], store_failing_s: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.columns = Columns()
        # The number of letters in the store; None until they were counted.
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
        """The last half hour, in the form that pages get."""
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
    """The series that are not all zeros, per minute: with every step they would be most of the answer."""
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
    """One step, with the field names of `History.shown`."""
    figures = {name: _short(getattr(step, name)) for name in _SHOWN}
    return {"at": step.at, "outcomes": step.outcomes, "views": step.views, **figures}


def _short(value: float | None) -> float | None:
    """A float with three significant digits, because a page gets nine hundred of them."""
    return float(f"{value:.3g}") if isinstance(value, float) else value
