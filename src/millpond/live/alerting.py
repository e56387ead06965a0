"""Keeps the state of every alert; `alerts.evaluate` decides it. Called by the monitor after each step."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.alerts import definitions, signals
from millpond.alerts.evaluate import AlertState, Series, evaluate
from millpond.live.history import History


class Alerting:
    def __init__(self) -> None:
        self._alerts = definitions.load()
        self._states: list[AlertState] = []

    def __call__(self, history: History) -> Sequence[AlertState]:
        """The states now; an unchanged state keeps its `since`."""
        columns = history.columns
        # Lists, because access to the middle of a deque takes linear time.
        counted = {name: list(column) for name, column in columns.signals.items()}
        views = {view: signals.of_view(outcomes) for view, outcomes in columns.views.items()}
        gauges: dict[str, Sequence[float | None]] = {
            "letters": list(columns.letters),
            "store_failing": list(columns.store_failing),
        }
        series = Series(list(columns.at), {**counted, **gauges}, views)
        self._states = evaluate(self._alerts, series, self._states)
        return self._states
