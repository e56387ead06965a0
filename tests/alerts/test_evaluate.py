"""The states a process shows, from its history alone: at each threshold, from both sides, and in plain words."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import msgspec
import pytest

from millpond.alerts.definitions import Alert, Alerts, load
from millpond.alerts.evaluate import AlertState, Series, evaluate
from millpond.alerts.signals import COUNTERS, GAUGES

ALERTS = load()
STEP_S = 2
BEGAN = 1_770_000_000
TOO_FEW = "fewer than 10 in number, too few to judge."
Counts = Mapping[int, float]


def history(seconds: int, counted: Mapping[str, Counts] | None = None, **steady: float) -> Series:
    """So many seconds of steps: `counted` at these seconds, and the rest the same in every step; else nothing."""
    ends = range(STEP_S, seconds + 1, STEP_S)
    columns: dict[str, list[float | None]] = {
        name: [steady.get(name, 0)] * len(ends) for name in (*COUNTERS, *GAUGES)
    }
    for name, counts in (counted or {}).items():
        for second, n in counts.items():
            columns[name][second // STEP_S - 1] = n
    return Series([BEGAN + end for end in ends], columns)


def state_of(alert_id: str, series: Series, before: tuple[AlertState, ...] = ()) -> AlertState:
    (state,) = (state for state in evaluate(ALERTS, series, before) if state.id == alert_id)
    return state


def told(alert_id: str, series: Series) -> tuple[str, str]:
    state = state_of(alert_id, series)
    return state.state, state.text


def after(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(BEGAN + seconds, dt.UTC)


def test_a_quiet_process_is_ok() -> None:
    """Whatever it can see; and says where the rest is seen."""
    states = {state.id: state for state in evaluate(ALERTS, history(3_000))}
    assert [state.id for state in states.values()] == [alert.id for alert in ALERTS.alerts]
    unseen = {"dlq", "oldest-unacked", "backlog"}
    assert {name for name, state in states.items() if state.state == "unseen"} == unseen
    assert {state.state for name, state in states.items() if name not in unseen} == {"ok"}
    assert {state.since for state in states.values()} == {None}
    assert states["push-5xx"].text == "No push requests in the last 5 minutes."
    assert states["push-5xx"].value is None
    assert states["backlog"].text == (
        "This process cannot see messages waiting in the subscriptions; Cloud Monitoring does."
    )


def test_a_state_has_the_contracts_fields() -> None:
    """As a page reads it."""
    found = msgspec.json.decode(msgspec.json.encode(state_of("letters", history(302, letters=3))))
    assert found == {
        "id": "letters",
        "title": "Dead letters in the store",
        "state": "warning",
        "value": 3,
        "unit": "letters",
        "text": "Dead letters in the store: 3.",
        "since": after(302).isoformat().replace("+00:00", "Z"),
        "runbook": "runbook#letters",
        "view": None,
    }


@pytest.mark.parametrize(
    ("seconds", "state", "text"),
    [
        (2, "ok", "Dead letters in the store: 1, for 0 seconds; warning after 5 minutes."),
        (300, "ok", "Dead letters in the store: 1, for 4 minutes; warning after 5 minutes."),
        (302, "warning", "Dead letters in the store: 1."),
        (900, "warning", "Dead letters in the store: 1."),
        (902, "critical", "Dead letters in the store: 1."),
    ],
)
def test_a_letter_warns_after_five_minutes_and_is_critical_after_fifteen(
    seconds: int, state: str, text: str
) -> None:
    """Counted from when it was first seen, which is the end of the first step."""
    assert told("letters", history(seconds, letters=1)) == (state, text)


def test_a_letter_that_was_gone_for_a_moment_begins_anew() -> None:
    """Without a break means every step."""
    assert told("letters", history(400, {"letters": {200: 0}}, letters=1))[0] == "ok"
    assert told("letters", history(502, {"letters": {200: 0}}, letters=1))[0] == "warning"


def test_letters_nobody_has_counted_yet_are_unseen() -> None:
    """Until the store has answered once; and they have not grown by being counted."""
    series = history(4_000)
    unknown = Series(series.at, {**series.columns, "letters": [None] * len(series.at)})
    assert told("letters", unknown)[0] == "ok"  # no letter was buried, which is known
    only = Alerts(ALERTS.signals, (Alert("letters", "", "", (ALERTS.alerts[0].cases[0],)),))
    (state,) = evaluate(only, unknown)
    assert (state.state, state.text) == ("unseen", "Not known yet: dead letters in the store.")
    known = Series(series.at, {**series.columns, "letters": [None] * (len(series.at) - 1) + [40]})
    assert told("letters", known) == (
        "ok",
        "Dead letters in the store: 40, for 0 seconds; warning after 5 minutes.",
    )


def value_of_growth(series: Series) -> float | None:
    (state,) = evaluate(Alerts(ALERTS.signals, (Alert("letters", "", "", (ALERTS.alerts[0].cases[2],)),)), series)
    return state.value


def test_growth_is_measured_from_exactly_the_window_ago() -> None:
    """A letter is growth for five minutes, and then it only lies there; one that was there at first never is."""
    until = {seconds: {"letters": dict.fromkeys(range(102, seconds + 1, 2), 2)} for seconds in (400, 402)}
    assert value_of_growth(history(400, until[400], letters=1)) == 1
    assert value_of_growth(history(402, until[402], letters=1)) == 0
    assert value_of_growth(history(2, letters=7)) == 0
    series = history(4)
    assert value_of_growth(Series(series.at, {**series.columns, "letters": [None, 40]})) == 0


def test_what_is_about_to_fire_is_told_before_what_is_well() -> None:
    """One failure in a thousand is a small share, and may be the first of many."""
    series = history(400, {"push_5xx": {340: 1}}, push_requests=1_000)
    assert told("push-5xx", series) == (
        "ok",
        "Push requests answered 5xx in the last 2 minutes: 1, for 1 minute; critical after 15 minutes.",
    )


def test_ten_letters_in_ten_minutes_are_no_burst_eleven_are() -> None:
    """And the first of them is forgotten exactly ten minutes later."""
    assert told("letters", history(600, {"letters_buried": {2: 10}}))[0] == "ok"
    assert told("letters", history(600, {"letters_buried": {2: 1, 600: 10}})) == (
        "critical",
        "New dead letters in the last 10 minutes: 11.",
    )
    assert told("letters", history(602, {"letters_buried": {2: 1, 600: 10}}))[0] == "ok"


def test_growth_for_half_an_hour_is_critical() -> None:
    """One letter every four minutes is growth all the time; one in six is not."""

    def growing(every_s: int, seconds: int) -> Series:
        return history(seconds, {"letters": {end: end // every_s for end in range(2, seconds + 1, 2)}})

    only = Alerts(ALERTS.signals, (Alert("letters", "", "", (ALERTS.alerts[0].cases[2],)),))
    # The first letter is seen after 240 s; the half hour begins there.
    assert [state.state for state in evaluate(only, growing(240, 240 + 1_798))] == ["ok"]
    assert [state.state for state in evaluate(only, growing(240, 240 + 1_800))] == ["critical"]
    assert [state.state for state in evaluate(only, growing(360, 7_200))] == ["ok"]


@pytest.mark.parametrize(
    ("bad", "good", "state", "text"),
    [
        (100, 9_900, "ok", "1 % of push requests were answered 5xx over the last 5 minutes."),
        (101, 9_899, "warning", "1.01 % of push requests were answered 5xx over the last 5 minutes."),
        (500, 9_500, "warning", "5 % of push requests were answered 5xx over the last 5 minutes."),
        (501, 9_499, "critical", "5.01 % of push requests were answered 5xx over the last 5 minutes."),
        (9, 0, "ok", "100 % of push requests were answered 5xx over the last 5 minutes; " + TOO_FEW),
        (10, 0, "critical", "100 % of push requests were answered 5xx over the last 5 minutes."),
    ],
)
def test_the_share_of_5xx(bad: int, good: int, state: str, text: str) -> None:
    """Over, not at, the level; and never by fewer than ten."""
    series = history(400, {"push_5xx": {200: bad}, "push_requests": {200: bad, 300: good}})
    assert told("push-5xx", series) == (state, text)


def test_a_share_is_of_its_window_only() -> None:
    """What failed five minutes ago is over, and what succeeded then no longer counts."""
    old = {"push_5xx": {100: 50}, "push_requests": {100: 50, 300: 100}}
    assert state_of("push-5xx", history(398, old)).state == "critical"
    assert state_of("push-5xx", history(400, old)).state == "ok"
    helped = {"push_5xx": {400: 10}, "push_requests": {100: 10_000, 400: 100}}
    assert state_of("push-5xx", history(398 + 2, helped)).value == 10


def test_a_young_process_fires_as_soon_as_it_knows_enough() -> None:
    """Two seconds old: ten failures of ten are an outage, one of three is not. A rate counts its whole window."""
    assert state_of("push-5xx", history(2, push_5xx=10, push_requests=10)).state == "critical"
    assert state_of("push-5xx", history(2, push_5xx=1, push_requests=3)).state == "ok"
    assert state_of("store-transient", history(2, transient_errors=30)).value == 15


def test_some_5xx_all_the_time_is_critical_however_few() -> None:
    """One every two minutes, among thousands, for a quarter of an hour; a gap begins it anew."""

    def few(seconds: int, *, gap: bool) -> Series:
        failures = {end: 1 for end in range(100, seconds + 1, 118) if not gap or end != 100 + 118 * 4}
        return history(seconds, {"push_5xx": failures}, push_requests=1_000)

    assert state_of("push-5xx", few(998, gap=False)).state == "ok"
    assert told("push-5xx", few(1_000, gap=False)) == (
        "critical",
        "Push requests answered 5xx in the last 2 minutes: 1.",
    )
    assert state_of("push-5xx", few(1_000, gap=True)).state == "ok"


@pytest.mark.parametrize(
    ("alert_id", "bad", "of", "minutes", "warning", "critical"),
    [
        ("push-4xx", "push_4xx", "push_requests", 10, 0.001, 0.01),
        ("stale-events", "stale", "events", 10, 0.1, 0.5),
    ],
)
def test_the_other_shares(alert_id: str, bad: str, of: str, minutes: int, warning: float, critical: float) -> None:
    """Each at its level and one over it, of a hundred thousand."""
    for level, state, below in ((warning, "warning", "ok"), (critical, "critical", "warning")):
        at = round(level * 100_000)
        for number, expected in ((at, below), (at + 1, state)):
            series = history(minutes * 60, {bad: {300: number}, of: {300: 100_000}})
            series = series._replace(views={"any": series.columns})
            assert state_of(alert_id, series).state == expected, (number, expected)


def by_view(seconds: int, **views: tuple[Counts, Counts]) -> Series:
    """A history in which each view had these stale events, of these events."""
    one = {name: history(seconds, {"stale": stale, "events": events}) for name, (stale, events) in views.items()}
    every = [series.columns for series in one.values()]
    sums = {
        name: [sum(step[name][n] or 0 for step in every) for n in range(seconds // STEP_S)] for name in COUNTERS
    }
    whole = history(seconds)
    return Series(whole.at, {**whole.columns, **sums}, {name: series.columns for name, series in one.items()})


def test_the_worst_view_decides_and_is_named() -> None:
    """41 ticks, of which one view ignores 40 and the history none: half of all, and nearly all of one view's."""
    series = by_view(60, market_ticks_latest=({10: 40}, {10: 41}), market_ticks=({}, {10: 41}))
    state = state_of("stale-events", series)
    assert (state.state, state.view, state.value) == ("critical", "market_ticks_latest", 97.561)
    assert (
        state.text == "97.6 % of the events of market_ticks_latest were ignored as stale over the last 10 minutes."
    )
    # In whichever order they come, however many others are well, and however much those have to do.
    more: dict[str, tuple[Counts, Counts]] = {f"other_{n}": ({}, {10: 100_000}) for n in range(5)}
    crowd = by_view(60, **more, market_ticks_latest=({10: 40}, {10: 41}))
    assert state_of("stale-events", crowd) == state


