"""Terraform's Cloud Run services agree with the code: commands, settings, probes, the flow-run worker's trigger."""

from __future__ import annotations

import re

import click
import pytest

from millpond.cli.root import COMMANDS, cli
from millpond.core.collections import FLOW_RUNS as RUNS
from millpond.flow.event_filter import UPDATED_TYPE
from millpond.http.events import EVENTS_PATH
from tests.docs.hcl import (
    HCL,
    MODULE,
    ROOT,
    TERRAFORM,
    arguments,
    blocks,
    blocks_in,
    inner,
    names,
    resources,
    text_of,
)

DOCKERFILE = text_of(ROOT / "Dockerfile")
FLOW = text_of(TERRAFORM / "flow.tf")


def test_what_the_flow_run_worker_needs_is_set() -> None:
    """The sweep is told the same step types, or it would look for fewer."""
    assert {
        "STEPS",
        "FLOW_STEPS_AT_ONCE",
        "CONSUMER_QUEUE_SIZE",
        "ARTIFACTS_DIR",
        "CHARTS_DEFAULT_TIMEZONE",
        "PUSH_UNAUTHENTICATED",
    } <= names(r"\b([A-Z][A-Z0-9_]+) += ", FLOW)
    assert re.search(r"flow_env = merge\(\n +local\.steps_env,", FLOW)
    assert arguments(blocks("module")["flow"])["env"] == "local.flow_env"
    assert "for_each = local.steps_env\n" in resources("google_cloud_run_v2_job")["sweep"]


def test_each_account_calls_one_thing() -> None:
    """Eventarc the worker, Cloud Scheduler the sweep, Pub/Sub the push service; operators both services."""
    services = resources("google_cloud_run_v2_service_iam_member")
    assert {name: re.findall(r"name +=.*module\.(\w+)", body) for name, body in services.items()} == {
        "push": ["push"],
        "operator": ["push"],
        "events": ["flow"],
        "flow_operator": ["flow"],
    }
    assert "google_service_account.events[0].member" in services["events"]
    (job,) = resources("google_cloud_run_v2_job_iam_member").values()
    assert "google_cloud_run_v2_job.sweep[0].name" in job
    assert "google_service_account.sweep[0].member" in job


def test_the_flow_run_worker_is_made_only_where_asked_for() -> None:
    """Every resource and module of its file depends on the variable, and that is off unless set."""
    bodies = re.findall(r'^(?:resource "\w+"|module) "\w+" \{\n(?:  source.*\n)?(.*?)\n', FLOW, re.MULTILINE)
    bodies = [re.sub(" +", " ", body) for body in bodies]
    assert len(bodies) == FLOW.count("\nresource ") + FLOW.count("\nmodule ")
    assert set(bodies) == {" count = local.flow", " for_each = var.flow_worker ? var.operators : []"}
    assert re.search(r"^  flow = var\.flow_worker \? 1 : 0$", FLOW, re.MULTILINE)
    assert "default     = false\n" in blocks("variable")["flow_worker"]


def test_the_trigger_says_what_the_code_says() -> None:
    """Type, path and destination: events of any other kind would be filtered, and those of runs never come."""
    trigger = resources("google_eventarc_trigger")["flow"]
    criteria = [dict(re.findall(r"(\w+) += (.*)", body)) for body in inner("matching_criteria", trigger)]
    pattern = f'"${{var.collection_prefix}}{RUNS}/{{run}}"'
    assert criteria == [
        {"attribute": '"type"', "value": f'"{UPDATED_TYPE}"'},
        {"attribute": '"database"', "value": "var.firestore_database"},
        {"attribute": '"document"', "operator": '"match-path-pattern"', "value": pattern},
    ]
    (destination,) = inner("cloud_run_service", trigger)
    assert re.search(rf'^ +path += "{EVENTS_PATH}"$', destination, re.MULTILINE)
    assert "module.flow[0].name" in destination
    assert re.search(r"^  location += var\.firestore_location$", trigger, re.MULTILINE)
    assert '"application/protobuf"' in trigger


def test_every_service_is_the_one_module() -> None:
    """With its probes, its limits and its settings, and with every variable that has no default."""
    (service,) = blocks_in(MODULE, 'resource "google_cloud_run_v2_service"').values()
    (startup,), (liveness,) = inner("startup_probe", service), inner("liveness_probe", service)
    assert re.search(r'failure_threshold = 30\n +http_get \{\n +path = "/ready"\n', startup)
    assert re.search(r'failure_threshold = 3\n +http_get \{\n +path = "/live"\n', liveness)
    assert "limits            = { cpu = var.cpu, memory = var.memory }\n" in service
    assert re.search(r'dynamic "env" \{\n +for_each = var\.env\n', service)
    declared = blocks_in(MODULE, "variable")
    needed = {name for name, body in declared.items() if "\n  default " not in body}
    assert names(r"\bvar\.(\w+)", service) == set(declared)
    for body in blocks("module").values():
        given = arguments(body)
        assert given.pop("source") == '"./modules/service"'
        assert needed <= set(given) - {"count", "depends_on"} <= set(declared)
        awaited = names(r"^    (\S+),$", body)
        assert {"google_project_iam_member.firestore", "google_project_service.required"} <= awaited


