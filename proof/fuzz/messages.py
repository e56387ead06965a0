"""Valid messages for every view, and valid events about flow runs, made from a random generator alone.

`requests.py` mutates them.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf import json_format

from tests.common import eventarc
from tests.common.eventarc import FORMS, UPDATED, Sent, attributes, full_name

SUBSCRIPTIONS = ("projects/fuzz/subscriptions/one", "projects/fuzz/subscriptions/two", "short", None)
# Runs of each kind that the target holds before the first request. None has a step that can run.
RUNS_OF_A_KIND = 12
_BEGAN = dt.datetime(2026, 1, 8, 12, tzinfo=dt.UTC)
_PUBLISHED = _BEGAN + dt.timedelta(minutes=10)
# In the future, because a tally refuses events older than its receipts: requests must not depend on the clock.
_YET_TO_COME = dt.datetime(2150, 1, 8, 12, tzinfo=dt.UTC)


class Message(NamedTuple):
    """One valid message. `topic` is its attribute; None if its content determines the topic."""

    message_id: str
    published: str
    payload: dict[str, Any]
    topic: str | None
    subscription: str | None
    attempt: int | None


def _time(rng: random.Random, began: dt.datetime = _BEGAN) -> str:
    at = began + dt.timedelta(seconds=rng.randrange(600), milliseconds=rng.choice((0, 0, 250)))
    return at.isoformat().replace("+00:00", "Z")


def _service(rng: random.Random) -> dict[str, Any]:
    fields = {"service": f"service-{rng.randrange(30)}", "status": rng.choice(("ok", "degraded"))}
    return {**fields, "timestamp": _time(rng), "version": "1.2", "region": "eu"}


def _heartbeat(rng: random.Random) -> dict[str, Any]:
    fields = {"pipeline_id": f"pipeline-{rng.randrange(20)}", "status": "ok", "ts": _time(rng)}
    return {**fields, "tenant_id": "t", "notes": ["a", {"b": 1.5}], "sequence": rng.randrange(1_000)}


def _tick(rng: random.Random) -> dict[str, Any]:
    fields = {"symbol": rng.choice(("SPY", "qqq", "BRK/B", "x y")), "price": rng.choice((1, 512.25, "99.10"))}
    late = {"ts": "2026-01-08T10:00:00Z"} if rng.random() < 0.1 else {"ts": _time(rng)}
    return {**fields, **late, "bid": 1.5, "ask": 2, "size": 100, "sequence": rng.randrange(50)}


def _bar(rng: random.Random) -> dict[str, Any]:
    prices = {"open": 1, "high": 3.5, "low": 0.5, "close": 2, "volume": 1_000}
    at = "2025-06-01T12:00:00Z" if rng.random() < 0.1 else _time(rng)
    return {"symbol": rng.choice(("SPY", "IWM")), "ts": at, **prices}


def _signal(rng: random.Random) -> dict[str, Any]:
    fields = {"signalId": f"signal-{rng.randrange(40)}", "state": rng.choice(("new", "filled"))}
    more = {"confidence": 0.8, "targets": [1, {"at": 2.5}], "risk": {"max": 10}, "strategy": "mean"}
    return {**fields, **more, "updatedAt": _time(rng), "sequence": rng.randrange(100)}


def _passage(rng: random.Random) -> dict[str, Any]:
    began = _YET_TO_COME if rng.random() < 0.7 else _BEGAN
    people = rng.choice((1, 3, 3, "many"))
    return {"station": f"s{rng.randrange(5)}", "day": "2026-01-08", "people": people, "passedAt": _time(rng, began)}


def _scan(rng: random.Random) -> dict[str, Any]:
    fields = {"parcelId": f"parcel-{rng.randrange(20)}", "depot": "north", "scannedAt": _time(rng)}
    return {**fields, "status": rng.choice(("seen", "seen", "delivered"))}


# Topic, event type (None if the view has none), and the function that makes its payload.
_TOPICS: tuple[tuple[str, str | None, Callable[[random.Random], dict[str, Any]]], ...] = (
    ("system.events", "system.event", _service),
    ("ingest-heartbeat", "ingest.heartbeat", _heartbeat),
    ("market-ticks", "market.tick", _tick),
    ("market-ticks", "market.tick", _tick),
    ("market-bars-1m", "market.bar", _bar),
    ("trade-signals", "trade.signal", _signal),
    ("turnstiles", None, _passage),
    ("parcel-scans", None, _scan),
)


def good_message(rng: random.Random, number: int) -> Message:
    """A message of this number; sometimes one that repeats an earlier message or event."""
    topic, event_type, make = rng.choice(_TOPICS)
    payload = make(rng)
    if rng.random() < 0.3:
        payload["eventId"] = f"event-{rng.randrange(max(number, 20)) // 2}"
    if event_type is not None and rng.random() < 0.3:
        outer = {
            "event_type": event_type,
            "agent_name": "fuzz",
            "git_sha": "abc",
            "trace_id": "t",
            "ts": _time(rng),
        }
        payload = {**outer, "payload": payload}
    elif rng.random() < 0.15:
        payload["topic"] = topic
    known = "topic" in payload or "event_type" in payload or make is _service
    again = rng.random() < 0.12
    return Message(
        f"m-{number - rng.randint(1, 60)}" if again and number > 60 else f"m-{number}",
        # A message that meets a view's bug is buried once it is old. One from the future never is, so both occur.
        _time(rng, _YET_TO_COME if make is _passage and rng.random() < 0.5 else _PUBLISHED),
        payload,
        None if known and rng.random() < 0.6 else topic,
        rng.choice(SUBSCRIPTIONS),
        rng.randint(1, 5) if rng.random() < 0.4 else None,
    )


# --- events about flow runs --------------------------------------------------------------------------------------


def _step(status: str, step_type: str = "GREET", *depends_on: str) -> dict[str, Any]:
    step: dict[str, Any] = {"status": status, "stepType": step_type, "inputs": {"name": "you", "n": 1.5}}
    return {**step, "dependsOn": list(depends_on)} if depends_on else step


def prepared_runs() -> list[dict[str, Any]]:
    """Runs to submit first: some that end, and some whose second step waits for ever."""
    done = [{"runId": f"done-{n}", "steps": {"a": _step("READY")}} for n in range(RUNS_OF_A_KIND)]
    stuck = {"a": _step("READY", "BREAK"), "b": _step("READY", "GREET", "a")}
    return [*done, *({"runId": f"stuck-{n}", "steps": stuck} for n in range(RUNS_OF_A_KIND))]


class Event(NamedTuple):
    """One valid event: its form, its run, and the run as it shows it (None if it shows none)."""

    form: str
    name: str
    given: dict[str, str]
    run: dict[str, Any] | None

    def sent(self) -> Sent:
        """Encoded with fields sorted by name: protobuf's own order differs between processes."""
        made = eventarc.message(self.run or {}, self.name)
        binary: bytes = made.SerializeToString(deterministic=True)
        plain = json.loads(json.dumps(json_format.MessageToDict(made), sort_keys=True))
        if self.form == "structured":
            return eventarc.structured({**self.given, "data": plain})
        if self.form == "structured base64":
            data = base64.b64encode(binary).decode()
            return eventarc.structured(
                {**self.given, "datacontenttype": "application/protobuf", "data_base64": data}
            )
        is_protobuf = self.form == "binary protobuf"
        data_sent = b"" if self.run is None else binary if is_protobuf else json.dumps(plain).encode()
        return eventarc.binary(data_sent, "application/protobuf" if is_protobuf else "application/json", self.given)


