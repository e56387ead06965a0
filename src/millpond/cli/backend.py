"""Who does a writing command's work: the server that holds the store, or this process where none does."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from millpond.cli import exits
from millpond.cli.http_client import Client, Reply
from millpond.cli.local import open_service, settled, when_there_is_room
from millpond.cli.messages import encode_push
from millpond.cli.retry import patiently
from millpond.cli.server import admin_client, answer_of, find_server
from millpond.core.collections import LETTERS
from millpond.core.errors import SettingsError, StoreError
from millpond.core.model import Delivery, Ref
from millpond.dead_letters.describe import replay_answer
from millpond.service.service import Service
from millpond.settings import Settings

# Few enough to leave a running server room for its own traffic.
AT_ONCE = 16
_TIMEOUT_S = 30.0
Answer = dict[str, Any]


class Hands(Protocol):
    """Who does the work. Both answer in the words of the HTTP API; None means there is no such letter."""

    async def replay(self, letter_id: str) -> Answer | None: ...

    async def purge(self, letter_id: str) -> bool: ...

    async def replay_delivery(self, delivery: Delivery) -> Answer:
        """A message that lies elsewhere and stays there unless it succeeds."""

    async def move(self, collection: str, ids: Sequence[str]) -> list[Answer]:
        """Documents under ids of an earlier build, at most IDS_MAX at a time."""


@contextlib.asynccontextmanager
async def open_hands(settings: Settings) -> AsyncIterator[Hands]:
    address = find_server(settings)
    if address is not None:
        client = admin_client(settings, address, timeout_s=_TIMEOUT_S)
        try:
            yield ServerHands(client)
        finally:
            client.close()
        return
    async with open_service(settings, AT_ONCE) as service:
        yield OwnHands(service)


class ServerHands:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def replay(self, letter_id: str) -> Answer | None:
        reply = await patiently(lambda: self._ask("POST", f"/api/letters/{quote(letter_id, safe='')}/replay"))
        if reply.status == 404:
            return None
        return {"id": letter_id, "outcome": "retry", **answer_of(reply)}

    async def purge(self, letter_id: str) -> bool:
        reply = await patiently(lambda: self._ask("DELETE", f"/api/letters/{quote(letter_id, safe='')}"))
        if reply.status not in {200, 404}:
            raise exits.Unreachable(f"{letter_id} was not purged: {answer_of(reply).get('error')}")
        return reply.status == 200

    async def replay_delivery(self, delivery: Delivery) -> Answer:
        body = encode_push(delivery)
        reply = await patiently(lambda: self._ask("POST", "/api/replay", body))
        return {"id": delivery.message_id, "outcome": "retry", **answer_of(reply)}

    async def move(self, collection: str, ids: Sequence[str]) -> list[Answer]:
        body = msgspec.json.encode({"collection": collection, "ids": ids})
        reply = await patiently(lambda: self._ask("POST", "/api/old-ids/move", body))
        answer = answer_of(reply)
        if reply.status != 200:
            raise exits.Unreachable(f"{self._client.address.base} moved none of these: {answer.get('error')}")
        return list(answer["results"])

    async def _ask(self, method: str, path: str, body: bytes = b"") -> Reply:
        reply = await self._client.request(method, path, body)
        if reply.status == 401:
            raise SettingsError(
                "ADMIN_TOKEN", "(secret)", f"is not the one {self._client.address.base} was started with"
            )
        return reply


class OwnHands:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def replay(self, letter_id: str) -> Answer | None:
        try:
            result = await when_there_is_room(lambda: self._service.replay_letter(letter_id))
        except StoreError as error:
            # This letter only; the others may still succeed.
            return {"id": letter_id, "outcome": "retry", "reason": "store_unavailable", "error": str(error)}
        return None if result is None else replay_answer(letter_id, result)

    async def purge(self, letter_id: str) -> bool:
        return await self._service.letters.purge(Ref(LETTERS, letter_id))

    async def replay_delivery(self, delivery: Delivery) -> Answer:
        result = await settled(lambda: self._service.replay_delivery(delivery))
        return replay_answer(delivery.message_id, result)

    async def move(self, collection: str, ids: Sequence[str]) -> list[Answer]:
        refs = [Ref(collection, document_id) for document_id in ids]
        return [report.as_json() for report in await self._service.mover.move_all(refs)]
