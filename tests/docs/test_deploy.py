"""What is deployed agrees with the code: settings, subscriptions, locks. `test_indexes` has the indexes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from millpond.scaffold import Project
from millpond.settings import table as settings_table
from tests.docs.hcl import HCL, MODULE, ROOT, TERRAFORM, blocks, names, resources, text_of

DOCKERFILE = text_of(ROOT / "Dockerfile")
DEPLOY = text_of(ROOT / "docs" / "deploy.md")
COMPOSE = text_of(ROOT / "compose.yaml")
ENVIRONMENTS = sorted(TERRAFORM.glob("environments/*.tfvars"))
# Python's, the shell's, the client libraries', and a script's own.
NOT_OURS = {"PATH", "PYTHONDONTWRITEBYTECODE", "FIRESTORE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "URL"}
# Differs with every release, so it is given on the command line.
GIVEN_BY_HAND = {"image"}


def in_image() -> set[str]:
    (environment,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)
    return names(r"\b([A-Z][A-Z0-9_]*)=", environment)


def in_compose() -> set[str]:
    return names(r"^ +([A-Z][A-Z0-9_]*):", COMPOSE)


def in_terraform() -> set[str]:
    return names(r"\b([A-Z][A-Z0-9_]+) += ", HCL) | names(r'^ +name += "([A-Z0-9_]+)"$', MODULE)


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
    """And poison is parked, and it is decided which accounts may push."""
    assert {"GCP_PROJECT", "ENV", "SYSTEM_EVENTS_TOPIC", "DEFAULT_REGION"} <= used()
    assert {"POISON_POLICY", "PUSH_UNAUTHENTICATED"} <= used()


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
    smaller = ("requirements.run.lock", "requirements.build.lock", "requirements.embedded.lock")
    assert set().union(*map(pins, smaller)) <= pins("requirements.lock")
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
    """Emulators ask for no credentials."""
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


def test_views_of_your_own_reach_every_process() -> None:
    """Push service, pull workers and flow-run worker load the same views: a route to another refuses to start."""
    (common,) = re.findall(r"^  env = merge\(\n(.*?)^  \)$", HCL, re.MULTILINE | re.DOTALL)
    assert 'length(var.views) == 0 ? {} : { VIEWS = join(",", var.views) },' in common
    assert re.search(r"^ +BUILT_IN_VIEWS += var\.built_in_views$", common, re.MULTILINE)
    assert re.search(r"^  push_env = merge\(\n    local\.env,$", HCL, re.MULTILINE)
    assert re.search(r"^  pull_env = merge\(local\.env, ", HCL, re.MULTILINE)
    assert re.search(r"^  steps_env = merge\(\n    local\.env,$", HCL, re.MULTILINE)
    assert re.search(r"default += \[\]\n", blocks("variable")["views"])
    assert re.search(r'default += "all"\n', blocks("variable")["built_in_views"])


def test_how_long_the_log_is_kept_and_what_leaves_receipts_reach_every_process() -> None:
    """Instances must agree on both. The default of receipts is not said, so that an earlier image can start."""
    (common,) = re.findall(r"^  env = merge\(\n(.*?)^  \)$", HCL, re.MULTILINE | re.DOTALL)
    kept = 'coalesce(var.event_log_ttl_days, 0) == 0 ? "off" : tostring(var.event_log_ttl_days)'
    assert re.search(rf"^ +EVENT_LOG_TTL_DAYS += {re.escape(kept)}$", common, re.MULTILINE)
    assert 'var.receipts == "all" ? {} : { RECEIPTS = var.receipts },' in common
    assert re.search(r"default += 30\n", blocks("variable")["event_log_ttl_days"])
    assert re.search(r'default += "all"\n', blocks("variable")["receipts"])


def test_the_page_says_how_to_deploy_what_millpond_new_makes() -> None:
    """Its Dockerfile is shown as it is made, its topic is the one that is published to, and its variables exist."""
    files = Project("shop").files()
    (shown,) = re.findall(r"millpond new shop -->\n```dockerfile\n(.*?)```", DEPLOY, re.DOTALL)
    assert shown == files["Dockerfile"]
    (given,) = re.findall(r"^cat >> infra/terraform/\S+ <<'END'\n\n(.*?)^END$", DEPLOY, re.MULTILINE | re.DOTALL)
    assert f"```hcl\n{given}```" in files["README.md"]
    variables = {"views", "view_collections", "built_in_views", "subscriptions"}
    assert names(r"^(\w+) +=", given) == variables <= set(blocks("variable"))
    assert "gcloud pubsub topics publish shop-events" in DEPLOY
    assert 'topics = ("shop-events",)' in files["shop.py"]


def test_every_environment_has_its_file() -> None:
    """One each."""
    assert [path.stem for path in ENVIRONMENTS] == ["dev", "prod", "staging"]


@pytest.mark.parametrize("name", ["push", "pull", "dlq"])
def test_a_subscription_never_expires_and_never_loops(name: str) -> None:
    """Each has a back-off of 10 to 600 s, 20 deliveries before the DLQ, and 14 days there."""
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
    """Two roles for the whole project: one bound to one database, one that reads nothing. Nothing is public."""
    assert names(r'^ +role += "roles/(.*)"$', HCL + MODULE) == {
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
    assert not re.search(r"allUsers|allAuthenticatedUsers|_iam_(binding|policy)\"", HCL + MODULE)
