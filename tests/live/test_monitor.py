"""What pages are told, by a watch without a server: when the store fails, when a reader is slow, and at the end."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from millpond.alerts.evaluate import AlertState, State
from millpond.core.errors import Unavailable
from millpond.core.model import Committed, Put, Ref
from millpond.http.access import RequestFault
from millpond.http.api import live as live_api
from millpond.http.api.live import LIVE_PATH, TAIL_PATH, LiveApi
from millpond.http.streams import STREAMS_MAX, Streams
from millpond.live import document_counts as counts_module
from millpond.live import monitor as monitor_module
from millpond.live.history import History
from millpond.live.mailbox import MAILBOX_BYTES_MAX, Mailbox
from millpond.live.monitor import Monitor
from millpond.live.outcomes import Outcomes
from millpond.live.tails import Wanted
from millpond.service.service import Service
from millpond.stores.memory import MemoryStore
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics
from tests.common.endpoints import endpoint
from tests.common.waiting import until

TICK_S = 0.01


class Counting(MemoryStore):
    """A store that counts how often it was asked, and fails when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.failing = False

    async def collections(self) -> list[tuple[str, int]]:
        self._note("collections")
        return await super().collections()

    async def count_documents(self, collection: str) -> int:
        self._note("letters")
        return await super().count_documents(collection)

    def _note(self, what: str) -> None:
        self.asked.append(what)
        if self.failing:
            raise Unavailable("the store is away")


class Scene:
    """A watch whose clock runs a hundred times as fast."""

    def __init__(self, alerts: Callable[[History], Sequence[AlertState]] | None = None) -> None:
        self.store = Counting()
        self.metrics = Metrics()
        self.output = io.BytesIO()
        self.log = Log(self.output, env="dev", metrics=self.metrics)
        self.outcomes = Outcomes(lambda: 0, self.log.unexpected)
        self.monitor = Monitor(
            metrics=self.metrics,
            store=self.store,
            log=self.log,
            outcomes=self.outcomes,
            waiting=lambda: 0,
            alerts=alerts,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Monitor]:
        self.monitor.start()
        yield self.monitor
        await self.monitor.close()

    async def put_letter(self) -> None:
        put = Put(Ref("dead_letters", "x"), None, {"reason": "r"})
        assert isinstance(await self.store.commit([put]), Committed)

    def lines(self) -> list[Any]:
        self.log.close()
        return [json.loads(line) for line in self.output.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_module, "STEP_S", 2 * TICK_S)
    monkeypatch.setattr(monitor_module, "CHANGED_EVERY_S", TICK_S)
    monkeypatch.setattr(monitor_module, "TOTALS_LOOKED_AT_EVERY_S", TICK_S)


async def read_until(mailbox: Mailbox, *wanted: bytes) -> bytes:
    """What came until all of these were in it."""
    text = b""
    async with asyncio.timeout(5):
        while not all(word in text for word in wanted):
            taken = await mailbox.take(5)
            assert taken is not None
            text += taken
    return text


# --- totals ------------------------------------------------------------------------------------------------------


async def test_the_store_is_asked_once_for_all_pages() -> None:
    """Within 15 s every page gets the same answer; while no page is open only the letters are counted."""
    scene = Scene()
    async with scene.running() as watch:
        await scene.put_letter()
        pages = [watch.open_page() for _ in range(20)]
        for page in pages:
            assert b'"letters":1' in await read_until(page, b"event: totals")
        assert scene.store.asked.count("collections") == 1
        for page in pages:
            watch.close_page(page)
        await asyncio.sleep(5 * TICK_S)
    assert scene.store.asked.count("collections") == 1
    assert "millpond_letters 1.0" in scene.metrics.render().decode()


