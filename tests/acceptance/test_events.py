"""POST /events of a real server: events about flow runs, events about anything else, and what is no event."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.acceptance.flow_events import event, post
from tests.common.eventarc import FORMS, UPDATED, Form, Sent, as_json, attributes, binary, full_name, structured
from tests.common.flow_runs import ready, statuses, work_done, write_steps
from tests.common.process import free_port
from tests.common.push import MARKER
from tests.common.server import Server, Start, answer_of

WATCHED = ("flow_runs",)
# On every line about an event, so that a query that asks for them finds it.
ALWAYS = {"service", "env", "runId", "eventId", "severity", "message", "reason"}
BIG_S = 3.0


@pytest.fixture(scope="module")
def worker(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("worker")
    server = start(folder, STEPS=write_steps(folder), ENV="staging")
    server.fence()
    return server


def lines_of(server: Server) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.fence()]


# --- what is no event --------------------------------------------------------------------------------------------


GIVEN = attributes(subject="documents/flow_runs/never")
RUN = json.dumps(as_json({"steps": {"a": ready(name=MARKER)}}, full_name("never"))).encode()
# One of each kind: `tests/ingress/test_cloudevent.py` and `test_document_event.py` have every other.
NO_EVENTS = {
    "an ordinary request": (Sent({"content-type": "application/json"}, b"{}"), 400, "ce-specversion"),
    "a structured event that is none": (structured({**GIVEN, "id": 5, "data": MARKER}), 400, "id must be text"),
    "data in another form than it says": (binary(RUN, "application/protobuf", GIVEN), 400, ""),
    "a form that is not understood": (binary(RUN, "text/plain", GIVEN), 415, "application/protobuf"),
}


@pytest.mark.parametrize(("sent", "status", "mentions"), NO_EVENTS.values(), ids=NO_EVENTS)
def test_what_is_no_event(worker: Server, sent: Sent, status: int, mentions: str) -> None:
    """Its own status and reason with words that help, no run changed, and one line that quotes nothing of it."""
    before = worker.documents(WATCHED)
    answer = post(worker, sent)
    (text,) = worker.fence()
    reason = "malformed_event" if status == 400 else "unsupported_media_type"
    assert (answer.status, answer.json["reason"]) == (status, reason), answer
    assert answer.json["error"]
    assert mentions in answer.json["error"]
    line = json.loads(text)
    assert (line["http_status"], line["reason"], line["env"]) == (status, reason, "staging")
    assert line["severity"] in {"WARNING", "ERROR"}
    assert MARKER not in text + answer.json["error"]
    assert worker.documents(WATCHED) == before


# --- events that ask for nothing ---------------------------------------------------------------------------------


class Quiet(NamedTuple):
    """An event that leads to nothing: what is answered, and where the log also tells of a step, which."""

    sent: Sent
    outcome: str
    reason: str
    run_id: str | None
    step_id: str | None = None
    told: str | None = None


def of_steps(steps: Any, outcome: str, reason: str, step_id: str | None = None, told: str | None = None) -> Quiet:
    return Quiet(event("r", {"flowKey": "nightly", "steps": steps}), outcome, reason, "r", step_id, told)


NO_READY = ("noop", "no_ready_step")
# One of each kind: `tests/flow` has every other.
QUIET = {
    "no update": Quiet(
        event("r", {"steps": {"a": ready()}}, type=UPDATED.replace("updated", "created")),
        *("filtered", "event_filtered", None),
    ),
    "a run of an id no document can have": Quiet(event("..", None), "filtered", "event_filtered", ".."),
    "a run that is gone": of_steps({"b": ready(), "a": ready()}, "noop", "run_not_found", "a"),
    "no steps": of_steps({}, *NO_READY),
    "a step that waits": of_steps({"a": ready("GREET", "b"), "b": ready("ELSEWHERE")}, *NO_READY, told="a"),
    "a step without a status": of_steps({"a": {"stepType": "GREET"}}, "filtered", "invalid_steps", told="a"),
}


@pytest.mark.parametrize("quiet", QUIET.values(), ids=QUIET)
def test_events_that_ask_for_nothing(worker: Server, quiet: Quiet) -> None:
    """They are answered 200, so that they do not come again, with one INFO line that says why; nothing changes."""
    before = worker.documents(WATCHED)
    answer = post(worker, quiet.sent)
    assert (answer.status, answer.json) == (
        200,
        {"outcome": quiet.outcome, "reason": quiet.reason, "runId": quiet.run_id, "stepId": quiet.step_id},
    )
    *about_steps, line = lines_of(worker)
    assert line.keys() >= ALWAYS | {"eventType"}
    assert (line["service"], line["env"], line["severity"]) == ("millpond", "staging", "INFO")
    assert (line["runId"], line["eventId"], line["reason"]) == (quiet.run_id, "event-1", quiet.reason)
    assert (line["http_status"], line["outcome"]) == (200, quiet.outcome)
    assert line["message"]
    assert line.get("stepId") == quiet.step_id
    assert [told["stepId"] for told in about_steps] == ([quiet.told] if quiet.told else [])
    assert all(told.keys() >= ALWAYS for told in about_steps)
    assert worker.documents(WATCHED) == before


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_document_as_large_as_documents_get(worker: Server, form: Form) -> None:
    """An event with 1 MiB of run is answered like any other, and fast."""
    run = {"flowKey": "big", "steps": {"a": ready()}, "pad": MARKER * 74_000}
    sent = event("big", run, form)
    assert len(sent.body) > 1_000_000
    began = time.monotonic()
    answer = post(worker, sent)
    assert time.monotonic() - began < BIG_S
    assert (answer.status, answer.json["reason"], answer.json["stepId"]) == (200, "run_not_found", "a")
    (text,) = worker.fence()
    assert MARKER not in text
    assert json.loads(text)["flowKey"] == "big"


# --- events that are worked on -----------------------------------------------------------------------------------


@pytest.fixture
def on_firestore(start: Start, firestore_emulator: str, project: str, tmp_path: Path) -> Server:
    """A server that nothing but events sets to work."""
    return start(
        tmp_path,
        STORE="firestore",
        FIRESTORE_EMULATOR_HOST=firestore_emulator,
        GCP_PROJECT=project,
        ENV="staging",
        SYSTEM_EVENTS_TOPIC="system.events",
        DEFAULT_REGION="local",
        STEPS=write_steps(tmp_path),
    )


def test_an_event_of_every_form_is_worked_on_once(on_firestore: Server, tmp_path: Path) -> None:
    """Each takes the smallest READY step to its end before it is answered; the same event again does nothing."""
    steps = {step_id: ready() for step_id in ("d", "b", "a", "c")}
    run = {"runId": "r", "flowKey": "nightly", "steps": steps}
    assert on_firestore.http.post("/api/flow-runs", json=run).status_code == 201
    assert statuses(on_firestore.document("flow_runs/r")) == dict.fromkeys("abcd", "READY")
    on_firestore.fence()
    sent = [event("r", None), *(event("r", run, form) for form in FORMS.values())]
    # The first carries nothing, so the run is read; the others show it as it was, and only a claim can tell.
    answers = [post(on_firestore, one) for one in sent]
    assert [(answer.status, answer.json["outcome"], answer.json["stepId"]) for answer in answers] == [
        (200, "succeeded", "a"),
        *[(200, "lost_race", "a")] * 4,
    ]
    claimed, finished, *lost = lines_of(on_firestore)
    assert (claimed["reason"], finished["reason"]) == ("step_claimed", "step_succeeded")
    for line in (claimed, finished, *lost):
        assert line.keys() >= ALWAYS | {"flowKey", "stepId", "eventType", "subject"}
        assert (line["runId"], line["flowKey"], line["stepId"]) == ("r", "nightly", "a")
    for form, step_id in zip(FORMS.values(), "bcd?", strict=True):
        now = on_firestore.document("flow_runs/r") or {}
        answer = post(on_firestore, event("r", {"steps": now["steps"]}, form))
        expected = ("noop", None) if step_id == "?" else ("succeeded", step_id)
        assert (answer.json["outcome"], answer.json["stepId"]) == expected
    assert statuses(on_firestore.document("flow_runs/r")) == dict.fromkeys("abcd", "SUCCEEDED")
    assert work_done(tmp_path) == [f"r/{step_id}/1" for step_id in "abcd"]


# --- events that must come again ---------------------------------------------------------------------------------


def test_a_store_that_is_away(start: Start) -> None:
    """The event is answered 503 with why, and one ERROR line tells of it."""
    nowhere = f"127.0.0.1:{free_port()}"
    environment = {"FIRESTORE_EMULATOR_HOST": nowhere, "FIRESTORE_RPC_DEADLINE_S": "0.5", "GCP_PROJECT": "p"}
    more = {"ENV": "staging", "SYSTEM_EVENTS_TOPIC": "system.events", "DEFAULT_REGION": "local"}
    server = start(STORE="firestore", **environment, **more)
    answer = post(server, event("r", None))
    error = answer.json.pop("error")
    assert (answer.status, answer.json) == (
        503,
        {"outcome": "retry", "reason": "store_unavailable", "runId": "r", "stepId": None},
    )
    line = json.loads(server.wait_for(lambda line: '"store_unavailable"' in line))
    assert (line["severity"], line["message"], line["http_status"]) == ("ERROR", error, 503)
    assert line.keys() >= ALWAYS


def test_more_events_than_there_is_room_for(start: Start, tmp_path: Path) -> None:
    """While a step runs and another event waits for it to end, the next one is answered 429 and when to come."""
    server = start(tmp_path, STEPS=write_steps(tmp_path), FLOW_STEPS_AT_ONCE="1", CONSUMER_QUEUE_SIZE="1")
    for run_id, step_type in (("slow", "SLOW"), ("next", "GREET")):
        run = {"runId": run_id, "steps": {"a": ready(step_type)}}
        assert server.http.post("/api/flow-runs", json=run).status_code == 201
    server.wait_for(lambda line: '"step_claimed"' in line)
    sent = event("next", {"steps": {"a": ready()}})

    def wait_in_line() -> None:
        with contextlib.suppress(httpx.TransportError):
            httpx.post(f"{server.url}/events", content=sent.body, headers=sent.headers, timeout=60, trust_env=False)

    threading.Thread(target=wait_in_line, daemon=True).start()
    until = time.monotonic() + BIG_S
    while True:
        with contextlib.suppress(httpx.ReadTimeout):
            response = server.http.post("/events", content=sent.body, headers=sent.headers, timeout=0.5)
            break
        assert time.monotonic() < until
    answer = answer_of(response)
    assert (answer.status, answer.json["outcome"]) == (429, "retry")
    assert answer.json["reason"] == "backpressure_queue_full"
    assert int(answer.headers["retry-after"]) > 0
    assert statuses(server.document("flow_runs/next")) == {"a": "READY"}