def test_every_view_needs_the_least_number_of_its_own() -> None:
    """Ten stale events in each of five views are fifty, and too few in every one."""
    series = by_view(60, **{f"view_{n}": ({10: 10}, {10: 10 + n}) for n in range(5)})
    state = state_of("stale-events", series)
    assert (state.state, state.view) == ("ok", None)
    assert state.text.startswith(
        "100 % of the events of view_0 were ignored as stale over the last 10 minutes; fewer"
    )


def test_of_two_views_the_graver_then_the_higher_share_is_told() -> None:
    """And one that was judged before one with too few events to judge."""
    warns, more, fires = ({10: 30}, {10: 100}), ({10: 200}, {10: 500}), ({10: 51}, {10: 100})
    assert state_of("stale-events", by_view(60, a=warns, b=more)).view == "b"
    assert state_of("stale-events", by_view(60, a=fires, b=warns)).view == "a"
    assert state_of("stale-events", by_view(60, b=warns, a=fires)).state == "critical"
    assert (
        "events of b were"
        in state_of("stale-events", by_view(60, a=({10: 3}, {10: 3}), b=({10: 20}, {10: 900}))).text
    )
    quiet = by_view(700, a=({10: 40}, {10: 40}), b=({}, {690: 5}))
    assert told("stale-events", quiet) == (
        "ok",
        "0 % of the events of b were ignored as stale over the last 10 minutes.",
    )


