"""The event log on Firestore with default settings: what it answers, and what it costs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore

from millpond.core.model import Outcome
from millpond.stores.firestore.store import FirestoreStore
from tests.cli.shell import Shell
from tests.common.firestore_proxy import running_proxy
from tests.common.pond import NOW, delivery
from tests.common.push import JSON, push_body
from tests.common.rig import Rig
from tests.common.server import Server
from tests.common.stores import Run

ENVIRONMENT = {"ENV": "test", "SYSTEM_EVENTS_TOPIC": "system.events", "DEFAULT_REGION": "local"}
SERVICES = 10
EVENTS = 200


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def heartbeat(number: int, **more: Any) -> dict[str, Any]:
    """An event of one of ten services, a minute after the one before, with an id of its own."""
    at = f"2026-01-08T{10 + number // 60:02}:{number % 60:02}:00Z"
    event = {"service": f"s{number % SERVICES}", "status": "ok", "timestamp": at, "eventId": f"e{number}", **more}
    return push_body(event, message_id=f"m{number}", topic="system.events")


async def send_all(servers: list[Server], bodies: list[dict[str, Any]]) -> None:
    """Each to one of the servers; every one is acknowledged, also the poison."""
    slots = asyncio.Semaphore(20)

    async def send(number: int, body: dict[str, Any]) -> None:
        async with slots:
            url = f"{servers[number % len(servers)].url}/pubsub/push"
            for _ in range(20):
                answer = await client.post(url, json=body, headers=JSON)
                if answer.status_code == 200:
                    return
                await asyncio.sleep(0.1)
            raise AssertionError(answer.text)

    async with httpx.AsyncClient(timeout=30) as client:
        await asyncio.gather(*(send(number, body) for number, body in enumerate(bodies)))


def test_every_question_about_the_past_has_an_answer(
    firestore_emulator: str, project: str, tmp_path: Path, stack: ExitStack
) -> None:
    """why, event search, stats, tail, verify and rebuild; each message once, however often it came."""
    settings = {
        **ENVIRONMENT,
        "STORE": "firestore",
        "GCP_PROJECT": project,
        "FIRESTORE_EMULATOR_HOST": firestore_emulator,
        "POISON_POLICY": "park",
    }
    servers = [stack.enter_context(Server(tmp_path, settings)) for _ in range(2)]
    shell = Shell(tmp_path)
    shell.environment.update(settings)
    tail = stack.enter_context(shell.start("tail", "--json", "--limit", "5", "--url", servers[0].url, stdout=-1))
    stack.callback(tail.kill)
    time.sleep(2)
    bodies = [heartbeat(number) for number in range(EVENTS)]
    poison = [heartbeat(number, timestamp="yesterday") for number in range(EVENTS, EVENTS + 3)]
    # Everything twice, on either server, the second time the other way round.
    asyncio.run(send_all(servers, [*bodies, *poison]))
    asyncio.run(send_all(servers[::-1], [*poison, *bodies][::-1]))

    # The newest of its service: an older one that was not answered 200 at first may have been overtaken.
    newest = EVENTS - 1
    told = json.loads(shell.ok("why", f"m{newest}", "--json").out)
    (message,) = told["messages"]
    assert (message["outcome"], message["eventId"], message["views"][0]["view"]) == (
        "applied",
        f"e{newest}",
        "ops_services",
    )
    assert json.loads(shell.ok("why", f"e{newest}", "--json").out)["messages"] == told["messages"]
    assert shell.run("why", "never-sent").code == 1

    stats = servers[1].get("/api/stats").json
    counts = stats["topics"]["system.events"]
    # A long log is summed: poison that comes again is buried again, and counts again.
    assert 3 <= counts["poison"] <= 6
    assert stats["total"] - counts["poison"] == EVENTS
    found, after = [], ""
    while True:
        page = servers[1].get(f"/api/events?since=1h&limit=50{after}").json
        found += [event["messageId"] for event in page["events"]]
        if page["next"] is None:
            break
        after = f"&after={httpx.QueryParams({'a': page['next']})['a']}".replace(" ", "%20")
    assert sorted(found) == sorted(f"m{number}" for number in range(EVENTS + 3))
    assert len((tail.communicate(timeout=30)[0] or b"").splitlines()) == 5

    report = json.loads(shell.ok("verify", "--json").out)
    assert {name: report[name] for name in ("entries", "documents", "equal", "different", "notCheckable")} == {
        "entries": EVENTS + 3,
        "documents": SERVICES,
        "equal": SERVICES,
        "different": 0,
        "notCheckable": 0,
    }
    damage(project, firestore_emulator)
    assert shell.run("verify").code == 1
    rebuilt = json.loads(shell.ok("rebuild", "ops_services", "--yes", "--json").out)
    assert rebuilt["written"] == 1
    assert json.loads(shell.ok("verify", "--json").out)["equal"] == SERVICES


def damage(project: str, emulator: str) -> None:
    """Another program changes a document of ours."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FIRESTORE_EMULATOR_HOST", emulator)
        client = firestore.Client(project=project, credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
    client.collection("ops_services").document("test__s3").update({"status": "damaged"})
    client.close()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("receipts", "in_flight", "writes_max"), [("all", 100, None), ("tallies", 300, 0.5), ("logical", 100, None)]
)
def test_the_log_costs_a_write_a_commit(
    receipts: str,
    in_flight: int,
    writes_max: float | None,
    run: Run,
    firestore_emulator: str,
    project: str,
    monkeypatch: pytest.MonkeyPatch,
    figures: Callable[[str], None],
) -> None:
    """At most a write in twenty messages; without receipts of documents that need none, under half a write each."""
    messages, documents = 1_800, 50
    with running_proxy(firestore_emulator) as proxy:
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", proxy.address)
        store = FirestoreStore(project=project, keeps_log=True, deadline_s=30)
        environment = {"RECEIPTS": receipts, "CONSUMER_QUEUE_SIZE": "1000", "FIRESTORE_RETRY_MAX_TOTAL_S": "60"}

        async def feed() -> None:
            async with Rig(store, **environment) as rig:
                for wave in range(0, messages, in_flight):
                    events = [
                        {
                            "service": f"s{n % documents}",
                            "timestamp": NOW // 1_000_000 - messages + n,
                            "topic": "system.events",
                        }
                        for n in range(wave, wave + in_flight)
                    ]
                    sent = [rig.engine.handle(delivery(event, f"m{wave + n}")) for n, event in enumerate(events)]
                    results = await asyncio.gather(*sent)
                    assert {result.outcome for result in results} == {Outcome.APPLIED}
            assert await store.count_documents("ops_services") == documents
            assert await store.count_documents("ops_dedupe") == (0 if receipts == "tallies" else messages)

        before = proxy.total()
        run(feed())
        spent = proxy.total().since(before)
        # The list of the keys of counts is no segment.
        log_writes = run(store.count_documents("millpond_event_segments")) - 1
        run(store.close())
    logged, written = log_writes / messages, spent.writes / messages
    figures(f"RECEIPTS={receipts}, {in_flight} in flight: {written:.3f} writes a message, {logged:.3f} of the log")
    assert 0 < logged <= 0.05
    assert writes_max is None or written < writes_max
