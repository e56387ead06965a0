"""The push endpoint as an ASGI callable: what only a failing store, view or client can provoke."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any, NamedTuple

import pytest

from millpond.core.ack import Answered
from millpond.core.errors import AccessDenied, Unavailable, WriteRefused
from millpond.core.model import Committed, Conflict, Delivery, LogEntry, Write
from millpond.stores.memory import MemoryStore
from millpond.views.services import OpsServices
from tests.common.push import push_bytes
from tests.common.rig import Rig

SHAPE = {"outcome", "reason", "messageId", "topic", "views", "error"}
Message = MutableMapping[str, Any]


def event_body(data: Any = None, **more: Any) -> bytes:
    """A system event, unless other data is given."""
    event = {"service": "a", "timestamp": 1} if data is None else data
    return push_bytes(event, message_id="m", **{"subscription": None, **more})


class FailingStore(MemoryStore):
    """A store whose commits fail as told, and which can be made to hold them back."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__()
        self.commits_in_flight_max = 1
        self._error = error
        self.open = asyncio.Event()
        self.open.set()

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        await self.open.wait()
        if self._error is not None:
            raise self._error
        return await super().commit(writes, log)


class Exchange(NamedTuple):
    """What was sent back, and the lines logged for the message."""

    status: int | None
    headers: dict[bytes, bytes]
    answer: Any
    lines: list[dict[str, Any]]


