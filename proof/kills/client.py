"""A client that keeps many requests in flight until its server is killed, and records each answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from proof.kills.traffic import Message

CONNECTIONS = 24
_ANSWER_S = 30.0


class Answer(NamedTuple):
    """How a delivery was answered."""

    status: int
    outcome: str
    reason: str


class Deliveries:
    """Everything sent to one store, and how it was answered."""

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        self.answers: dict[str, list[Answer]] = {}
        # Deliveries that were not acknowledged: no answer, or an answer other than 200.
        self.unsettled: Counter[str] = Counter()
        self.sent = self.answered = self.unanswered = 0

    def note_sent(self, message: Message) -> None:
        self.sent += 1
        self.messages[message.message_id] = message

    def note_answer(self, message: Message, answer: Answer | None) -> None:
        if answer is None:
            self.unanswered += 1
        if answer is not None and answer.status == 200:
            self.answered += 1
            self.answers.setdefault(message.message_id, []).append(answer)
        else:
            self.unsettled[message.message_id] += 1

    @property
    def unacknowledged(self) -> list[Message]:
        """The messages a broker would redeliver."""
        return [message for message_id, message in self.messages.items() if message_id not in self.answers]


class Load:
    """Connections that send message after message, each waiting for its answer, until the server is gone."""

    def __init__(self, port: int, messages: Iterator[Message], deliveries: Deliveries) -> None:
        self._port = port
        self._messages = messages
        self._deliveries = deliveries
        self.begun = asyncio.Event()

    async def run(self, connections: int = CONNECTIONS) -> None:
        """Return when nothing is left to send, or the server is gone."""
        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(self._connection())

    async def _connection(self) -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return
        try:
            for message in self._messages:
                if not await self._deliver(message, reader, writer):
                    return
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _deliver(self, message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Send one message; whether the connection can take another."""
        self._deliveries.note_sent(message)
        answer: Answer | None = None
        try:
            writer.write(_HEAD % len(message.body) + message.body)
            self.begun.set()
            async with asyncio.timeout(_ANSWER_S):
                answer = await _read_answer(reader)
        except (OSError, EOFError):
            # The server was killed while this request was in flight: its outcome is unknown.
            return False
        finally:
            self._deliveries.note_answer(message, answer)
        return True


_HEAD = b"POST /pubsub/push HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


async def _read_answer(reader: asyncio.StreamReader) -> Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    if length is None:
        raise RuntimeError(f"an answer without a length: {head!r}")
    said = json.loads(await reader.readexactly(int(length[1])))
    return Answer(int(head.split(b" ", 2)[1]), said.get("outcome", ""), said.get("reason", ""))
