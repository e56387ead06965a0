"""The rules for Prometheus: made from the data, judged by promtool, and tested at every threshold."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from millpond.alerts.definitions import FILE, load, parse
from millpond.alerts.prometheus import alert_name, render, rules
from tests.alerts.tools import RULES, RULES_TEST, run

ALERTS = load()
# Changes a level of a case.
Change = Callable[[Any, Any], None]
NAMES = {(alert_name(alert), case.name, severity) for alert, case, severity, _ in rules(ALERTS, "prometheus")}
# promtool tells each moment that differs: what was expected to fire, and what did.
_DIFFERENCE = re.compile(r'expr: "ALERTS.*?exp: ?(.*?)\n\s*got: ?(.*?)(?=\n\s*expr:|\n\n|\Z)', re.DOTALL)
_FIRING = re.compile(r'alertname="(\w+)", alertstate="firing", case="([\w-]+)", severity="(\w+)"')


def test_the_committed_rules_are_what_the_data_makes() -> None:
    """As the command writes them."""
    command = [sys.executable, "-m", "millpond.alerts", "prometheus"]
    made = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    assert RULES.read_bytes() == made == render(ALERTS).encode()


@pytest.mark.parametrize("url", ["https://pond.example", "https://pond.example/below/"])
def test_with_an_address_every_rule_links_to_the_runbook(url: str) -> None:
    """Each `runbook_url` is the alert's heading on the page of that service, whatever the address ends with."""
    command = [sys.executable, "-m", "millpond.alerts", "prometheus", "--url", url]
    made = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode()
    links = re.findall(r'^ +runbook_url: "(.*)"$', made, re.MULTILINE)
    assert len(links) == len(NAMES)
    assert set(links) == {f"{url.rstrip('/')}/runbook#{alert.id}" for alert, *_ in rules(ALERTS, "prometheus")}


def test_promtool_takes_the_rules() -> None:
    """All of them, without a complaint."""
    answer = run("promtool", "check", "rules", "--lint-fatal", RULES.name, folder=RULES.parent)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"SUCCESS: {len(NAMES)} rules found" in answer.stdout


def test_the_rules_fire_when_they_should_and_not_before() -> None:
    """What the hand-written file says of every moment."""
    answer = run("promtool", "test", "rules", RULES_TEST.name, folder=RULES.parent)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def differences(data: Any, folder: Path) -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
    """With rules of other data: which no longer fire somewhere they should, and which do where they should not."""
    (folder / RULES.name).write_text(render(parse(json.dumps(data).encode())), encoding="utf-8")
    (folder / RULES_TEST.name).write_bytes(RULES_TEST.read_bytes())
    answer = run("promtool", "test", "rules", RULES_TEST.name, folder=folder)
    silent: set[tuple[str, ...]] = set()
    loud: set[tuple[str, ...]] = set()
    for expected, got in _DIFFERENCE.findall(answer.stdout + answer.stderr):
        should, does = set(_FIRING.findall(expected)), set(_FIRING.findall(got))
        silent |= should - does
        loud |= does - should
    assert (answer.returncode != 0) == bool(silent | loud), answer.stdout + answer.stderr
    return silent, loud


def nudged(change: Change) -> Any:
    """The data with each level of each case changed a little."""
    data = json.loads((resources.files("millpond.alerts") / FILE).read_bytes())
    for alert in data["alerts"]:
        for case in alert["cases"]:
            for severity in ("warning", "critical"):
                if severity in case:
                    change(case, case[severity])
    return data


def scale(by: float, otherwise: float) -> Change:
    """Bounds a fifth higher or lower; zero becomes one, or less than nothing."""

    def change(_: Any, level: Any) -> None:
        name = "above" if "above" in level else "at_least"
        level[name] = level[name] * by or otherwise

    return change


def last(by_s: int) -> Change:
    def change(_: Any, level: Any) -> None:
        if level.get("for_s"):
            level["for_s"] += by_s

    return change


def need(more: int) -> Change:
    def change(case: Any, level: Any) -> None:
        # Once for a case, however many levels it has.
        if case.get("least") and level is case.get("critical"):
            case["least"] += more

    return change


def having(test: Callable[[Any, Any], Any]) -> set[tuple[str, ...]]:
    found = rules(ALERTS, "prometheus")
    return {(alert_name(alert), case.name, severity) for alert, case, severity, level in found if test(case, level)}


@pytest.mark.parametrize(
    ("more", "less", "has_it", "count"),
    [
        (scale(1.2, 1), scale(0.8, -1), lambda *_: True, len(NAMES)),
        (last(60), last(-60), lambda _, level: level.for_s, 6),
        (need(1), need(-1), lambda case, _: case.least, 6),
    ],
    ids=["a fifth of the level", "a minute", "one of the least number"],
)
def test_every_number_is_tested_from_both_sides(
    tmp_path: Path, more: Change, less: Change, has_it: Callable[[Any, Any], Any], count: int
) -> None:
    """More, and each rule that has it is missed where it fires; less, and each fires where it must not."""
    concerned = having(has_it)
    assert len(concerned) == count
    silent, _ = differences(nudged(more), tmp_path)
    assert silent == concerned
    _, loud = differences(nudged(less), tmp_path)
    assert loud == concerned


def test_every_window_is_tested(tmp_path: Path) -> None:
    """Twice as long, and what is over still fires, or what has just begun does not yet."""

    def change(case: Any, level: Any) -> None:
        if "window_s" in case and level is case.get("critical"):
            case["window_s"] *= 2

    silent, loud = differences(nudged(change), tmp_path)
    # The levels of a case share its window, so one of them tells.
    windows = {name[:2] for name in having(lambda case, _: case.window_s)}
    assert {name[:2] for name in silent | loud} == windows