def test_no_view_has_had_an_event() -> None:
    """Before the first event there is no view at all; afterwards there may be one that is quiet."""
    for series in (history(60), by_view(700, a=({10: 40}, {10: 40}))):
        assert told("stale-events", series) == ("ok", "No events in the last 10 minutes.")


@pytest.mark.parametrize(("a_minute", "state"), [(5, "warning"), (20, "critical")])
def test_transient_errors_for_ten_minutes(a_minute: int, state: str) -> None:
    """At the level is enough, and ten minutes of it; the window of two fills first."""
    steady = {"transient_errors": dict.fromkeys(range(60, 3_000, 60), a_minute)}
    below = {"transient_errors": {**dict.fromkeys(range(60, 3_000, 60), a_minute), 660: a_minute - 1}}
    assert state_of("store-transient", history(718, {"transient_errors": _until(steady, 718)})).state != state
    assert state_of("store-transient", history(720, {"transient_errors": _until(steady, 720)})).state == state
    assert state_of("store-transient", history(720, {"transient_errors": _until(below, 720)})).state != state


def _until(counted: Mapping[str, Counts], seconds: int) -> Counts:
    return {second: n for second, n in counted["transient_errors"].items() if second <= seconds}


def test_one_denied_call_is_critical_at_once_and_for_five_minutes() -> None:
    """Nothing works until an operator acts."""
    denied = {"denied_errors": {100: 1}}
    assert told("store-denied", history(100, denied)) == (
        "critical",
        "Store calls denied in the last 5 minutes: 1.",
    )
    assert state_of("store-denied", history(100, denied)).since == after(100)
    assert state_of("store-denied", history(398, denied)).state == "critical"
    assert state_of("store-denied", history(400, denied)).state == "ok"


def test_a_state_keeps_its_since_until_it_changes() -> None:
    """Also when the history no longer reaches back to where it began."""
    first = state_of("letters", history(902, letters=1))
    assert first.since == after(902)
    later = history(9_000, letters=1)
    short = Series(later.at[-900:], {name: column[-900:] for name, column in later.columns.items()})
    assert state_of("letters", short).since != after(902)
    assert state_of("letters", short, (first,)).since == after(902)
    warning = msgspec.structs.replace(first, state="warning")
    assert state_of("letters", short, (warning,)).since != after(902)
    gone = state_of("letters", history(902), (first,))
    assert (gone.state, gone.since) == ("ok", None)


def test_no_history_at_all() -> None:
    """A process that has not made a step yet knows nothing, and does not fail."""
    states = evaluate(ALERTS, history(0))
    assert {state.state for state in states} == {"unseen"}
    assert {state.value for state in states} == {None}