async def test_letters_are_counted_while_no_page_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alerts need them; until the first count there is no figure."""
    monkeypatch.setattr(counts_module, "FRESH_S", 3 * TICK_S)
    scene = Scene()
    assert "millpond_letters " not in scene.metrics.render().decode()
    async with scene.running() as watch:
        await scene.put_letter()
        await until(lambda: len(scene.store.asked) >= 3, 5)
        assert watch.history.letters == 1
    assert set(scene.store.asked) == {"letters"}
    assert "millpond_letters 1.0" in scene.metrics.render().decode()


async def test_a_store_that_cannot_count_is_not_asked_by_every_page() -> None:
    """Once in 15 s, as when it answers: it has trouble enough."""
    scene = Scene()
    async with scene.running() as watch:
        scene.store.failing = True
        pages = [watch.open_page() for _ in range(20)]
        for page in pages:
            await read_until(page, b"event: sample")
    assert scene.store.asked == ["collections"]


async def test_steps_that_were_missed_are_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a long pause, of a laptop that slept or a loop that was busy, the next step comes a step later."""
    monkeypatch.setattr(monitor_module, "STEP_S", 0.05)
    acted: list[float] = []

    def evaluate(_: History) -> list[AlertState]:
        # At the start, and then with every step. The first of them holds the loop up.
        acted.append(time.monotonic())
        if len(acted) == 2:
            time.sleep(0.5)
        return []

    async with Scene(evaluate).running():
        await until(lambda: len(acted) >= 5, 5)
    assert acted[4] - acted[2] >= 0.09, "one at once, because its time has come, and then one after the other"


async def test_a_store_that_is_away_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last answer stands, the streams go on, and it is asked again until it answers."""
    monkeypatch.setattr(counts_module, "FRESH_S", 2 * TICK_S)
    scene = Scene()
    async with scene.running() as watch:
        page = watch.open_page()
        await read_until(page, b"event: totals")
        scene.store.failing = True
        await scene.put_letter()
        asked = len(scene.store.asked)
        await read_until(page, b"event: sample")
        async with asyncio.timeout(5):
            while len(scene.store.asked) < asked + 4:
                assert b'"letters":1' not in (await page.take(5) or b"")
        late = watch.open_page()
        assert b'"letters":0' in await read_until(late, b"event: totals")
        scene.store.failing = False
        await read_until(page, b'"letters":1')
    (line,) = scene.lines()
    assert (line["severity"], line["message"]) == (
        "WARNING",
        "documents and letters could not be counted, and will be: the store is away",
    )


# --- pages -------------------------------------------------------------------------------------------------------


def alert(state: State = "critical", text: str = "", view: str | None = None) -> AlertState:
    return AlertState("a", "A", state, 1.0, "", text, None, "runbook#a", view)


async def test_alerts_are_told_when_a_state_changes_and_only_then() -> None:
    """A value that moves within its state is no news; a bug in deciding them stops no sample."""
    states: Iterator[State | None] = iter(["ok", "ok", "ok", None, "critical", "critical"])

    def alerts(_: History) -> list[AlertState]:
        state: State | None = next(states, "critical")
        if state is None:
            raise ZeroDivisionError
        return [alert(state)]

    scene = Scene(alerts)
    async with scene.running() as watch:
        page = watch.open_page()
        text = await read_until(page, b'"critical"')
        assert text.count(b"event: alerts") == 1
        assert text.count(b"event: sample") == 4
        assert b"event: alerts" not in await read_until(page, b"event: sample")
        assert b'"critical"' in watch.alerts_frame()
    assert [line["error_type"] for line in scene.lines()] == ["ZeroDivisionError"]


@pytest.mark.parametrize(
    ("states", "last", "changes"),
    [
        ([alert(text="12 letters"), alert(text="12 letters"), alert(text="40 letters")], b"40 letters", 1),
        ([alert("ok"), alert(view="bars"), alert(view="bars"), alert(view="ticks")], b'"view":"ticks"', 2),
    ],
    ids=["another figure", "another view"],
)
async def test_what_changes_while_an_alert_fires_is_told(
    states: list[AlertState], last: bytes, changes: int
) -> None:
    """The page's headline says it: 12 letters must not stand there when there are 40, nor the view before."""
    waiting = iter(states)
    async with Scene(lambda _: [next(waiting, states[-1])]).running() as watch:
        page = watch.open_page()
        text = await read_until(page, last)
        assert text.count(b"event: alerts") == changes
        assert b"event: alerts" not in await read_until(page, b"event: sample")


