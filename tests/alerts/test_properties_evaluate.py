"""Any case on any history, against a slower and simpler reading of the same words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millpond.alerts.definitions import Alert, Alerts, Case, Level, Measure, Signal
from millpond.alerts.evaluate import Series, evaluate
from tests.common.properties import examples

MEASURES: tuple[Measure, ...] = ("level", "growth", "count", "rate", "share")


def measured(case: Case, series: Series, step: int) -> tuple[float | None, float]:
    """The value after a step, added up as a person would, and what `least` is about."""
    now = series.at[step]
    inside = [n for n in range(step + 1) if now - case.window_s < series.at[n]]
    column = [value or 0 for value in series.columns[case.signal]]
    counted = sum(column[n] for n in inside)
    if case.measure == "level":
        return column[step], 0
    if case.measure == "growth":
        before = [n for n in range(step + 1) if series.at[n] <= now - case.window_s] or [0]
        return column[step] - column[before[-1]], column[step]
    if case.measure == "share":
        whole = sum(series.columns["whole"][n] or 0 for n in inside)
        return (counted / whole if whole else None), counted
    return (counted if case.measure == "count" else counted / (case.window_s / 60)), 0


def holds(case: Case, series: Series, step: int, level: Level) -> bool:
    value, number = measured(case, series, step)
    if value is None or number < case.least:
        return False
    return value > level.above if level.above is not None else value >= level.bound


def slowly(case: Case, series: Series) -> str:
    """ok, warning or critical, by looking at every stretch of time that ends now."""
    steps = range(len(series.at))
    for severity, level in (("critical", case.critical), ("warning", case.warning)):
        if level is not None and any(
            series.at[-1] - series.at[first] >= level.for_s
            and all(holds(case, series, step, level) for step in steps[first:])
            for first in steps
        ):
            return severity
    return "ok"


def levels(bounds: st.SearchStrategy[float]) -> st.SearchStrategy[Level]:
    lasting = st.integers(0, 20)
    return st.builds(Level, above=bounds, for_s=lasting) | st.builds(Level, at_least=bounds, for_s=lasting)


# About where the values are, or nothing would ever be close.
gauged, counted = levels(st.sampled_from([-1.0, 0.0, 1.0])), levels(st.integers(0, 6).map(float))
shares = levels(st.sampled_from([0.0, 0.25, 0.5]))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    measure = draw(st.sampled_from(MEASURES))
    level = {"share": shares, "level": gauged, "growth": gauged}.get(measure, counted)
    return Case(
        name="any",
        says="{value}",
        unit="",
        measure=measure,
        signal="part",
        of="whole" if measure == "share" else None,
        by=draw(st.none() | st.just("view")) if measure == "share" else None,
        window_s=0 if measure == "level" else draw(st.sampled_from([3, 6, 15, 60])),
        least=draw(st.integers(0, 3)) if measure in {"share", "growth"} else 0,
        warning=draw(level),
        critical=draw(st.none() | level),
    )


@st.composite
def histories(draw: st.DrawFn) -> Series:
    """Steps of uneven length, as after a pause of the process."""
    step = st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 5))
    steps = draw(st.lists(step, min_size=1, max_size=40))
    at: list[float] = []
    for length, _, _ in steps:
        at.append((at[-1] if at else 0) + length)
    columns = {"part": [n for _, n, _ in steps], "whole": [n + more for _, n, more in steps]}
    # Each step's events fall to one view, or to the other.
    owners = draw(st.lists(st.booleans(), min_size=len(at), max_size=len(at)))
    views = {
        f"{view}": {
            name: [n * (owner is view) for n, owner in zip(column, owners, strict=True)]
            for name, column in columns.items()
        }
        for view in (False, True)
    }
    return Series(at, columns, views)


@given(cases(), histories())
@examples(800)
def test_a_state_is_what_the_words_say(case: Case, series: Series) -> None:
    """Windows by bisection, sums by difference and the run back in time, against none of those."""
    signals = {name: Signal(name, ("process",)) for name in ("part", "whole")}
    (state,) = evaluate(Alerts(signals, (Alert("any", "", "", (case,)),)), series)
    if case.by is None:
        assert (state.state, state.view) == (slowly(case, series), None)
        return
    alone = {view: slowly(case, Series(series.at, columns)) for view, columns in series.views.items()}
    worst = min(alone.values(), key=["critical", "warning", "ok"].index)
    assert state.state == worst
    assert state.view is None if worst == "ok" else alone[str(state.view)] == worst
