"""Cloud Monitoring's policies: what Terraform itself makes of the data, without a provider."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from millpond.alerts.definitions import FILE, load
from millpond.alerts.prometheus import rules
from millpond.core.ack import Answered, settle_push
from millpond.core.errors import AccessDenied, Unavailable
from millpond.core.model import Outcome, Result
from millpond.telemetry.log import Log
from millpond.telemetry.message_line import MessageLine, ViewLine
from millpond.telemetry.metrics import Metrics
from tests.alerts.tools import ROOT, run, unreadable

TERRAFORM = ROOT / "infra" / "terraform"
MONITORING = (TERRAFORM / "monitoring.tf").read_text(encoding="utf-8")
SHARDS = (TERRAFORM / "shards.tf").read_text(encoding="utf-8")
VARIABLES = (TERRAFORM / "variables.tf").read_text(encoding="utf-8")
DATA = ROOT / "src" / "millpond" / "alerts" / FILE
ALERTS = load()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The local values of monitoring.tf, with one entry of `subscriptions` in shards. They need no provider."""
    root = tmp_path_factory.mktemp("terraform")
    folder = root / "infra" / "terraform"
    folder.mkdir(parents=True)
    copy = root / DATA.relative_to(ROOT)
    copy.parent.mkdir(parents=True)
    copy.write_bytes(DATA.read_bytes())
    values = re.findall(r"^locals \{\n.*?^\}\n", f"{SHARDS}{MONITORING}", re.MULTILINE | re.DOTALL)
    used = r'^variable "(?:name|subscriptions|pull_instances)" \{\n.*?^\}\n'
    variables = re.findall(used, VARIABLES, re.MULTILINE | re.DOTALL)
    names = ("alert_policies", "alert_counters", "alert_gauges", "log_filters", "log_groups", "log_services")
    outputs = [f'output "{name}" {{\n  value = local.{name}\n}}\n' for name in names]
    (folder / "main.tf").write_text("".join([*values, *variables, *outputs]), encoding="utf-8")
    given = {
        "pull_instances": 2,
        "subscriptions": {
            "millpond-market-ticks": {"topic": "market-ticks", "delivery": "push"},
            "millpond-orders": {"topic": "orders", "delivery": "pull", "shards": 4},
        },
    }
    (folder / "given.auto.tfvars.json").write_text(json.dumps(given), encoding="utf-8")
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


def test_every_policy_links_to_the_runbook_of_the_service() -> None:
    """Its documentation is Markdown with a link to the alert's heading on the page that the service serves."""
    content = re.findall(r'^ +content +(?:=) "(.*)"$', MONITORING, re.MULTILINE)
    assert [re.findall(r"\[What to do\]\((.*?)\)", text) for text in content] == [
        ["${module.push.uri}/runbook#${each.value[0].alert}"]
    ]


def test_every_query_says_what_the_data_says(local: dict[str, Any]) -> None:
    """Its comparison, its window and its least number, and no other number of either kind."""
    queries = {(c["alert"], c["case"], c["severity"]): c["query"] for c in conditions(local)}
    for alert, case, severity, level in rules(ALERTS, "cloud"):
        query = queries[alert.id, case.name, severity]
        guard = [(">=", f"{case.least}")] if case.least else []
        assert re.findall(r"(>=?) ([\d.]+)", query) == [(level.comparison, f"{level.bound:g}"), *guard]
        assert set(re.findall(r"\[(\d+)s\]", query)) == ({f"{case.window_s}"} if case.window_s else set())
        total = "sum by (topic) (" if case.by else "sum("
        assert (f"/ {total}rate(" in query) == (case.measure == "share")
        # The least number is asked of the same group, or one topic would answer for another.
        assert (f"floor({total}increase(" in query) == (case.measure in {"count", "share"})
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
        assert re.fullmatch(pattern, "another-teams") is None
        for shard in ("millpond-orders-0", "millpond-orders-3", "millpond-orders-rest"):
            assert bool(re.fullmatch(pattern, shard)) == (name != "dlq")
            assert bool(re.fullmatch(pattern, f"{shard}.dlq")) == (name == "dlq")


def test_the_lines_of_every_worker_are_counted(local: dict[str, Any]) -> None:
    """With shards the workers are several services; a metric that named one of them would miss the others."""
    assert local["log_services"] == '"millpond" OR "millpond-pull" OR "millpond-pull-1"'
    assert '"resource.labels.service_name=(${local.log_services})",' in MONITORING


def test_log_lines_have_what_the_filters_ask_for(local: dict[str, Any]) -> None:
    """A field or a word that was renamed would leave a metric that counts nothing, in silence."""
    asked = {
        (field, word)
        for text in local["log_filters"].values()
        for field, word in re.findall(r'jsonPayload\.([\w.]+)="(\w+)"', text)
    }
    assert asked == {
        ("ack_action", "replay"),
        ("docs.outcome", Outcome.STALE.value),
        ("write_kind", "letter"),
        ("reason", "store_try_failed"),
        ("error_type", Unavailable.__name__),
        ("error_type", AccessDenied.__name__),
    }
    assert {field.partition(".")[0] for field, _ in asked} <= set(MessageLine.__struct_fields__)
    assert {"outcome", "topic", "docs"} <= set(MessageLine.__struct_fields__)
    assert "outcome" in ViewLine.__struct_fields__


def test_a_failed_try_of_either_kind_is_counted(local: dict[str, Any]) -> None:
    """By the line the log really writes; the line of a message that was lost for it does not count again."""
    stream = io.BytesIO()
    log = Log(stream, env="prod", metrics=Metrics())
    errors = {"transient_errors": Unavailable("away"), "denied_errors": AccessDenied("no")}
    for error in errors.values():
        log.failed_try(error, 1, 3)
        lost = Result(Outcome.RETRY, "store_unavailable", "t", error=error)
        log.on_outcome(Answered(None, lost, settle_push(lost), 0.0, 0, counts=True))
    log.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == 4
    for name, error in errors.items():
        wanted = re.findall(r'jsonPayload\.(\w+)="(\w+)"', local["log_filters"][name])
        (counted,) = (line for line in lines if all(line.get(field) == word for field, word in wanted))
        assert (counted["error_type"], counted["reason"]) == (type(error).__name__, "store_try_failed")


def test_what_is_decided_by_view_is_counted_by_topic(local: dict[str, Any]) -> None:
    """The metrics have the label that the query sums up by, from a field of the line."""
    assert local["log_groups"] == {"events": "topic", "stale": "topic"}
    metric = MONITORING.partition('resource "google_logging_metric" "signal" {')[2].partition("\n}\n")[0]
    assert 'dynamic "labels"' in metric
    assert '= "EXTRACT(jsonPayload.${local.log_groups[each.key]})"' in metric
    grouped = {condition["alert"] for condition in conditions(local) if " by (topic) " in condition["query"]}
    assert grouped == {alert.id for alert in ALERTS.alerts if any(case.by for case in alert.cases)}
    # What no view decided on (a poisoned message, a retry) must not make the share look smaller.
    assert local["log_filters"]["events"].endswith(" AND jsonPayload.docs.outcome:*")
