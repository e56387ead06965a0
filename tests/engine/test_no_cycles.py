"""What is done with a big message leaves nothing of it behind, without the help of the garbage collector.

The server lets it run seldom (`web/server.py`). An error that is kept with its traceback keeps every frame that was
being called, and with these the message; where the message's own result is among them, that is a cycle.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import json
import os
import tracemalloc
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from google.pubsub_v1.types import ReceivedMessage
from starlette.requests import Request

from millpond import Event, Latest, Tally
from millpond.concurrency import in_thread, run_all
from millpond.core.errors import Unavailable, ViewError, WriteRefused, as_value
from millpond.core.item import Item
from millpond.core.model import (
    Committed,
    Conflict,
    Delivery,
    Document,
    LogEntry,
    Outcome,
    Ref,
    Result,
    Snapshot,
    Write,
)
from millpond.http.app import build_table
from millpond.ingress import dead_letter_subscription as replaying
from millpond.stores.sqlite.store import SqliteStore
from tests.common.pond import NOW, SECOND
from tests.common.rig import Rig

# Of a message: more than a document, or one part of a letter, may have.
SIZE = 1_200_000
TIMES = 3
PAD = "x" * SIZE
SUBSCRIPTION = "projects/p/subscriptions/s"
# Names of messages → what they carry. Each fails in another place.
POISON: dict[str, bytes] = {
    "no-json": b"{" + b"x" * SIZE,
    "not-utf8": b'{"a": "' + b"\xff" * SIZE + b'"}',
    "no-object": json.dumps([PAD]).encode(),
    "unroutable": json.dumps({"pad": PAD}).encode(),
    "refused-by-its-view": json.dumps({"topic": "market-ticks", "symbol": "S", "ts": "soon", "pad": PAD}).encode(),
    "bug-of-a-view": json.dumps({"topic": "boxes", "box": 1, "pad": PAD}).encode(),
    "bug-of-a-fold": json.dumps({"topic": "counted", "box": 1, "ts": NOW / SECOND, "pad": PAD}).encode(),
    "too-old-to-count": json.dumps({"topic": "counted", "box": 1, "ts": NOW / SECOND - 10**7, "pad": PAD}).encode(),
    "too-large": json.dumps({"topic": "ingest-heartbeat", "pipeline_id": "p", "pad": PAD}).encode(),
    "in-parts": os.urandom(SIZE),
}


class Boxes(Latest):
    topics = ("boxes",)
    collection = "boxes"
    key = "box"

    def document(self, event: Event) -> Document:
        pad = event.require("pad")
        raise RuntimeError(f"a bug that quotes {pad}")


class Counted(Tally):
    topics = ("counted",)
    collection = "counted"
    key = "box"
    time = "ts"

    def fold(self, event: Event, current: Document) -> Document:
        pad = event.require("pad")
        raise KeyError(pad, current)


class Store(SqliteStore):
    """Fails at the next commits, or at every read of a letter's parts, where it is told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.on_commit: list[Callable[[], Exception]] = []
        self.on_parts: Callable[[], Exception] | None = None

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        found = await super().read(refs)
        if self.on_parts is not None and refs[0].collection.endswith("/parts"):
            raise self.on_parts()
        return found

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        if self.on_commit:
            fault = self.on_commit.pop()
            raise fault()
        return await super().commit(writes, log)


