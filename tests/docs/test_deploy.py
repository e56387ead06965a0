"""What is deployed says what the code and the specification say: settings, subscriptions, indexes, locks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from millpond.cli.root import COMMANDS, cli
from millpond.core.collections import EVENT_LOG, FLOW_RUNS, LETTER_PARTS, LETTERS
from millpond.flow.event import UPDATED_TYPE
from millpond.http.events import EVENTS_PATH
from millpond.settings import table as settings_table
from tests.common.pond import Pond, at, delivery

ROOT = Path(__file__).parents[2]
TERRAFORM = ROOT / "infra" / "terraform"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "compose.yaml").read_text(encoding="utf-8")
HCL = "\n".join(path.read_text(encoding="utf-8") for path in sorted(TERRAFORM.glob("*.tf")))
FLOW = (TERRAFORM / "flow.tf").read_text(encoding="utf-8")
ENVIRONMENTS = sorted(TERRAFORM.glob("environments/*.tfvars"))
# Python's, the shell's, the client libraries', and a script's own.
NOT_OURS = {"PATH", "PYTHONDONTWRITEBYTECODE", "FIRESTORE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "URL"}
# Differs with every release, so it is given on the command line.
GIVEN_BY_HAND = {"image"}


def blocks(kind: str) -> dict[str, str]:
    """The bodies of top-level blocks, by their last label. `terraform fmt` starts a line with the closing brace."""
    return dict(re.findall(rf'^{kind} "(\w+)" \{{\n(.*?)^\}}', HCL, re.MULTILINE | re.DOTALL))


def resources(kind: str) -> dict[str, str]:
    return blocks(f'resource "{kind}"')


def names(pattern: str, text: str) -> set[str]:
    return set(re.findall(pattern, text, re.MULTILINE))


def in_image() -> set[str]:
    (environment,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)
    return names(r"\b([A-Z][A-Z0-9_]*)=", environment)


def in_compose() -> set[str]:
    return names(r"^ +([A-Z][A-Z0-9_]*):", COMPOSE)


def in_terraform() -> set[str]:
    return names(r"\b([A-Z][A-Z0-9_]+) += ", HCL) | names(r'^ +name += "([A-Z0-9_]+)"$', HCL)


def lists_of(name: str) -> dict[str, set[str]]:
    """The lists of names within the local value `name`."""
    (body,) = re.findall(rf"^  {name} += (\[.*?\]|\{{.*?^  \}})$", HCL, re.MULTILINE | re.DOTALL)
    found = re.findall(r"(?:^ +(\w+) += )?\[(.*?)\]", body, re.MULTILINE | re.DOTALL)
    return {key: set(re.findall(r'"(\w+)"', values)) for key, values in found}


def inner(name: str, body: str) -> list[str]:
    """The bodies of the blocks `name` within a block's body, at any depth."""
    return [found for _, found in re.findall(rf"^( +){name} \{{\n(.*?)^\1\}}", body, re.MULTILINE | re.DOTALL)]


def pins(lock: str) -> set[str]:
    return names(r"^([a-z0-9-]+==\S+)", (ROOT / lock).read_text(encoding="utf-8"))


@pytest.mark.parametrize("used", [in_image, in_compose, in_terraform])
def test_every_variable_that_is_set_exists(used: Callable[[], set[str]]) -> None:
    """A setting that was renamed, or mistyped, would be ignored in silence."""
    found = used()
    assert "PORT" in found or {"STORE", "ENV"} <= found
    assert found - NOT_OURS <= {setting.name for setting in settings_table.TABLE}


@pytest.mark.parametrize("used", [in_compose, in_terraform])
def test_what_firestore_needs_is_set(used: Callable[[], set[str]]) -> None:
    """And poison is parked, and somebody decided who may push."""
    assert {"GCP_PROJECT", "ENV", "SYSTEM_EVENTS_TOPIC", "DEFAULT_REGION"} <= used()
    assert {"POISON_POLICY", "PUSH_UNAUTHENTICATED"} <= used()


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
    assert "for_each = local.flow_env\n" in resources("google_cloud_run_v2_service")["flow"]
    assert "for_each = local.steps_env\n" in resources("google_cloud_run_v2_job")["sweep"]


def test_the_image_runs_as_nobody_in_particular() -> None:
    """As a number other than 0, with SIGTERM going to Millpond and not to a shell."""
    user = re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)[-1]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert 'ENTRYPOINT ["millpond"]\nCMD ["serve"]' in DOCKERFILE


