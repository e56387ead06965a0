"""Several instances on one database converge, whatever is duplicated, shuffled, republished or killed."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from millpond.core.decode import decode_push
from millpond.service.views import load_views
from tests.common.firestore_proxy import running_proxy
from tests.common.pond import Pond
from tests.common.server import Server
from tests.instances.broker import Broker
from tests.instances.counting import Fills
from tests.instances.traffic import Message, Traffic
from tests.wire.onlooker import Onlooker
from tests.wire.rig import documents_of_views

SEED = 20_261_115
EVENTS = 360
# One kind of six, ticks, leaves none.
EVENTS_WITH_RECEIPTS = 300
INSTANCES = 3
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {"ENV": "test", "SYSTEM_EVENTS_TOPIC": "system.events", "DEFAULT_REGION": "local"}
COUNTED = ("millpond_conflicts_total", "millpond_documents_read_total", "millpond_documents_written_total")


class Fleet:
    """Servers as processes, all on one database; what the dead ones counted is kept."""

    def __init__(self, folder: Path, project: str, address: str) -> None:
        self._folder = folder
        self._environment = {
            **ENVIRONMENT,
            "STORE": "firestore",
            "GCP_PROJECT": project,
            "FIRESTORE_EMULATOR_HOST": address,
            "VIEWS": "tests.instances.counting",
            "PYTHONPATH": f"{ROOT}",
        }
        self._counted: Counter[str] = Counter()
        with ThreadPoolExecutor() as starting:
            self.servers = list(starting.map(lambda _: self._start(), range(INSTANCES)))

    def _start(self) -> Server:
        return Server(self._folder, self._environment)

    async def replace_first(self) -> None:
        """Kill one as it stands, with requests in flight, and start another in its place."""
        dying = self.servers[0]
        self._counted += await asyncio.to_thread(_metrics, dying)
        dying.kill()
        self.servers[0] = await asyncio.to_thread(self._start)

    def counted(self) -> Counter[str]:
        return sum((_metrics(server) for server in self.servers), self._counted)

    def kill(self) -> None:
        for server in self.servers:
            server.kill()


def _metrics(server: Server) -> Counter[str]:
    text = server.http.get("/metrics").text
    found = re.findall(r"^(millpond_\w+)(?:\{[^}]*\})? ([0-9.e+]+)$", text, re.MULTILINE)
    return Counter({name: int(float(value)) for name, value in found if name in COUNTED})


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def test_three_instances_converge(
    firestore_emulator: str, project: str, tmp_path: Path, figures: Callable[[str], None], stack: ExitStack
) -> None:
    """One is killed and replaced half way; every document equals the fold, and a redelivery of all changes none."""
    now = time.time_ns() // 1_000
    traffic = Traffic(SEED, now, EVENTS)
    deliveries = traffic.deliveries()
    proxy = stack.enter_context(running_proxy(firestore_emulator))
    onlooker = stack.enter_context(Onlooker(firestore_emulator))
    fleet = Fleet(tmp_path, project, proxy.address)
    stack.callback(fleet.kill)
    broker = Broker(fleet.servers, SEED)

    began = time.monotonic()
    asyncio.run(broker.send(deliveries, half_way=fleet.replace_first))
    took_s = time.monotonic() - began
    figures(_figures(traffic, broker, fleet.counted(), proxy.total(), took_s))
    settled = onlooker.documents(project)
    documents = documents_of_views(settled)
    assert broker.broken > 0, "the kill hit nothing"
    _compare_with_facts(documents, traffic)
    assert _collections(settled)["ops_dedupe"] == EVENTS_WITH_RECEIPTS
    assert "dead_letters" not in _collections(settled)
    assert documents == _fold(traffic.messages, now)

    again = Broker(fleet.servers, SEED)
    asyncio.run(
        again.send(traffic.messages, choose=lambda message: (broker.taken_by[message.message_id] + 1) % INSTANCES)
    )
    assert set(again.outcomes) <= {"duplicate", "stale_ignored", "too_old_ignored"}
    assert _versions(onlooker.documents(project)) == _versions(settled)


def _versions(found: Mapping[str, Any]) -> dict[str, Any]:
    """Without the event log, which a stale event that comes again adds to."""
    return {path: seen.version for path, seen in found.items() if not path.startswith("millpond_event_segments/")}


def _collections(found: Mapping[str, Any]) -> Counter[str]:
    return Counter(path.partition("/")[0] for path in found)


def _compare_with_facts(documents: Mapping[str, Any], traffic: Traffic) -> None:
    """The fold without any code of Millpond's: the greatest fact about each field, and plain sums."""
    wanted = traffic.expected()
    assert {path for path, _ in wanted} | set(traffic.fills) == set(documents)
    for (path, field), value in wanted.items():
        found = documents[path]
        for name in field:
            found = found[name]
        assert found == value, f"{path} {field}"
    for path, fills in traffic.fills.items():
        found = documents[path]
        assert (found["fills"], found["quantity"]) == (fills, traffic.quantity[path])


def _fold(messages: Sequence[Message], now: int) -> Mapping[str, Any]:
    """Whole documents, by the pure pipeline, one message at a time, oldest first."""
    settings = Pond(None, **ENVIRONMENT).settings
    pond = Pond([*load_views(settings), Fills()], **ENVIRONMENT)
    pond.now = now
    for message in sorted(messages, key=lambda message: (message.published, message.message_id)):
        pond.send(decode_push(message.encoded()))
    return pond.state()


def _figures(traffic: Traffic, broker: Broker, counted: Mapping[str, int], wire: Any, took_s: float) -> str:
    answered = broker.statuses[200]
    conflicts, read, written = (counted[name] / answered for name in COUNTED)
    return (
        f"{INSTANCES} instances, one killed and replaced, seed {SEED}: {answered} deliveries of "
        f"{len(traffic.messages)} messages in {took_s:.1f} s, {broker.broken} cut off\n"
        f"per message delivered: {conflicts:.2f} conflicts, {read:.2f} documents read by batches "
        f"({wire.reads / answered:.2f} on the wire), {written:.2f} written"
    )
