"""The state of each alert, from the last half hour of one process. Pure: no clock, no I/O. `live` calls it.

A process evaluates its own counters only. Other instances have their own states, and a signal that only Pub/Sub has
is `unseen` here.

The window of a measurement ends with the newest step. `for_s` is counted back from there, for as long as the level
was reached without a break. A new process has no earlier counts. So a rate is divided by its whole window, not by
the part that has passed; a share is judged only if at least `least` were counted; a gauge has grown only since its
first reading. An alert therefore never fires on a few requests, and a lasting condition fires after its window and
its `for_s` at the latest.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

import msgspec

from millpond.alerts.definitions import SEVERITIES, Alert, Alerts, Case, Level
from millpond.alerts.format import amount, span

State = Literal["ok", "warning", "critical", "unseen"]
_Columns = Mapping[str, Sequence[float | None]]
_RANKS: tuple[State, ...] = (*SEVERITIES, "ok", "unseen")


class Series(NamedTuple):
    """Steps of a process' history, oldest first; every column as long as `at`.

    `at` is when each step ended, in epoch seconds. `columns` has, by signal, the count of each step, or the value
    of a gauge; None if the gauge had not been read yet. `views` has, by view, the columns of that view alone, for
    the signals that cases measure by view.
    """

    at: Sequence[float]
    columns: _Columns
    views: Mapping[str, _Columns] = {}


class AlertState(msgspec.Struct, frozen=True):
    """The state for pages. `value` is in `unit`, null if nothing is measured; `since` is when it began to fire.

    `view` is the view that makes it fire, for a case that is measured by view.
    """

    id: str
    title: str
    state: State
    value: float | None
    unit: str
    text: str
    since: dt.datetime | None
    runbook: str
    view: str | None = None


class _Finding(NamedTuple):
    """The state of one case; of one view, if the case is measured by view.

    `pending`: its level is reached, but not yet for `for_s`. `too_few`: less than `least` was counted.
    """

    case: Case
    state: State
    text: str
    value: float | None = None
    since: float | None = None
    pending: bool = False
    too_few: bool = False
    view: str | None = None


def evaluate(alerts: Alerts, series: Series, before: Sequence[AlertState] = ()) -> list[AlertState]:
    """The state of every alert. `before` is the previous result: an unchanged state keeps its `since`.

    Without it, `since` of a condition that is older than the series would move with every step.
    """
    known = {state.id: state for state in before}
    return [_evaluate(alerts, alert, series, known.get(alert.id)) for alert in alerts.alerts]


def _evaluate(alerts: Alerts, alert: Alert, series: Series, before: AlertState | None) -> AlertState:
    findings = [_find(alerts, case, series) for case in alert.cases]
    worst = min(findings, key=_urgency)
    since = None if worst.since is None else dt.datetime.fromtimestamp(worst.since, dt.UTC)
    if before is not None and before.state == worst.state:
        since = before.since
    value = worst.value
    if value is not None:
        value = round(value * 100 if worst.case.measure == "share" else value, 4)
    view = worst.view if worst.state in SEVERITIES else None
    title, unit = alert.title, worst.case.unit
    return AlertState(alert.id, title, worst.state, value, unit, worst.text, since, alert.runbook, view)


def _urgency(finding: _Finding) -> tuple[int, bool]:
    """Sort key: the most severe first, then one that is pending."""
    return _RANKS.index(finding.state), not finding.pending


def _find(alerts: Alerts, case: Case, series: Series) -> _Finding:
    if not alerts.seen(case, "process"):
        text = f"This process cannot see {alerts.signals[case.signal].names}; Cloud Monitoring does."
        return _Finding(case, "unseen", text)
    if case.by is None:
        return _find_one(alerts, case, series.at, series.columns)
    # Before the first event there is no view to name.
    views = series.views or {"all views": series.columns}
    found = [_find_one(alerts, case, series.at, columns, view) for view, columns in views.items()]
    # Of views with equal severity, the highest share; a view with too few events only if there is no other.
    return min(found, key=lambda one: (*_urgency(one), one.too_few, one.value is None, -(one.value or 0)))


def _find_one(
    alerts: Alerts, case: Case, at: Sequence[float], columns: _Columns, view: str | None = None
) -> _Finding:
    ruler, newest = _Ruler(case, at, columns), len(at) - 1
    value = ruler.value(newest)
    if value is None and case.of is not None and at:
        text = f"No {alerts.signals[case.of].names} in the last {span(case.window_s)}."
        return _Finding(case, "ok", text, too_few=True)
    if value is None:
        return _Finding(case, "unseen", f"Not known yet: {alerts.signals[case.signal].names}.")
    said = case.says.format(value=amount(case, value), window=span(case.window_s), view=view)
    found = _Finding(case, "ok", f"{said}.", value, too_few=ruler.too_few(newest), view=view)
    for severity in SEVERITIES:
        level = case.level(severity)
        began = None if level is None else ruler.reached_since(level)
        if level is None or began is None:
            continue
        held_s = at[-1] - began
        if held_s >= level.for_s:
            return found._replace(state=severity, text=f"{said}.", since=began + level.for_s, pending=False)
        # Levels are tried from the most severe on, so the last text is that of the level reached first.
        text = f"{said}, for {span(held_s)}; {severity} after {span(level.for_s)}."
        found = found._replace(text=text, pending=True)
    if not found.pending and found.too_few and value > 0:
        return found._replace(text=f"{said}; fewer than {case.least} in number, too few to judge.")
    return found


class _Ruler:
    """Measures one case at any step of a series."""

    def __init__(self, case: Case, at: Sequence[float], columns: _Columns) -> None:
        self._case = case
        self._at = at
        self._column = columns[case.signal]
        self._sums = _sums(self._column)
        self._whole = _sums(columns[case.of]) if case.of is not None else self._sums

    def value(self, step: int) -> float | None:
        """The case's value at the end of a step; None if there is nothing to measure."""
        case = self._case
        if step < 0:
            return None
        if case.measure == "level":
            return self._column[step]
        if case.measure == "growth":
            now, then = self._column[step], self._column[max(0, self._start(step) - 1)]
            return None if now is None else now - (now if then is None else then)
        count = self._counted(self._sums, step)
        if case.measure == "count":
            return count
        if case.measure == "rate":
            return count * 60 / case.window_s
        whole = self._counted(self._whole, step)
        return count / whole if whole else None

    def too_few(self, step: int) -> bool:
        """Whether the gauge or the count is less than `least`."""
        if not self._case.least:
            return False
        if self._case.measure == "growth":
            return (self._column[step] or 0) < self._case.least
        return self._counted(self._sums, step) < self._case.least

    def reached_since(self, level: Level) -> float | None:
        """The time since which the level has been reached without a break; None if it is not reached now."""
        began = None
        for step in reversed(range(len(self._at))):
            value = self.value(step)
            if value is None or not level.reached_by(value) or self.too_few(step):
                break
            began = self._at[step]
        return began

    def _start(self, step: int) -> int:
        """The first step of the window that ends with this one."""
        return bisect_right(self._at, self._at[step] - self._case.window_s)

    def _counted(self, sums: Sequence[float], step: int) -> float:
        return sums[step + 1] - sums[self._start(step)]


def _sums(column: Sequence[float | None]) -> list[float]:
    """`sums[n]` is the sum of the first n."""
    return list(accumulate((value or 0 for value in column), initial=0))
