"""The puller by itself: what it makes of a message, when it waits, and what it says when something fails."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from google.api_core.exceptions import PermissionDenied
from google.cloud.pubsub_v1.subscriber.exceptions import (  # type: ignore[import-untyped]
    AcknowledgeError,
    AcknowledgeStatus,
)

from millpond.core.ack import Settlement, settle_pull, settle_push
from millpond.core.errors import AccessDenied, InvalidEvent, Unavailable, WriteRefused
from millpond.core.model import Delivery, Outcome, Result
from millpond.core.severity import severity_of
from millpond.engine.rules import ROOM_BYTES_MAX
from millpond.ingress import pull
from millpond.ingress.pull import Puller, Stream, to_delivery
from millpond.service.service import Service
from millpond.stores.memory import MemoryStore
from tests.common.rig import Rig
from tests.ingress.pull.fakes import PATH, Bench, FakeClient, FakeMessage

Open = Callable[..., Bench]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    client = FakeClient()
    monkeypatch.setattr(pull, "SubscriberClient", lambda: client)
    return client


@pytest.fixture
def rig() -> Iterator[Rig[MemoryStore]]:
    rig = Rig(MemoryStore())
    yield rig
    rig.service.log.close()


@pytest.fixture
def service(rig: Rig[MemoryStore]) -> Service:
    return rig.service


@pytest.fixture
def opened(rig: Rig[MemoryStore], client: FakeClient) -> Open:
    return lambda room=1: Bench(rig.service, client, rig.output, room)


async def turns() -> None:
    """Let the event loop do whatever is due now."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_every_field_of_a_message_becomes_one_of_the_delivery() -> None:
    """And what Pub/Sub leaves empty is absent."""
    message = FakeMessage("7", data=b"x", attributes={"a": "b"}, ordering_key="k", attempt=3)
    assert to_delivery(message, PATH) == Delivery(
        message_id="7",
        publish_time=1_767_876_000_123_456,
        data=b"x",
        attributes={"a": "b"},
        subscription=PATH,
        ordering_key="k",
        attempt=3,
    )
    bare = to_delivery(FakeMessage("8", data=b""), PATH)
    assert (bare.data, bare.attributes, bare.ordering_key, bare.attempt) == (None, {}, None, None)


@pytest.mark.parametrize(
    ("result", "expected", "severity"),
    [
        *((Result(outcome, "r"), Settlement(0, "ack", retryable=False), "INFO") for outcome in list(Outcome)[2:]),
        (
            Result(Outcome.POISON, "r", error=InvalidEvent("x"), buried=True),
            Settlement(0, "ack", retryable=False),
            "ERROR",
        ),
        (
            Result(Outcome.POISON, "r", error=WriteRefused("x"), buried=True),
            Settlement(0, "ack", retryable=False),
            "ALERT",
        ),
        (Result(Outcome.POISON, "r", error=InvalidEvent("x")), Settlement(0, "nack", retryable=False), "ERROR"),
        (Result(Outcome.RETRY, "r", error=Unavailable("x")), Settlement(0, "nack", retryable=True), "ERROR"),
        (Result(Outcome.RETRY, "r", error=AccessDenied("x")), Settlement(0, "nack", retryable=True), "CRITICAL"),
        (Result(Outcome.RETRY, "r"), Settlement(0, "nack", retryable=True), "ERROR"),
    ],
)
def test_what_may_be_forgotten_is_acknowledged(result: Result, expected: Settlement, severity: str) -> None:
    """Nothing else is, whatever it is called."""
    assert settle_pull(result) == expected
    assert (settle_push(result).http_status == 200) == (expected.ack_action == "ack")
    assert severity_of(result) == severity


def test_a_bunch_of_messages_wakes_the_event_loop_once() -> None:
    """A wake-up costs as much as a message; and what comes after it wakes anew."""
    wakes: list[Callable[[], None]] = []

    class Loop:
        def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
            wakes.append(callback)

    stream = Stream(PATH, cast("asyncio.AbstractEventLoop", Loop()))
    came: list[str] = []
    for n in range(100):
        stream.schedule(lambda message: came.append(message.message_id), FakeMessage(str(n)))
    assert (len(wakes), came) == (1, [])
    wakes.pop()()
    assert came == [str(n) for n in range(100)]
    stream.schedule(lambda message: came.append(message.message_id), FakeMessage("again"))
    wakes.pop()()
    assert came[-1] == "again"


def test_the_library_waits_until_everything_is_answered() -> None:
    """It sends acknowledgements only after that; nothing is left for it to give back."""
    loop = asyncio.new_event_loop()
    stream = Stream(PATH, loop)
    first, second = FakeMessage("1"), FakeMessage("2")
    for message in (first, second):
        stream.schedule(lambda _: None, message)
    left: list[list[Any]] = []
    shutdown = threading.Thread(target=lambda: left.append(stream.shutdown(await_msg_callbacks=True)))
    shutdown.start()
    stream.finish(first)
    shutdown.join(timeout=0.1)
    assert shutdown.is_alive()
    stream.finish(second)
    shutdown.join(timeout=5)
    assert left == [[]]
    loop.close()
    # Too late for a loop that is closed; nothing is raised into the library's thread.
    stream.schedule(lambda _: None, FakeMessage("3"))


