"""The file of alerts: what it holds is what the specifications ask for, and nothing unclear is taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest

from millpond.alerts.definitions import FILE, Alerts, load, parse

ALERTS = load()


def thresholds(alerts: Alerts) -> set[tuple[Any, ...]]:
    return {
        (alert.id, case.measure, severity, level.comparison, level.bound, case.window_s, level.for_s)
        for alert in alerts.alerts
        for case in alert.cases
        for severity, level in (("warning", case.warning), ("critical", case.critical))
        if level is not None
    }


def test_the_thresholds_are_those_of_the_specifications() -> None:
    """The recommended alerts line by line, and stale events, whose numbers are ours."""
    minute = 60
    assert thresholds(ALERTS) == {
        # DLQ message count, in the store and in Pub/Sub.
        ("letters", "level", "warning", ">", 0, 0, 5 * minute),
        ("letters", "level", "critical", ">", 0, 0, 15 * minute),
        ("letters", "count", "critical", ">", 10, 10 * minute, 0),
        ("dlq", "level", "warning", ">", 0, 0, 5 * minute),
        ("dlq", "level", "critical", ">", 0, 0, 15 * minute),
        ("dlq", "growth", "critical", ">", 10, 10 * minute, 0),
        # DLQ growth rate.
        ("letters", "growth", "critical", ">", 0, 5 * minute, 30 * minute),
        ("dlq", "growth", "critical", ">", 0, 5 * minute, 30 * minute),
        # HTTP error rates.
        ("push-5xx", "share", "warning", ">", 0.01, 5 * minute, 0),
        ("push-5xx", "share", "critical", ">", 0.05, 5 * minute, 0),
        ("push-5xx", "count", "critical", ">", 0, 2 * minute, 15 * minute),
        ("push-4xx", "share", "warning", ">", 0.001, 10 * minute, 0),
        ("push-4xx", "share", "critical", ">", 0.01, 10 * minute, 0),
        # Backlog.
        ("oldest-unacked", "level", "warning", ">", 5 * minute, 0, 0),
        ("oldest-unacked", "level", "critical", ">", 15 * minute, 0, 0),
        ("backlog", "growth", "warning", ">", 0, 5 * minute, 15 * minute),
        ("backlog", "growth", "critical", ">", 0, 5 * minute, 30 * minute),
        # The store.
        ("store-failing", "level", "critical", ">=", 3, 0, 0),
        ("store-transient", "rate", "warning", ">=", 5, 2 * minute, 10 * minute),
        ("store-transient", "rate", "critical", ">=", 20, 2 * minute, 10 * minute),
        ("store-denied", "count", "critical", ">", 0, 5 * minute, 0),
        # 000: "alert on spikes".
        ("stale-events", "share", "warning", ">", 0.1, 10 * minute, 0),
        ("stale-events", "share", "critical", ">", 0.5, 10 * minute, 0),
    }


def test_every_share_has_a_least_number() -> None:
    """One failure of three requests at night is a third of them, and can wait until morning."""
    shares = [case for alert in ALERTS.alerts for case in alert.cases if case.measure == "share"]
    assert {case.least for case in shares} == {10, 20}


def test_every_signal_is_used() -> None:
    """What nothing is measured by would only look as if it were watched."""
    used = {name for alert in ALERTS.alerts for case in alert.cases for name in (case.signal, case.of)}
    assert used - {None} == set(ALERTS.signals)


def test_a_process_must_remember_as_long_as_its_longest_alert() -> None:
    """Half an hour of growth, and the five minutes before it that the first growth is measured from."""
    assert ALERTS.needed_s() == 35 * 60


def changed(change: Callable[[Any], Any]) -> bytes:
    data = json.loads((resources.files("millpond.alerts") / FILE).read_bytes())
    change(data)
    return json.dumps(data).encode()


def case(data: Any, alert: int, number: int = 0) -> Any:
    return data["alerts"][alert]["cases"][number]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.update(silence=1), "unknown field `silence`"),
        (lambda data: case(data, 0).update(treshold=1), "unknown field `treshold` - at `$.alerts[0].cases[0]`"),
        (lambda data: case(data, 0)["warning"].update(above="1"), "Expected `float | null`, got `str`"),
        (lambda data: case(data, 0)["warning"].update(for_s=-1), "Expected `int` >= 0"),
        (lambda data: case(data, 0).update(measure="median"), "Invalid enum value 'median'"),
        (lambda data: data["alerts"][0].update(id="Letters lying"), "Expected `str` matching regex"),
        (lambda data: data["alerts"][0].update(cases=[]), "Expected `array` of length >= 1"),
        (lambda data: data["alerts"][1].update(id="letters"), "two alerts have one id"),
        (lambda data: case(data, 0, 1).update(name="lying"), "letters: two cases have one name"),
        (lambda data: case(data, 0)["warning"].update(at_least=1), "case lying: a level needs either above or at_"),
        (lambda data: case(data, 0)["warning"].pop("above"), "case lying: a level needs either above or at_least"),
        (lambda data: case(data, 0, 1).pop("critical"), "case burst: needs warning, critical or both"),
        (lambda data: case(data, 0).update(signal="postcards"), "case lying: no such signal: postcards"),
        (lambda data: case(data, 2).pop("of"), "push-5xx, case share: `of` belongs to the measure share"),
        (lambda data: case(data, 0).update(of="events"), "letters, case lying: `of` belongs to the measure"),
        (lambda data: case(data, 2).pop("window_s"), "case share: every measure but level needs window_s"),
        (lambda data: case(data, 0).update(window_s=1), "case lying: every measure but level needs window_s"),
        (
            lambda data: case(data, 0).update(least=1),
            "case lying: `least` belongs to the measures share and growth",
        ),
        (lambda data: case(data, 0).update(says="{v}"), "case lying: `says` may hold {value}, {window} and {view}"),
        (lambda data: case(data, 0).update(says="{"), "case lying: `says` may hold {value}, {window} and {view}"),
        (lambda data: case(data, 0).update(by="view"), "case lying: `by` belongs to the measure share"),
        (lambda data: case(data, 2).update(by="topic"), "Invalid enum value 'topic'"),
        (lambda data: case(data, 2).update(by="view"), "case share: `says` names the {view} if the case is"),
        (lambda data: case(data, -1).pop("by"), "stale-events, case share: `says` names the {view} if the case is"),
    ],
)
def test_a_mistake_is_refused_and_named(change: Callable[[Any], Any], said: str) -> None:
    """With the file, the place, and what is allowed."""
    with pytest.raises(ValueError, match=r"^alerts\.json: ") as refusal:
        parse(changed(change))
    assert said in str(refusal.value)


def test_what_is_no_json_is_refused() -> None:
    """In one line."""
    with pytest.raises(ValueError, match=r"^alerts\.json: JSON is malformed"):
        parse(b"alerts")