async def test_a_reader_far_behind_is_ended() -> None:
    """He starts over with a whole history; the others go on."""
    async with Scene().running() as watch:
        slow, reader = watch.open_page(), watch.open_page()
        await read_until(slow, b"event: totals")
        assert slow.put(b"x" * (MAILBOX_BYTES_MAX - 10))
        await read_until(reader, b"event: sample", b"event: totals")
        assert slow.ended
        assert await slow.take(1) is None
        await read_until(reader, b"event: sample")


async def test_only_what_somebody_looks_at_is_told() -> None:
    """Without pages and tails a message is told to the sparklines alone."""
    scene = Scene()
    async with scene.running() as watch:
        always = list(scene.outcomes.subscribers)
        assert always == [watch.sparklines.on_outcome]
        watch.close_page(watch.open_page())
        assert list(scene.outcomes.subscribers) == always
        watch.close_tail(watch.open_tail(Wanted()))
        assert list(scene.outcomes.subscribers) == always
        page, tail = watch.open_page(), watch.open_tail(Wanted())
        assert list(scene.outcomes.subscribers) == [*always, watch.changes.on_outcome, watch.tails.on_outcome]
        watch.changes.letters()
        watch.close_page(page)
        watch.close_tail(tail)
        assert list(scene.outcomes.subscribers) == always
        # What changed before a page was opened is no news to it.
        watch.changes.letters()
        again = watch.open_page()
        assert b"event: changed" not in await read_until(again, b"event: sample")


async def test_the_end() -> None:
    """Every stream ends at once, and one that is opened afterwards as well."""
    async with Scene().running() as watch:
        page, tail = watch.open_page(), watch.open_tail(Wanted())
        watch.stop()
        late_page, late_tail = watch.open_page(), watch.open_tail(Wanted())
        for mailbox in (page, tail.mailbox, late_page, late_tail.mailbox):
            assert await mailbox.take(0) is None


# --- streams -----------------------------------------------------------------------------------------------------


def test_streams_are_counted() -> None:
    """The last place is given away, and the next asks in vain."""
    streams = Streams(STREAMS_MAX)
    streams.open = STREAMS_MAX - 1
    streams.check_room()
    streams.open = STREAMS_MAX
    with pytest.raises(RequestFault, match="64 streams are open") as refused:
        streams.check_room()
    assert (refused.value.status, refused.value.reason) == (429, "too_many_streams")


@pytest.mark.parametrize("ends_by", ["cancellation", "an error"])
async def test_a_stream_gives_its_place_back_however_it_ends(ends_by: str) -> None:
    streams = Streams(STREAMS_MAX)
    told: list[str] = []

    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"x"
        if ends_by == "an error":
            raise Unavailable("the store is away")
        await asyncio.sleep(3600)

    async def send(_: Any) -> None:
        pass

    async def receive() -> Any:
        await asyncio.sleep(3600)

    stream = streams.start(frames(), lambda: told.append("closed"))
    answering = asyncio.create_task(stream({"method": "GET"}, receive, send))
    await asyncio.sleep(0.02)
    answering.cancel()
    (end,) = await asyncio.gather(answering, return_exceptions=True)
    assert isinstance(end, asyncio.CancelledError | Unavailable)
    assert (streams.open, told) == (0, ["closed"])


async def test_a_stream_that_is_refused_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mailbox for it would be told of every message, and never be read or closed."""
    monkeypatch.setattr(live_api, "STREAMS_MAX", 0)
    scene = Scene()
    async with scene.running() as watch:
        routes = LiveApi(cast("Service", SimpleNamespace(monitor=watch))).routes()
        request = Request({"type": "http", "query_string": b"", "headers": []})
        for path in (LIVE_PATH, TAIL_PATH):
            with pytest.raises(RequestFault, match="streams are open"):
                await endpoint(routes, "GET", path)(request)
        assert not watch.tails.any
        assert list(scene.outcomes.subscribers) == [watch.sparklines.on_outcome]