def test_a_full_room_is_waited_for(opened: Open) -> None:
    """Nothing is given back, the order stays, and the puller asks for no more before a message was settled."""

    async def check() -> Bench:
        bench = opened(room=2)
        messages = [FakeMessage(str(n)) for n in range(5)]
        bench.client.hand_over(*messages)
        await asyncio.sleep(0.05)
        assert bench.room.tries == ["0", "1", "2"]
        bench.room.settle("1")
        await asyncio.sleep(0.05)
        assert bench.room.tries == ["0", "1", "2", "2", "3"]
        for n in ("0", "2", "3", "4"):
            bench.room.settle(n)
            await asyncio.sleep(0.02)
        assert [message.answered for message in messages] == [["ack"]] * 5
        return bench

    lines = asyncio.run(check()).lines()
    assert [line["messageId"] for line in lines] == ["1", "0", "2", "3", "4"]


async def test_a_room_that_others_fill_is_asked_again(opened: Open) -> None:
    """Replays share the room, and do not tell us when they leave it; now and then is enough."""
    bench = opened(room=0)
    message = FakeMessage()
    bench.client.hand_over(message)
    await asyncio.sleep(2.5 * pull.OTHERS_S)
    assert 2 <= len(bench.room.tries) <= 4
    bench.room.room = 1
    await asyncio.sleep(2 * pull.OTHERS_S)
    bench.room.settle("1")
    assert message.answered == ["ack"]


def test_an_acknowledgement_that_fails_is_logged(opened: Open) -> None:
    """Once, with the message and the broker's word; the message is then no longer waited for."""

    async def check() -> Bench:
        bench = opened()
        message = FakeMessage("7", exactly_once=True)
        bench.client.hand_over(message)
        await turns()
        bench.room.settle("7")
        ending = threading.Thread(target=bench.client.asked[0]["scheduler"].shutdown)
        ending.start()
        await turns()
        assert ending.is_alive(), "it waits for the broker's answer"
        error = AcknowledgeError(AcknowledgeStatus.INVALID_ACK_ID, None)
        answering = threading.Thread(target=lambda: message.answer.set_exception(error))
        answering.start()
        answering.join()
        await turns()
        ending.join(timeout=5)
        assert not ending.is_alive()
        return bench

    applied, warning = asyncio.run(check()).lines()
    assert applied["ack_action"] == "ack"
    assert (warning["severity"], warning["messageId"], warning["subscription"]) == ("WARNING", "7", PATH)
    assert warning["error_code"] == "INVALID_ACK_ID"


def test_a_bug_gives_the_message_back(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is, the message comes again."""

    async def check() -> Bench:
        bench = opened()
        monkeypatch.setattr(bench.room, "submit", lambda *_: 1 / 0)
        message = FakeMessage()
        bench.client.hand_over(message)
        await turns()
        assert message.answered == ["nack"]
        return bench

    (line,) = asyncio.run(check()).lines()
    assert (line["reason"], line["outcome"], line["ack_action"]) == ("internal_error", "retry", "nack")


def test_a_pull_that_is_denied_ends_the_service(opened: Open) -> None:
    """With one line; the emulator knows no permissions, so the library's error is made here."""

    async def check() -> Bench:
        bench = opened()
        bench.client.pulls[0].set_exception(PermissionDenied("User not authorized."))  # type: ignore[no-untyped-call]
        await turns()
        bench.puller.stop()
        await bench.puller.closed()
        assert (bench.failures, bench.puller.failed, bench.client.is_closed) == (1, True, True)
        return bench

    (line,) = asyncio.run(check()).lines()
    assert line["severity"] == "CRITICAL"
    assert line["message"] == f"the streaming pull of {PATH} ended: PERMISSION_DENIED: User not authorized."
    assert (line["error_type"], line["subscription"]) == ("PermissionDenied", PATH)


def test_being_told_to_stop_is_no_failure(opened: Open) -> None:
    """The pulls are cancelled, and the client is closed when they have ended."""

    async def check() -> Bench:
        bench = opened()
        begun = time.monotonic()
        bench.puller.stop()
        await bench.puller.closed()
        assert time.monotonic() - begun < 1
        assert (bench.failures, bench.puller.failed, bench.client.is_closed) == (0, False, True)
        return bench

    assert asyncio.run(check()).lines() == []


@pytest.mark.parametrize(("count", "each"), [(1, 64), (3, 21), (100, 1)])
async def test_subscriptions_share_the_room(service: Service, client: FakeClient, count: int, each: int) -> None:
    """The client stops pulling when the room would be full; a subscription named twice is pulled once."""
    paths = [f"{PATH}{n}" for n in range(count)]
    Puller(service, [*paths, paths[0]]).start(lambda: None)
    assert [how["subscription"] for how in client.asked] == paths
    limits = client.asked[0]["flow_control"]
    assert (limits.max_messages, limits.max_bytes) == (each, ROOM_BYTES_MAX // count)
