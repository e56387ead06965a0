"""Cloud Monitoring's policies: what Terraform itself makes of the data, without a provider."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from alerts.tools import ROOT, run, unreadable
from millpond.alerts import FILE, load
from millpond.alerts.prometheus import rules
from millpond.errors import AccessDenied, Unavailable
from millpond.log import MessageLine
from millpond.model import Outcome

TERRAFORM = ROOT / "infra" / "terraform"
MONITORING = (TERRAFORM / "monitoring.tf").read_text(encoding="utf-8")
VARIABLES = (TERRAFORM / "variables.tf").read_text(encoding="utf-8")
DATA = ROOT / "src" / "millpond" / "alerts" / FILE
ALERTS = load()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The local values of monitoring.tf, with the defaults of variables. They need no provider: none is fetched."""
    root = tmp_path_factory.mktemp("terraform")
    folder = root / "infra" / "terraform"
    folder.mkdir(parents=True)
    copy = root / DATA.relative_to(ROOT)
    copy.parent.mkdir(parents=True)
    copy.write_bytes(DATA.read_bytes())
    (values,) = re.findall(r"^locals \{\n.*?^\}\n", MONITORING, re.MULTILINE | re.DOTALL)
    variables = re.findall(r'^variable "(?:name|subscriptions)" \{\n.*?^\}\n', VARIABLES, re.MULTILINE | re.DOTALL)
    names = ("alert_policies", "alert_counters", "alert_gauges", "log_filters")
    outputs = [f'output "{name}" {{\n  value = local.{name}\n}}\n' for name in names]
    (folder / "main.tf").write_text("".join([values, *variables, *outputs]), encoding="utf-8")
    applied = run("terraform", "apply", "-auto-approve", "-no-color", "-input=false", folder=folder)
    assert applied.returncode == 0, applied.stdout + applied.stderr
    told = json.loads(run("terraform", "output", "-json", folder=folder).stdout)
    return {name: told[name]["value"] for name in names}


def conditions(local: dict[str, Any]) -> list[dict[str, Any]]:
    return [condition for policy in local["alert_policies"].values() for condition in policy]


def test_every_level_cloud_monitoring_sees_has_its_condition(local: dict[str, Any]) -> None:
    """In the policy of its alert and severity, for as long as the data says."""
    expected = {
        (f"{alert.id}-{severity}", case.name, f"{level.for_s}s")
        for alert, case, severity, level in rules(ALERTS, "cloud")
    }
    found = [
        (policy, condition["case"], condition["duration"])
        for policy, made in local["alert_policies"].items()
        for condition in made
    ]
    assert len(found) == len(expected) == 22
    assert set(found) == expected
    # Cloud Monitoring takes six in a policy.
    assert max(map(len, local["alert_policies"].values())) <= 6


def test_every_query_says_what_the_data_says(local: dict[str, Any]) -> None:
    """Its comparison, its window and its least number, and no other number of either kind."""
    queries = {(c["alert"], c["case"], c["severity"]): c["query"] for c in conditions(local)}
    for alert, case, severity, level in rules(ALERTS, "cloud"):
        query = queries[alert.id, case.name, severity]
        guard = [(">=", f"{case.least}")] if case.least else []
        assert re.findall(r"(>=?) ([\d.]+)", query) == [(level.comparison, f"{level.bound:g}"), *guard]
        assert set(re.findall(r"\[(\d+)s\]", query)) == ({f"{case.window_s}"} if case.window_s else set())
        assert ("/ sum(rate(" in query) == (case.measure == "share")
        assert ("* 60" in query) == (case.measure == "rate")


def test_every_query_is_promql(local: dict[str, Any], tmp_path: Path) -> None:
    """As promtool reads it."""
    assert unreadable((condition["query"] for condition in conditions(local)), tmp_path) == ""


def test_every_signal_seen_there_is_found_there(local: dict[str, Any]) -> None:
    """Letters in the store are not: those buried within the hour stand for them."""
    seen = {name for name, signal in ALERTS.signals.items() if "cloud" in signal.seen_by}
    assert {*local["alert_counters"], *local["alert_gauges"], "letters"} == seen
    assert set(local["log_filters"]) <= set(local["alert_counters"])


def test_dead_letter_subscriptions_are_told_from_the_others(local: dict[str, Any]) -> None:
    """By expressions that match whole names, as PromQL's do."""
    patterns = {
        name: re.findall(r'subscription_id=~"(.*?)"', gauge)[0] for name, gauge in local["alert_gauges"].items()
    }
    for name, pattern in patterns.items():
        assert bool(re.fullmatch(pattern, "millpond-market-ticks")) == (name != "dlq")
        assert bool(re.fullmatch(pattern, "millpond-market-ticks.dlq")) == (name == "dlq")
        assert re.fullmatch(pattern, "somebody-elses") is None


def test_log_lines_have_what_the_filters_ask_for(local: dict[str, Any]) -> None:
    """A field or a word that was renamed would leave a metric that counts nothing, in silence."""
    asked = {
        (field, word)
        for text in local["log_filters"].values()
        for field, word in re.findall(r'jsonPayload\.(\w+)="(\w+)"', text)
    }
    assert asked == {
        ("ack_action", "replay"),
        ("outcome", Outcome.STALE.value),
        ("write_kind", "letter"),
        ("reason", Unavailable.reason),
        ("error_type", AccessDenied.__name__),
    }
    assert {field for field, _ in asked} <= set(MessageLine.__struct_fields__)
    assert "outcome" in MessageLine.__struct_fields__