class Pond(Rig[Store]):
    def __init__(self, folder: Path) -> None:
        environment = {
            "POISON_POLICY": "park",
            "VIEW_ERROR_PARK_AFTER_S": "0",
            "EVENT_LOG": "on",
            "FIRESTORE_RETRY_MAX_ATTEMPTS": "2",
        }
        super().__init__(Store(folder / "pond.db"), **environment)
        self.now += SECOND
        self.add(Boxes(), Counted())
        self._table = build_table(self.service)

    async def bury(self, name: str) -> Result:
        message = Delivery(message_id=name, publish_time=NOW, data=POISON[name], subscription=SUBSCRIPTION)
        return await self.service.engine.handle(message)

    async def ask(self, method: str, path: str, body: Any = None) -> int:
        content = b"" if body is None else json.dumps(body).encode()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
        return (await self._table.answer(Request(scope, receive))).status_code

    async def act(self, what: str, name: str) -> int:
        """The status of the answer."""
        letter = f"s__{name}"
        if what == "bury":
            return 200 if (await self.bury(name)).buried else 503
        if what == "look":
            return await self.ask("GET", f"/api/letters/{letter}")
        if what == "replay":
            return await self.ask("POST", f"/api/letters/{letter}/replay")
        if what == "replay a message":
            data = base64.b64encode(POISON[name]).decode()
            message = {"messageId": "r", "publishTime": "2026-01-08T12:00:00Z", "data": data}
            return await self.ask("POST", "/api/replay", {"message": message, "subscription": "s"})
        return await self.ask("POST", f"/api/letters/{what.removesuffix(' many')}", {"ids": [letter]})

    async def close(self) -> None:
        await self.service.close()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


@contextlib.asynccontextmanager
async def opened(folder: Path) -> Any:
    pond = Pond(folder)
    try:
        yield pond
    finally:
        await pond.close()


@contextlib.contextmanager
def counted() -> Iterator[Callable[[], int]]:
    """How many bytes are held now that were not before, while the garbage collector does nothing."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield lambda: tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        gc.enable()


async def leaves_nothing(act: Callable[[], Awaitable[object]]) -> None:
    """Done several times, less is held afterwards than one message has."""
    await act()
    with counted() as held:
        for _ in range(TIMES):
            await act()
        await asyncio.sleep(0.01)
        left = held()
    assert left < SIZE / 4, f"{left} bytes are held after {act}"


ACTS = ("bury", "replay", "replay a message", "replay many", "preview", "look")


@pytest.mark.parametrize("what", ACTS)
def test_poison_leaves_nothing(tmp_path: Path, what: str) -> None:
    """Whatever it fails at, and whatever is asked for."""

    async def scenario() -> None:
        async with opened(tmp_path) as pond:
            for name in POISON:
                assert await pond.act("bury", name) == 200, name
                # A message that lies elsewhere is not buried here.
                expected = {422, 503} if what == "replay a message" else {200}
                assert await pond.act(what, name) in expected, name
                await leaves_nothing(partial(pond.act, what, name))

    run(scenario())


def test_letters_are_previewed_one_after_the_other(tmp_path: Path) -> None:
    """Whatever they hold together, a few of them at a time are in memory."""

    async def scenario() -> None:
        async with opened(tmp_path) as pond:
            for name in POISON:
                assert await pond.act("bury", name) == 200
            with counted() as held:
                del held
                body = {"ids": [f"s__{name}" for name in POISON]}
                assert await pond.ask("POST", "/api/letters/preview", body) == 200
                most = tracemalloc.get_traced_memory()[1]
            # The largest of them is decoded and encoded on the way; together they would be more than twice as much.
            assert most < 8 * SIZE

    run(scenario())


def away() -> Exception:
    return Unavailable("the store is away", code="UNAVAILABLE")


def refused() -> Exception:
    return WriteRefused("never", code="INVALID_ARGUMENT")


def bug() -> Exception:
    return RuntimeError("unexpected")


@pytest.mark.parametrize("fault", [away, refused, bug])
@pytest.mark.parametrize("tries", [1, 2, 5])
def test_a_store_that_fails_while_a_letter_is_stored_leaves_nothing(
    tmp_path: Path, fault: Callable[[], Exception], tries: int
) -> None:
    """A part, the letter itself, or every try of it: the message comes again, and nothing of it stays here."""

    async def scenario() -> None:
        async with opened(tmp_path) as pond:

            async def act() -> None:
                for name in ("in-parts", "no-json"):
                    pond.store.on_commit = [fault] * tries
                    await pond.act("bury", name)
                    pond.store.on_commit = []
                    await pond.service.letters.purge(Ref("dead_letters", f"s__{name}"))

            asyncio.get_running_loop().set_exception_handler(lambda *_: None)
            await leaves_nothing(act)

    run(scenario())


@pytest.mark.parametrize("fault", [away, bug])
@pytest.mark.parametrize("what", ["replay", "replay many", "preview", "purge", "look"])
def test_a_store_that_fails_while_a_letter_is_read_leaves_nothing(
    tmp_path: Path, what: str, fault: Callable[[], Exception]
) -> None:
    """Its parts are held by the caller that was reading them."""

    async def scenario() -> None:
        async with opened(tmp_path) as pond:
            assert await pond.act("bury", "in-parts") == 200
            pond.store.on_parts = fault
            assert await pond.act(what, "in-parts") in ({200} if what == "replay many" else {500, 503})
            await leaves_nothing(lambda: pond.act(what, "in-parts"))

    run(scenario())


def test_an_error_of_a_thread_leaves_nothing() -> None:
    """Neither of what it worked on, nor of itself."""

    def work() -> None:
        pad = os.urandom(SIZE)
        raise ValueError(len(pad))

    async def act() -> None:
        with contextlib.suppress(ValueError):
            await in_thread(work)

    run(leaves_nothing(act))


def test_errors_of_many_calls_leave_nothing() -> None:
    """They are values: the caller looks at them, and may raise one."""

    async def call(number: int) -> int:
        pad = os.urandom(SIZE)
        raise Unavailable(f"{number} {len(pad)}")

    async def act() -> None:
        for error in await run_all(call, range(3), 2):
            assert isinstance(error, Unavailable)

    run(leaves_nothing(act))


class Subscriber:
    """Pub/Sub's client: one page of messages, and an account of what is done with them."""

    def __init__(self) -> None:
        self.acknowledged: list[str] = []
        self.transport = SimpleNamespace(close=self.close)

    async def pull(self, **_: Any) -> Any:
        page = [
            ReceivedMessage(ack_id=name, message={"message_id": name, "data": os.urandom(SIZE)}) for name in "ab"
        ]
        return SimpleNamespace(received_messages=page)

    async def modify_ack_deadline(self, **_: Any) -> None:
        """Leased, and given back."""

    async def acknowledge(self, ack_ids: Sequence[str], **_: Any) -> None:
        self.acknowledged += ack_ids

    async def close(self) -> None:
        """Nothing is open."""


