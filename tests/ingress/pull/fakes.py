"""The puller's neighbours, played by the tests: the client library on one side, the engine on the other."""

from __future__ import annotations

import datetime as dt
import io
import json
from concurrent.futures import Future
from typing import Any, cast

from millpond.core.errors import Overloaded
from millpond.core.model import Delivery, Outcome, Result
from millpond.engine.rules import EngineRules
from millpond.engine.ticket import Done
from millpond.ingress.pull import Puller
from millpond.service.service import Service

PUBLISHED = dt.datetime(2026, 1, 8, 12, 40, 0, 123_456, tzinfo=dt.UTC)
APPLIED = Result(Outcome.APPLIED, "applied")
PATH = "projects/p/subscriptions/s"


class FakeMessage:
    """A message of the client library that remembers what was done with it."""

    def __init__(self, message_id: str = "1", **fields: Any) -> None:
        self.message_id = message_id
        self.data: bytes = fields.get("data", b"{}")
        self.attributes: dict[str, str] = fields.get("attributes", {})
        self.publish_time = PUBLISHED
        self.ordering_key: str = fields.get("ordering_key", "")
        self.delivery_attempt: int | None = fields.get("attempt")
        self.answered: list[str] = []
        self.answer: Future[Any] = Future()
        if not fields.get("exactly_once"):
            self.answer.set_result(None)

    def ack_with_response(self) -> Future[Any]:
        self.answered.append("ack")
        return self.answer

    def nack_with_response(self) -> Future[Any]:
        self.answered.append("nack")
        return self.answer


class FakeClient:
    """The client library: hands over what it is told to, and remembers how it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.pulls: list[Future[Any]] = []
        self.is_closed = False

    def subscribe(self, subscription: str, **how: Any) -> Future[Any]:
        self.asked.append({"subscription": subscription, **how})
        ended = FakePull()
        self.pulls.append(ended)
        return ended

    def close(self) -> None:
        self.is_closed = True

    def hand_over(self, *messages: FakeMessage, stream: int = 0) -> None:
        for message in messages:
            self.asked[stream]["scheduler"].schedule(self.asked[stream]["callback"], message)


class FakePull(Future[Any]):
    def cancel(self) -> bool:
        if not self.done():
            self.set_result(True)
        return True


class Room:
    """An engine with room for so many; what becomes of a message is said by the test."""

    def __init__(self, room: int, rules: EngineRules) -> None:
        self.room = room
        self.rules = rules
        self.tries: list[str] = []
        self.inside: dict[str, Done] = {}

    def submit(self, delivery: Delivery, done: Done) -> None:
        self.tries.append(delivery.message_id)
        if len(self.inside) >= self.room:
            raise Overloaded("full")
        self.inside[delivery.message_id] = done

    def wall_clock(self) -> int:
        return 0

    def settle(self, message_id: str, result: Result = APPLIED) -> None:
        self.inside.pop(message_id)(result)


class Bench:
    """A puller between a fake client and a room."""

    def __init__(self, service: Service, client: FakeClient, output: io.BytesIO, room: int) -> None:
        self.client = client
        self.room = Room(room, service.engine.rules)
        self.failures = 0
        self._service = service
        self._output = output
        service.engine = cast("Any", self.room)
        self.puller = Puller(service, [PATH])
        self.puller.start(self._failed)

    def _failed(self) -> None:
        self.failures += 1

    def lines(self) -> list[dict[str, Any]]:
        self._service.log.close()
        return [json.loads(line) for line in self._output.getvalue().splitlines()]