def test_what_the_image_copies_is_there() -> None:
    """In the tree, and let through by .dockerignore."""
    lines = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    copied = {name for line in lines for name in line.split()}
    assert {name for name in copied if not (ROOT / name).exists()} == set()
    assert copied == names(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"))


def test_the_locks_agree() -> None:
    """What is shipped was tested in the same versions, and comes from wherever pip is told to look."""
    assert {"google-cloud-firestore", "google-cloud-pubsub", "google-events", "matplotlib", "uvicorn"} <= {
        pin.partition("==")[0] for pin in pins("requirements.run.lock")
    }
    assert pins("requirements.run.lock") | pins("requirements.build.lock") <= pins("requirements.lock")
    for lock in ROOT.glob("requirements*.lock"):
        assert "://" not in lock.read_text(encoding="utf-8")


def test_the_functions_lock_agrees_where_it_can() -> None:
    """What both have, they have in one version; and it has what the worker needs as a function."""
    functions, all_of_it = pins("requirements.functions.lock"), pins("requirements.lock")
    known, needed = ({pin.partition("==")[0] for pin in lock} for lock in (all_of_it, functions))
    assert {"functions-framework", "google-cloud-firestore", "google-events", "matplotlib"} <= needed
    # Some have two, for older and newer Pythons; then both locks have both.
    assert {pin for pin in functions if pin.partition("==")[0] in known} <= all_of_it


def test_compose_listens_on_this_machine_only() -> None:
    """Emulators ask nobody who they are."""
    ports = re.findall(r'^ +ports: \["(.*)"\]$', COMPOSE, re.MULTILINE)
    assert len(ports) == COMPOSE.count("ports:") == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_an_environment_says_what_differs(path: Path) -> None:
    """Every variable without a default, none that does not exist, and its own name."""
    text = path.read_text(encoding="utf-8")
    given, declared = names(r"^(\w+) +=", text), blocks("variable")
    needed = {name for name, body in declared.items() if "\n  default " not in body} - GIVEN_BY_HAND
    assert needed <= given <= set(declared)
    assert re.search(rf'^environment += "{path.stem}"$', text, re.MULTILINE)


def test_every_environment_has_its_file() -> None:
    """One each."""
    assert [path.stem for path in ENVIRONMENTS] == ["dev", "prod", "staging"]


@pytest.mark.parametrize("name", ["push", "pull", "dlq"])
def test_a_subscription_never_expires_and_never_loops(name: str) -> None:
    """004's back-off on each, 20 deliveries before the DLQ, and 14 days there."""
    body = resources("google_pubsub_subscription")[name]
    assert 'expiration_policy {\n    ttl = ""\n  }' in body
    assert 'minimum_backoff = "10s"\n    maximum_backoff = "600s"' in body
    assert "ack_deadline_seconds       = 60\n" in body
    if name == "dlq":
        fourteen_days = f'message_retention_duration = "{14 * 86_400}s"'
        assert fourteen_days in body
        assert fourteen_days in resources("google_pubsub_topic")["dlq"]
        assert re.search(r'name += "\$\{each\.key\}\.dlq"', body)
    else:
        assert "max_delivery_attempts = var.max_delivery_attempts" in body
        assert "dead_letter_topic     = google_pubsub_topic.dlq[each.key].id" in body
    assert ("oidc_token {" in body) == (name == "push")
    assert re.search(r"default += 20\n", blocks("variable")["max_delivery_attempts"])


def test_every_subscription_is_one_of_those() -> None:
    """A fourth would need looking at too."""
    assert set(resources("google_pubsub_subscription")) == {"push", "pull", "dlq"}


def test_nobody_gets_more_than_they_need() -> None:
    """Two roles for the whole project: one bound to one database, one that reads nothing. Nothing for everybody."""
    assert names(r'^ +role += "roles/(.*)"$', HCL) == {
        "datastore.user",
        "eventarc.eventReceiver",
        "iam.serviceAccountOpenIdTokenCreator",
        "pubsub.publisher",
        "pubsub.subscriber",
        "run.invoker",
        "secretmanager.secretAccessor",
        "storage.objectUser",
    }
    project = resources("google_project_iam_member")
    assert set(project) == {"firestore", "events"}
    assert "roles/datastore.user" in project["firestore"]
    assert "condition {" in project["firestore"]
    assert "roles/eventarc.eventReceiver" in project["events"]
    assert "member  = google_service_account.events[0].member\n" in project["events"]
    assert not re.search(r"allUsers|allAuthenticatedUsers|_iam_(binding|policy)\"", HCL)


def test_each_account_calls_one_thing() -> None:
    """Eventarc the worker, Cloud Scheduler the sweep, Pub/Sub the push service; operators both services."""
    services = resources("google_cloud_run_v2_service_iam_member")
    assert {name: re.findall(r"name +=.*service\.(\w+)", body) for name, body in services.items()} == {
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
    """Every resource of its file hangs on the variable, and that is off unless set."""
    bodies = re.findall(r'^resource "\w+" "\w+" \{\n(.*?)\n', FLOW, re.MULTILINE)
    assert len(bodies) == FLOW.count("\nresource ")
    assert set(bodies) == {"  count = local.flow", "  for_each = var.flow_worker ? var.operators : []"}
    assert re.search(r"^  flow = var\.flow_worker \? 1 : 0$", FLOW, re.MULTILINE)
    assert "default     = false\n" in blocks("variable")["flow_worker"]


def test_the_trigger_says_what_the_code_says() -> None:
    """Type, path and destination: events of any other kind would be filtered, and those of runs never come."""
    trigger = resources("google_eventarc_trigger")["flow"]
    criteria = [dict(re.findall(r"(\w+) += (.*)", body)) for body in inner("matching_criteria", trigger)]
    pattern = f'"${{var.collection_prefix}}{FLOW_RUNS}/{{run}}"'
    assert criteria == [
        {"attribute": '"type"', "value": f'"{UPDATED_TYPE}"'},
        {"attribute": '"database"', "value": "var.firestore_database"},
        {"attribute": '"document"', "operator": '"match-path-pattern"', "value": pattern},
    ]
    (destination,) = inner("cloud_run_service", trigger)
    assert re.search(rf'^ +path += "{EVENTS_PATH}"$', destination, re.MULTILINE)
    assert "google_cloud_run_v2_service.flow[0].name" in destination
    assert re.search(r"^  location += var\.firestore_location$", trigger, re.MULTILINE)
    assert '"application/protobuf"' in trigger


def test_the_flow_run_worker_is_a_service_as_the_others() -> None:
    """With the push service's probes; and its bucket is mounted for the image's user, where the steps write."""
    services = resources("google_cloud_run_v2_service")
    for probe in ("startup_probe", "liveness_probe"):
        assert inner(probe, services["flow"]) == inner(probe, services["push"]) != []
    assert 'args  = ["serve"]' in services["flow"]
    assert 'timeout = "600s"' in services["flow"]
    user, group = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)[-1]
    assert f'mount_options = ["uid={user}", "gid={group}"]' in services["flow"]
    assert "mount_path = local.flow_env.ARTIFACTS_DIR\n" in services["flow"]
    assert "cpu_idle          = false\n" in services["flow"]


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
    [
        ("google_cloud_run_v2_service", "push"),
        ("google_cloud_run_v2_service", "pull"),
        ("google_cloud_run_v2_service", "flow"),
        ("google_cloud_run_v2_job", "sweep"),
    ],
)
def test_what_is_run_is_a_command(kind: str, name: str) -> None:
    """A container whose arguments are none would never start."""
    (line,) = re.findall(r"^ +args += (.*)$", resources(kind)[name], re.MULTILINE)
    words = re.findall(r'"([a-z]+)"', line)
    assert words[0] in COMMANDS
    command = cli.get_command(click.Context(cli), words[0])
    if name == "sweep":
        assert words == ["flow", "sweep"]
        assert isinstance(command, click.Group)
        command = command.commands[words[1]]
    assert command is not None


