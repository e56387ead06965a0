"""The flow-run worker as a Cloud Run function: the example under the real framework, on either store."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.common.eventarc import FORMS, Sent, attributes, binary, full_name
from tests.common.flow_runs import ready, statuses, work_done, write_steps
from tests.common.process import millpond
from tests.flow.functions import Function

RUN = {"flowKey": "nightly", "steps": {step_id: ready() for step_id in ("b", "a", "c", "d")}}
SLOW = {"steps": {"a": ready("SLOW")}}
DONE_S = 10.0
# Cloud Run gives a process this long after SIGTERM.
END_S = 10.0


class Pond(NamedTuple):
    """A store, the environment that names it, and the function on it."""

    folder: Path
    environment: Mapping[str, str]
    function: Function

    def steps(self, run_id: str) -> dict[str, Any]:
        """The run's steps, as `millpond flow show` prints them beside the process that has the store."""
        shown = millpond(self.folder, "flow", "show", run_id, "--json", env=self.environment)
        steps: dict[str, Any] = shown.json["data"]["steps"]
        return steps


def opened(folder: Path, environment: Mapping[str, str]) -> Iterator[Pond]:
    """The function on a store with two runs."""
    environment = {"STEPS": write_steps(folder), "ENV": "staging", **environment}
    for run_id, run in (("r", RUN), ("slow", SLOW)):
        submit = ("flow", "submit", "-", "--run-id", run_id)
        assert millpond(folder, *submit, env=environment, stdin=json.dumps(run).encode()).code == 0
    with Function(folder, environment) as running:
        yield Pond(folder, environment, running)


@pytest.fixture(scope="module")
def cloud(firestore_emulator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pond]:
    """On Firestore: only events set it to work."""
    environment = {
        "STORE": "firestore",
        "FIRESTORE_EMULATOR_HOST": firestore_emulator,
        "GCP_PROJECT": "functions",
        "SYSTEM_EVENTS_TOPIC": "system.events",
        "DEFAULT_REGION": "local",
    }
    yield from opened(tmp_path_factory.mktemp("cloud"), environment)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pond]:
    folder = tmp_path_factory.mktemp("embedded")
    yield from opened(folder, {"STORE": f"sqlite:{folder / 'pond.db'}"})


def event(form: str, event_id: str, run: Mapping[str, Any] = RUN) -> Sent:
    given = attributes(id=event_id, subject="documents/flow_runs/r")
    return FORMS[form](run, full_name("r"), given)


# --- on Firestore ------------------------------------------------------------------------------------------------


def test_events_of_every_form(cloud: Pond) -> None:
    """Each is answered when its step has succeeded, once, and the log tells of it as the server's would."""
    for (number, form), step_id in zip(enumerate(FORMS), "abcd", strict=True):
        run = {"flowKey": "nightly", "steps": {"z": {"status": "FAILED", "stepType": "GREET"}, step_id: ready()}}
        answer = cloud.function.send(event(form, f"form-{number}", run))
        assert answer.status_code == 200, answer.text
        assert cloud.steps("r")[step_id]["status"] == "SUCCEEDED"
        line = cloud.function.wait_for_line(eventId=f"form-{number}", reason="step_succeeded")
        assert (line["service"], line["env"], line["severity"]) == ("millpond", "staging", "INFO")
        assert (line["runId"], line["stepId"], line["flowKey"]) == ("r", step_id, "nightly")
        assert line["subject"] == "documents/flow_runs/r"
    assert work_done(cloud.folder) == [f"r/{step_id}/1" for step_id in "abcd"]


def test_the_same_event_again(cloud: Pond) -> None:
    """It is answered 200 and nothing is done twice."""
    before = work_done(cloud.folder)
    for _ in range(3):
        assert cloud.function.send(event("binary protobuf", "again")).status_code == 200
    assert cloud.function.wait_for_line(eventId="again")["reason"] == "lost_race"
    assert work_done(cloud.folder) == before


def test_events_about_something_else(cloud: Pond) -> None:
    """They are answered 200 with one INFO line."""
    sent = binary(b"\xff", "application/protobuf", attributes(id="else", subject="documents/other/x"))
    assert cloud.function.send(sent).status_code == 200
    line = cloud.function.wait_for_line(eventId="else")
    assert (line["reason"], line["severity"], line["runId"]) == ("event_filtered", "INFO", None)
    assert len(cloud.function.lines("else")) == 1


GIVEN = attributes(subject="documents/flow_runs/r")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (binary(b"\xff", "application/protobuf", GIVEN), 400),
        (binary(b"{", "application/json", GIVEN), 400),
        (binary(b"{}", "text/plain", GIVEN), 415),
        (binary(b"{}", "application/json", attributes(id=None)), 400),
        (binary(b"{}", "application/json", attributes(specversion="0.1")), 400),
        (binary(b"{}", "application/json", attributes(specversion="0.3")), 400),
        (Sent({"content-type": "application/json"}, b"{}"), 400),
        (Sent({"content-type": "application/cloudevents+json"}, b"{"), 400),
        (Sent({"content-type": "application/cloudevents-batch+json"}, b"[]"), 400),
    ],
    ids=["protobuf", "JSON", "text", "no id", "no version", "another version", "no event", "structured", "batch"],
)
def test_what_is_no_event(cloud: Pond, sent: Sent, status: int) -> None:
    """It is refused, by the framework or by us, with a status after which no client tries again."""
    answer = cloud.function.send(sent)
    assert answer.status_code == status, answer.text


def test_a_refusal_says_why(cloud: Pond) -> None:
    """In the answer and in the log, as the server's does."""
    answer = cloud.function.send(binary(b"{}", "image/png", GIVEN))
    assert answer.json()["reason"] == "unsupported_media_type"
    assert answer.json()["error"]
    line = cloud.function.wait_for_line(reason="unsupported_media_type", http_status=415)
    assert (line["severity"], line["env"]) == ("WARNING", "staging")


# --- on an embedded store ----------------------------------------------------------------------------------------


def test_an_embedded_store_is_worked_through(embedded: Pond) -> None:
    """Once an event came, every change of a run is an event of its own, so the run goes on by itself."""
    assert embedded.function.send(event("binary JSON", "first")).status_code == 200
    until = time.monotonic() + DONE_S
    while statuses({"steps": embedded.steps("r")}) != dict.fromkeys("abcd", "SUCCEEDED"):
        assert time.monotonic() < until
    for form in FORMS:
        assert embedded.function.send(event(form, "again")).status_code == 200
    done = [line for line in work_done(embedded.folder) if line.startswith("r/")]
    assert sorted(done) == [f"r/{step_id}/1" for step_id in "abcd"]


# --- last, because it ends them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["cloud", "embedded"])
def test_the_end(request: pytest.FixtureRequest, store: str) -> None:
    """SIGTERM ends it in the time Cloud Run gives, with success, and the step at work is given back."""
    pond: Pond = request.getfixturevalue(store)
    sent = FORMS["binary protobuf"](SLOW, full_name("slow"), attributes(id="slow"))

    def ask() -> None:
        with contextlib.suppress(httpx.TransportError):
            pond.function.send(sent)

    asking = threading.Thread(target=ask)
    asking.start()
    pond.function.wait_for_line(reason="step_claimed", runId="slow")
    began = time.monotonic()
    pond.function.process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        pond.function.process.wait(timeout=END_S)
    assert pond.function.process.poll() == 0, f"after {time.monotonic() - began:.1f} s"
    asking.join()
    assert pond.steps("slow")["a"]["status"] == "READY"