class Pond(Rig[MemoryStore]):
    """A service on a store that may fail, asked through its push endpoint alone."""

    def __init__(self, store: MemoryStore | None = None, **environment: str) -> None:
        super().__init__(store or MemoryStore(), **{"FIRESTORE_RETRY_MAX_ATTEMPTS": "1", **environment})

    def ask(self, *parts: Message, headers: Iterable[tuple[bytes, bytes]] = ()) -> Exchange:
        """One request, as a server would hand it over, and its lines."""
        status, sent, answer = asyncio.run(self.request(*parts, headers=headers))
        return Exchange(status, sent, answer, [line for line in self.lines() if "messageId" in line])

    async def request(
        self, *parts: Message, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> tuple[int | None, dict[bytes, bytes], Any]:
        waiting = list(parts) or [{"type": "http.request", "body": event_body(), "more_body": False}]
        sent: list[Message] = []

        async def receive() -> Message:
            await asyncio.sleep(0)
            return waiting.pop(0)

        async def send(message: Message) -> None:
            await asyncio.sleep(0)
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/pubsub/push", "headers": list(headers)}
        async with asyncio.timeout(5):
            await self.endpoint(scope, receive, send)
        if not sent:
            return None, {}, None
        start, body = sent
        return start["status"], dict(start["headers"]), json.loads(body["body"])


@pytest.mark.parametrize(
    ("error", "reason", "severity", "code"),
    [
        (Unavailable("the disk is full", "FullError"), "store_unavailable", "ERROR", "FullError"),
        (AccessDenied("no permission", "PermissionsError"), "access_denied", "CRITICAL", "PermissionsError"),
        (WriteRefused("refused, letter and all", "TooBigError"), "letter_refused", "ALERT", "TooBigError"),
        (RuntimeError("s3cr3t"), "internal_error", "ERROR", None),
    ],
    ids=["unavailable", "denied", "refused", "bug"],
)
def test_a_store_that_fails(error: Exception, reason: str, severity: str, code: str | None) -> None:
    """503 in the answer's usual shape, logged once as retryable, with the store's own code."""
    exchange = Pond(FailingStore(error)).ask()
    assert exchange.status == 503
    assert b"retry-after" not in exchange.headers
    assert set(exchange.answer) == SHAPE
    assert (exchange.answer["outcome"], exchange.answer["reason"]) == ("retry", reason)
    assert (exchange.answer["messageId"], exchange.answer["topic"]) == ("m", "system.events")
    (line,) = exchange.lines
    assert (line["severity"], line["http_status"], line["retryable"]) == (severity, 503, True)
    kind = type(error).__name__ if reason != "internal_error" else "InternalError"
    assert (line["error_type"], line["error_code"]) == (kind, code)
    assert (line["outcome"], line["reason"], line["write_kind"]) == ("retry", reason, "none")
    assert "s3cr3t" not in json.dumps([line, exchange.answer])


def test_a_letter_that_cannot_be_stored() -> None:
    """Poison whose letter was not stored is not acknowledged: it must come again."""
    part = {"type": "http.request", "body": event_body(b"not JSON"), "more_body": False}
    exchange = Pond(FailingStore(Unavailable("the disk is full", "FullError"))).ask(part)
    assert exchange.status == 503
    assert exchange.answer["outcome"] == "retry"
    (line,) = exchange.lines
    assert (line["severity"], line["retryable"]) == ("ERROR", True)


def failing_view(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Exchange:
    def broken(*_: object) -> None:
        raise KeyError("s3cr3t")

    monkeypatch.setattr(OpsServices, "document", broken)
    monkeypatch.setattr("time.time_ns", lambda: 1_767_873_601_000_000_000)
    return Pond(MemoryStore(), **environment).ask()


def test_a_view_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in a view is retried. If others can reach the server, neither answer nor log quotes the payload."""
    exchange = failing_view(monkeypatch, HOST="0.0.0.0")  # noqa: S104 - nothing listens
    assert (exchange.status, exchange.answer["reason"]) == (503, "view_error")
    (line,) = exchange.lines
    assert (line["severity"], line["error_type"], line["retryable"]) == ("ERROR", "ViewError", True)
    assert (set(exchange.answer), line["trace"]) == (SHAPE, None)
    assert "s3cr3t" not in json.dumps([line, exchange.answer])


def test_a_view_that_fails_on_the_own_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """There, answer and log have the exception's text and its traceback."""
    exchange = failing_view(monkeypatch)
    (line,) = exchange.lines
    assert (exchange.status, line["retryable"], set(exchange.answer)) == (503, True, SHAPE | {"trace"})
    for shown in (exchange.answer, line):
        assert shown["error"].endswith(": 's3cr3t'")
        assert shown["trace"].startswith('File "')
        assert shown["trace"].endswith("\nKeyError: 's3cr3t'")


def test_a_bug_on_the_way_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception is answered 503 and logged once: the message is not at fault."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("s3cr3t")

    pond = Pond()
    monkeypatch.setattr(pond.service.engine.router, "route", broken)
    exchange = pond.ask()
    assert exchange.status == 503
    assert set(exchange.answer) == SHAPE
    assert (exchange.answer["outcome"], exchange.answer["reason"]) == ("retry", "internal_error")
    (line,) = exchange.lines
    assert (line["severity"], line["error_type"], line["retryable"]) == ("ERROR", "InternalError", True)
    assert (line["messageId"], line["http_status"]) == ("m", 503)
    assert "s3cr3t" not in json.dumps([line, exchange.answer])


def test_what_one_turn_answers_is_logged_and_counted_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals under their own status; and a line that cannot be written costs none of the others."""
    lost: list[BaseException] = []
    monkeypatch.setattr("millpond.telemetry.log.Log.unexpected", lambda _, bug: lost.append(bug))
    pond = Pond()
    written = []

    def note(said: Answered) -> None:
        if said.delivery is not None and said.delivery.message_id == "m2":
            raise RuntimeError("a bug")
        written.append(said.delivery.message_id if said.delivery is not None else "")

    pond.service.outcomes.subscribe(note)

    async def ask(*numbers: int) -> None:
        done = [asyncio.get_running_loop().create_future() for _ in numbers]
        for number, answered in zip(numbers, done, strict=True):
            body = event_body().replace(b'"m"', f'"m{number}"'.encode())
            pond.endpoint.accept("POST", [], body, lambda *_, answered=answered: answered.set_result(None))
        pond.endpoint.accept("GET", [], b"", lambda *_: None)
        await asyncio.gather(*done)
        await asyncio.sleep(0)

    async def scenario() -> None:
        await ask(1, 2, 3)
        await ask(4)

    asyncio.run(scenario())
    assert sorted(written) == ["", "", "m1", "m3", "m4"]
    assert [str(bug) for bug in lost] == ["a bug"]
    assert pond.service.metrics.push_responses == {200: 4, 405: 2}


def test_a_server_that_shuts_down() -> None:
    """What arrives while it drains is answered 503, so that it comes again elsewhere."""
    pond = Pond()
    asyncio.run(pond.service.engine.drain())
    exchange = pond.ask()
    assert (exchange.status, exchange.answer["reason"]) == (503, "shutting_down")
    assert [(line["severity"], line["retryable"]) for line in exchange.lines] == [("ERROR", True)]


def test_a_full_room() -> None:
    """Beyond CONSUMER_QUEUE_SIZE a message is answered 429 at once; those that waited are applied."""

    async def crowd() -> list[tuple[int | None, dict[bytes, bytes], Any]]:
        store = FailingStore()
        pond = Pond(store, CONSUMER_QUEUE_SIZE="2")
        store.open.clear()
        # One is being committed, two wait.
        accepted = [asyncio.create_task(pond.request()) for _ in range(1)]
        await asyncio.sleep(0.05)
        accepted += [asyncio.create_task(pond.request()) for _ in range(2)]
        await asyncio.sleep(0.05)
        refused = await pond.request()
        store.open.set()
        return [refused, *await asyncio.gather(*accepted)]

    (status, headers, answer), *accepted = asyncio.run(crowd())
    assert status == 429
    assert int(headers[b"retry-after"]) >= 1
    assert (answer["outcome"], answer["reason"]) == ("retry", "backpressure_queue_full")
    assert set(answer) == SHAPE
    assert [found[0] for found in accepted] == [200] * 3


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> tuple[Pond, list[Delivery]]:
    """A pond, and the deliveries that reached its router."""
    pond, found = Pond(), list[Delivery]()
    route: Callable[..., Any] = pond.service.engine.router.route

    def noted(delivery: Delivery, *rest: Any, **more: Any) -> Any:
        found.append(delivery)
        return route(delivery, *rest, **more)

    monkeypatch.setattr(pond.service.engine.router, "route", noted)
    return pond, found


@pytest.mark.parametrize("size", [1, 7, 50])
def test_a_body_in_pieces(handled: tuple[Pond, list[Delivery]], size: int) -> None:
    """However the body is cut, it is one message."""
    pond, found = handled
    body = event_body()
    parts: list[Message] = [
        {"type": "http.request", "body": body[at : at + size], "more_body": True}
        for at in range(0, len(body), size)
    ]
    exchange = pond.ask(*parts, {"type": "http.request", "body": b"", "more_body": False})
    assert exchange.status == 200
    assert [delivery.message_id for delivery in found] == ["m"]


@pytest.mark.parametrize("received", [0, 1, 2])
def test_a_client_that_goes_away(handled: tuple[Pond, list[Delivery]], received: int) -> None:
    """Half a body is no message: nothing is handled, answered or logged."""
    pond, found = handled
    parts: list[Message] = [
        {"type": "http.request", "body": b'{"message":', "more_body": True} for _ in range(received)
    ]
    assert pond.ask(*parts, {"type": "http.disconnect"}) == Exchange(None, {}, None, [])
    assert found == []


def test_attributes_of_an_unwrapped_push(handled: tuple[Pond, list[Delivery]]) -> None:
    """Every header is an attribute but those of HTTP, of proxies, and of Pub/Sub's own metadata."""
    pond, found = handled
    own = [(b"topic", b"t"), (b"x-tenant", b"7"), (b"colour", "grün".encode())]
    ways = ("host", "user-agent", "accept", "connection", "authorization", "cookie", "x-forwarded-proto")
    others = [(name.encode(), b"x") for name in (*ways, "forwarded", "traceparent", "content-length")]
    metadata = [
        (b"x-goog-pubsub-message-id", b"m"),
        (b"x-goog-pubsub-publish-time", b"2026-01-08T12:00:00Z"),
        (b"x-goog-pubsub-subscription-name", b"projects/p/subscriptions/s"),
        (b"x-goog-pubsub-ordering-key", b"k"),
    ]
    part = {"type": "http.request", "body": b"{}", "more_body": False}
    pond.ask(part, headers=[*others, *own, *metadata])
    (delivery,) = found
    assert delivery.attributes == {"topic": "t", "x-tenant": "7", "colour": "grün"}
    assert (delivery.subscription, delivery.ordering_key) == ("projects/p/subscriptions/s", "k")
    assert delivery.data == b"{}"