def test_every_container_is_one_of_those() -> None:
    """A fifth would need looking at too. The sweep is started by its own id, every five minutes."""
    assert set(resources("google_cloud_run_v2_service")) == {"push", "pull", "flow"}
    assert set(resources("google_cloud_run_v2_job")) == {"sweep"}
    schedule = resources("google_cloud_scheduler_job")["sweep"]
    assert '"*/5 * * * *"' in schedule
    assert '"https://run.googleapis.com/v2/${google_cloud_run_v2_job.sweep[0].id}:run"' in schedule
    assert "oauth_token {" in schedule


def everything() -> dict[str, set[str]]:
    """The fields of what one full message for each built-in view leaves, by the collection's own name."""
    times = dict.fromkeys(("producedAt", "publishedAt", "ts", "start", "end", "timestamp"), at(0))
    common = {**times, "symbol": "SPY", "eventId": "e", "service": "api", "pipeline_id": "p", "signalId": "s"}
    found: dict[str, set[str]] = {}
    for bars in ("natural", "nested"):
        pond = Pond(BARS_ID=bars)
        for topic in ("system.events", "ingest-heartbeat", "market-ticks", "market-bars-1m", "trade-signals"):
            pond.send(delivery({**common, "topic": topic}, topic))
        for ref, snapshot in pond.documents.items():
            found.setdefault(ref.collection.rpartition("/")[2], set()).update(snapshot.data or {})
    return found


def test_what_expires_has_a_ttl_policy() -> None:
    """Firestore deletes nothing of which it was not told."""
    expiring = {collection for collection, fields in everything().items() if "expireAt" in fields}
    assert lists_of("expiring")[""] == expiring | {LETTERS, LETTER_PARTS, EVENT_LOG}


def test_receipts_have_no_index() -> None:
    """Every message leaves one, and nobody searches them."""
    assert lists_of("unindexed")["ops_dedupe"] | {"expireAt"} == everything()["ops_dedupe"]


def test_fields_without_an_index_exist() -> None:
    """A mistyped name would leave the index it was to remove."""
    documents = everything()
    exempt = lists_of("unindexed")
    assert set(exempt) - set(documents) == {LETTERS, LETTER_PARTS, EVENT_LOG}
    assert set(documents) - set(exempt) == set()
    for collection in set(exempt) & set(documents):
        assert exempt[collection] <= documents[collection], collection