def test_a_dead_letter_subscription_that_cannot_be_replayed_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What succeeded is acknowledged, and the first error goes on; it takes no message along."""
    client = Subscriber()
    monkeypatch.setattr(replaying, "open_subscriber", lambda: client)

    async def send(delivery: Delivery, _: object) -> bool:
        raise Unavailable(delivery.message_id)

    async def act() -> None:
        with pytest.raises(Unavailable):
            await replaying.replay_all(SUBSCRIPTION, send, limit=None, at_once=2)

    run(leaves_nothing(act))
    assert client.acknowledged == []


def raised() -> ViewError:
    """With all that an error may carry along."""

    def look() -> None:
        raise KeyError("payload")

    try:
        look()
    except KeyError as error:
        fault = ViewError("boxes", error)
        fault.__cause__ = fault.__context__ = error
        return fault.with_traceback(error.__traceback__)
    raise AssertionError


@pytest.mark.parametrize(
    "keep",
    [
        as_value,
        lambda fault: Result(Outcome.RETRY, "view_error", error=fault).error,
        lambda fault: msgspec.structs.replace(Result(Outcome.RETRY, "view_error"), error=fault).error,
        lambda fault: Item(Delivery(message_id="1", publish_time=NOW, data=b""), "", NOW, faults=(fault,)).fault,
    ],
    ids=["by itself", "in a result", "in a result made from another", "on an item"],
)
def test_an_error_that_is_kept_has_no_traceback(keep: Callable[[ViewError], ViewError]) -> None:
    """Neither its own nor that of what led to it; what it says stays."""
    kept = keep(raised())
    assert (kept.__traceback__, kept.__cause__, kept.__context__) == (None, None, None)
    assert kept.detail == "'payload'"
    assert "KeyError at test_no_cycles.py:" in str(kept)


def test_an_exception_that_cannot_be_shown_is_kept_all_the_same() -> None:
    """A view's own exception may have a bug of its own."""

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise ValueError("a bug in a bug")

    assert ViewError("boxes", Unspeakable()).detail == ""