def _shown(rng: random.Random, stuck: bool) -> dict[str, Any]:
    """A run as an event might show it, which may differ from the stored run."""
    steps: Any = (
        {"a": _step("SUCCEEDED", "BREAK"), "b": _step("READY", "GREET", "a")} if stuck else {"a": _step("READY")}
    )
    draw = rng.random()
    if draw < 0.1:
        steps = {"a": _step(rng.choice(("RUNNING", "SUCCEEDED", "FAILED")))}
    elif draw < 0.2:
        steps = {"a": _step("READY", "ELSEWHERE"), "é": _step("READY", "ELSEWHERE", "a")}
    elif draw < 0.3:
        steps = rng.choice((None, "READY", [], {"a": {"status": "READY"}}, {"a": 5}, {"\x1b": _step("READY")}))
    return {"flowKey": "nightly", "scope": {"symbol": "SPY", "limit": 5}, "steps": steps, "tags": ["a", 1, None]}


def good_event(rng: random.Random, number: int) -> Event:
    kind = rng.choice(("done", "done", "stuck", "never"))
    run_id = f"{kind}-{rng.randrange(RUNS_OF_A_KIND)}"
    changes: dict[str, str | None] = {"id": f"event-{number}", "subject": f"documents/flow_runs/{run_id}"}
    draw = rng.random()
    if draw < 0.05:
        changes["type"] = rng.choice((UPDATED + ".withAuthContext", UPDATED.replace("updated", "created"), "other"))
    elif draw < 0.1:
        changes["subject"] = rng.choice(("documents/other/a", "documents/flow_runs/a/steps/b", None, "flow_runs/"))
    run = None if rng.random() < 0.15 else _shown(rng, kind == "stuck")
    return Event(rng.choice([*FORMS]), full_name(run_id), attributes(**changes), run)