def test_each_service_has_what_differs() -> None:
    """The API's token goes to services with an API; CPU without a request to those that work without one."""
    services = [arguments(blocks("module")[name]) for name in ("push", "pull", "flow")]
    push, pull, _ = services

    def each(name: str) -> list[str | None]:
        return [service.get(name) for service in services]

    assert each("env") == ["local.push_env", "local.pull_env", "local.flow_env"]
    assert each("timeout") == ['"60s"', None, '"600s"']
    assert each("cpu_idle") == ["var.min_instances == 0", "false", "false"]
    assert each("concurrency") == ["var.concurrency", None, "var.flow_concurrency"]
    assert each("memory") == ["var.memory", "var.memory", "var.flow_memory"]
    assert each("admin_token_secret") == ["var.admin_token_secret", None, "var.admin_token_secret"]
    assert push["audiences"] == "[local.push_audience]"
    assert pull["min_instances"] == pull["max_instances"] == "local.pull_workers[count.index].instances"
    assert pull["ingress"] == '"INGRESS_TRAFFIC_INTERNAL_ONLY"'
    assert pull["count"] == "length(local.pull_workers)"
    assert pull["name"] == "local.pull_workers[count.index].name"
    options = '[for name in local.pull_workers[count.index].subscriptions : ["--subscription", name]]'
    assert pull["args"] == f'concat(["pull"], flatten({options}))'


def test_a_service_of_an_older_state_is_not_made_again() -> None:
    """Terraform is told the new address of each, or it would destroy the service and make another."""
    moved = re.findall(r"^moved \{\n  from = (\S+)\n  to   = (\S+)\n\}", HCL, re.MULTILINE)
    assert moved == [
        (f"google_cloud_run_v2_service.{name}", f"module.{name}.google_cloud_run_v2_service.this")
        for name in ("push", "pull[0]", "flow[0]")
    ]


def test_the_artifacts_bucket_is_mounted_for_the_images_user() -> None:
    """Where the steps write; otherwise root would own it, and they could not."""
    user, group = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)[-1]
    assert f'mount_options = ["uid={user}", "gid={group}"]' in MODULE
    assert "mount_path = volume_mounts.value.path\n" in MODULE
    mounted = "{ bucket = google_storage_bucket.artifacts[0].name, path = local.flow_env.ARTIFACTS_DIR }"
    assert {name: arguments(body).get("artifacts") for name, body in blocks("module").items()} == {
        "push": None,
        "pull": None,
        "flow": mounted,
    }


def test_files_are_nobody_elses_and_do_not_stay_for_ever() -> None:
    """The bucket is closed to the public, and kept where the database is kept."""
    bucket = resources("google_storage_bucket")["artifacts"]
    settings = dict(re.findall(r"^  (\w+) += (.*)$", bucket, re.MULTILINE))
    assert settings["uniform_bucket_level_access"] == "true"
    assert settings["public_access_prevention"] == '"enforced"'
    assert settings["force_destroy"] == "!var.protected"
    (rule,) = inner("lifecycle_rule", bucket)
    assert re.search(r'type = "Delete"\n.*age = var\.artifacts_days\n', rule, re.DOTALL)
    assert "default     = 90\n" in blocks("variable")["artifacts_days"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [("module", "push"), ("module", "pull"), ("module", "flow"), ('resource "google_cloud_run_v2_job"', "sweep")],
)
def test_what_is_run_is_a_command(kind: str, name: str) -> None:
    """A container whose arguments are none would never start."""
    (line,) = re.findall(r"^ +args += (.*)$", blocks(kind)[name], re.MULTILINE)
    words = re.findall(r'"([a-z]+)"', line)
    assert words[0] == {"push": "serve", "pull": "pull", "flow": "serve", "sweep": "flow"}[name]
    assert words[0] in COMMANDS
    command = cli.get_command(click.Context(cli), words[0])
    if name == "sweep":
        assert words == ["flow", "sweep"]
        assert isinstance(command, click.Group)
        command = command.commands[words[1]]
    assert command is not None


def test_every_container_is_one_of_those() -> None:
    """A fifth would need looking at too. The sweep is started by its own id, every five minutes."""
    assert set(blocks("module")) == {"push", "pull", "flow"}
    assert not resources("google_cloud_run_v2_service")
    assert set(resources("google_cloud_run_v2_job")) == {"sweep"}
    schedule = resources("google_cloud_scheduler_job")["sweep"]
    assert '"*/5 * * * *"' in schedule
    assert '"https://run.googleapis.com/v2/${google_cloud_run_v2_job.sweep[0].id}:run"' in schedule
    assert "oauth_token {" in schedule
