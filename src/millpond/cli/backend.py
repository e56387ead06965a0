"""Executes writing commands: in the server that holds the store, or in this process if no server does.

Commands are written once, against `Backend`, and get one from `open_backend`. Both kinds return the answers of the
HTTP API. Never writes to a store that another process holds. Called by every command that writes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from millpond.cli import exit_codes
from millpond.cli.output import Advance
from millpond.cli.push_bodies import encode_push
from millpond.cli.retries import PATIENCE_S, patiently, server_pace
from millpond.cli.server import admin_headers, find_server, is_paced, push_path, token_refused
from millpond.cli.store import open_service
from millpond.core.collections import LETTERS
from millpond.core.errors import (
    EditRefused,
    InvalidRun,
    Overloaded,
    RunExists,
    StoreError,
    Unavailable,
    Unreachable,
    explained,
    trace_of,
)
from millpond.core.model import Delivery, Ref, Result
from millpond.core.suggest import suggest
from millpond.core.view import View
from millpond.dead_letters.correction import Edit
from millpond.dead_letters.describe import replay_answer
from millpond.dead_letters.filter import LetterFilter, ReplayState, only
from millpond.engine.pace import Pace, take_turn
from millpond.http_client import Address, Client, Reply
from millpond.reprocess.describe import rebuild_report
from millpond.reprocess.jobs import Phase
from millpond.reprocess.rebuild import RebuildRun
from millpond.service.service import Service
from millpond.settings import Settings

# Few enough to leave a running server room for its own traffic.
AT_ONCE = 16
_TIMEOUT_S = 30.0
_POLL_S = 0.5
_ROOM_PAUSE_S = 0.01
_AWAY_PAUSE_S = 0.5
T = TypeVar("T")
Answer = dict[str, Any]


class Backend(Protocol):
    # The server's URL, or the store.
    name: str
    # How fast bulk work may be; None if its store needs no pace.
    pace: Pace | None

    async def reach(self) -> None:
        """Raise Unreachable immediately if no server answers; the other calls wait for a server that restarts."""

    async def deliver(self, delivery: Delivery) -> Answer:
        """Deliver a message, as Pub/Sub would push it."""

    async def replay(self, letter_id: str) -> Answer | None:
        """Replay a letter; None if there is no such letter."""

    async def replay_delivery(self, delivery: Delivery, views: frozenset[str] | None) -> Answer:
        """Replay a message of a dead-letter subscription, to these views or to all.

        It is never buried: the caller keeps it if it fails.
        """

    async def purge(self, letter_id: str, state: ReplayState | None) -> bool:
        """Delete a letter; False if there is no such letter, or if it is in another state by now."""

    async def edit(self, letter_id: str, edit: Edit) -> bool:
        """Correct a letter's payload; False if there is no such letter. Raises EditRefused."""

    async def move(self, collection: str, ids: Sequence[str]) -> list[Answer]:
        """Move documents from the ids of an earlier build, at most IDS_MAX at a time."""

    async def submit(self, run: Any, run_id: str) -> Answer:
        """Store a flow run. Raises RunExists and InvalidRun."""

    async def sweep(self) -> Answer:
        """Recover steps of flow runs that no worker works on."""

    def rebuild(self, view: str) -> AbstractAsyncContextManager[ViewRebuild]: ...


class ViewRebuild(Protocol):
    """The rebuild of one view: `fold`, and then `swap`, or not. Both return its state."""

    async def fold(self) -> Answer: ...

    async def swap(self, advance: Advance) -> Answer: ...


@contextlib.asynccontextmanager
async def open_backend(
    settings: Settings, url: Address | None = None, at_once: int = AT_ONCE
) -> AsyncIterator[Backend]:
    """The server at `url`, else the store's holder, else this process, with room for `at_once` messages."""
    address = url or find_server(settings)
    if address is None:
        async with open_service(settings, at_once) as service:
            yield LocalBackend(service)
        return
    # A server that was found by the lock of its store has an embedded one.
    paced = url is not None and await is_paced(settings, url)
    client = Client(address, timeout_s=_TIMEOUT_S)
    try:
        yield ServerBackend(client, settings, server_pace() if paced else None)
    finally:
        client.close()


class ServerBackend:
    def __init__(self, client: Client, settings: Settings, pace: Pace | None = None) -> None:
        self.name = client.address.base
        self.pace = pace
        self._client = client
        self._settings = settings

    async def reach(self) -> None:
        await self._client.request("GET", "/livez")

    async def deliver(self, delivery: Delivery) -> Answer:
        path, body = push_path(self._client.address), encode_push(delivery)
        # Without ADMIN_TOKEN: the URL may be that of another service.
        async with take_turn(self.pace, 1):
            reply = await patiently(lambda: self._client.request("POST", path, body), self.pace)
        return {"outcome": "refused", **reply.answer}

    async def replay(self, letter_id: str) -> Answer | None:
        reply = await self._ask("POST", f"/api/letters/{quote(letter_id, safe='')}/replay")
        return None if reply.status == 404 else {"id": letter_id, "outcome": "retry", **reply.answer}

    async def replay_delivery(self, delivery: Delivery, views: frozenset[str] | None) -> Answer:
        query = "" if views is None else "?" + urlencode([("view", name) for name in sorted(views)])
        reply = await self._ask("POST", f"/api/replay{query}", encode_push(delivery))
        return {"id": delivery.message_id, "outcome": "retry", **reply.answer}

    async def purge(self, letter_id: str, state: ReplayState | None) -> bool:
        body = {"ids": [letter_id]} if state is None else {"ids": [letter_id], "state": state}
        reply = await self._ask("POST", "/api/letters/purge", msgspec.json.encode(body))
        if reply.status != 200:
            raise Unreachable(f"{letter_id} was not purged: {reply.answer.get('error')}")
        return letter_id in reply.answer["purged"]

    async def edit(self, letter_id: str, edit: Edit) -> bool:
        data = None if edit.data is None else edit.data.decode()
        body = msgspec.json.encode({"data": data, "by": edit.by, "edits": edit.edits})
        reply = await self._ask("POST", f"/api/letters/{quote(letter_id, safe='')}/edit", body)
        if reply.status in {400, 409}:
            raise EditRefused(str(reply.answer.get("reason")), str(reply.answer.get("error")))
        return reply.status != 404 and bool(_fine(reply))

    async def move(self, collection: str, ids: Sequence[str]) -> list[Answer]:
        body = msgspec.json.encode({"collection": collection, "ids": ids})
        reply = await self._ask("POST", "/api/old-ids/move", body)
        if reply.status != 200:
            raise Unreachable(f"{self.name} moved none of these: {reply.answer.get('error')}")
        return list(reply.answer["results"])

    async def submit(self, run: Any, run_id: str) -> Answer:
        path = f"/api/flow-runs?runId={quote(run_id, safe='')}"
        reply = await self._ask("POST", path, msgspec.json.encode(run))
        refused = {409: RunExists, 400: InvalidRun}.get(reply.status)
        if refused is not None:
            raise refused(str(reply.answer.get("error")))
        return _fine(reply)

    async def sweep(self) -> Answer:
        return _fine(await self._ask("POST", "/api/flow-runs/sweep"))

    @contextlib.asynccontextmanager
    async def rebuild(self, view: str) -> AsyncIterator[ViewRebuild]:
        rebuild = _ServerRebuild(self._client, self._settings, view)
        try:
            yield rebuild
        finally:
            await rebuild.leave()

    async def _ask(self, method: str, path: str, body: bytes = b"") -> Reply:
        headers = admin_headers(self._settings)
        reply = await patiently(lambda: self._client.request(method, path, body, headers))
        if reply.status == 401:
            raise token_refused(self._settings, self.name)
        return reply


class _ServerRebuild:
    def __init__(self, client: Client, settings: Settings, view: str) -> None:
        self._client = client
        self._settings = settings
        self._path = f"/api/rebuilds/{quote(view, safe='')}"
        self._begun = False

    async def fold(self) -> Answer:
        await self._ask("POST", self._path)
        self._begun = True
        return await self._ended()

    async def swap(self, advance: Advance) -> Answer:
        await self._ask("POST", f"{self._path}/swap")
        state = await self._ended()
        advance(state["written"])
        return state

    async def leave(self) -> None:
        """Tell the server to drop the rebuild, so that it frees the fold."""
        if self._begun:
            with contextlib.suppress(Unreachable, exit_codes.NegativeAnswer):
                await self._ask("DELETE", self._path)

    async def _ended(self) -> Answer:
        """The state when the server has finished folding or swapping."""
        while True:
            state = await self._ask("GET", self._path)
            if state["phase"] not in {Phase.FOLDING, Phase.SWAPPING}:
                break
            await asyncio.sleep(_POLL_S)
        if state["phase"] == Phase.FAILED:
            raise Unreachable(f"the rebuild failed: {state['error']}")
        return state

    async def _ask(self, method: str, path: str) -> Answer:
        reply = await self._client.request(method, path, headers=admin_headers(self._settings))
        if reply.status == 401:
            raise token_refused(self._settings, self._client.address.base)
        if reply.status >= 400:
            known = exit_codes.NegativeAnswer if reply.status in {404, 409} else Unreachable
            raise known(f"{reply.answer.get('error')} ({self._client.address.base})")
        return reply.answer


class LocalBackend:
    def __init__(self, service: Service) -> None:
        self.name = service.settings.store
        self.pace = service.pace
        self._service = service

    async def reach(self) -> None:
        """Nothing to do: it runs in this process."""

    async def deliver(self, delivery: Delivery) -> Answer:
        result = await _settled(lambda: self._service.handle_line(delivery))
        error, trace = explained(result.error), trace_of(result.error) or ""
        return {"outcome": result.outcome, "reason": result.reason, "error": error, "trace": trace}

    async def replay(self, letter_id: str) -> Answer | None:
        try:
            result = await _when_there_is_room(lambda: self._service.replay_letter(letter_id))
        except StoreError as error:
            # Only this letter failed; the others may still succeed.
            return {"id": letter_id, "outcome": "retry", "reason": "store_unavailable", "error": str(error)}
        return None if result is None else msgspec.to_builtins(replay_answer(letter_id, result))

    async def replay_delivery(self, delivery: Delivery, views: frozenset[str] | None) -> Answer:
        result = await _settled(lambda: self._service.replay_delivery(delivery, views))
        answer: Answer = msgspec.to_builtins(replay_answer(delivery.message_id, result))
        return answer

    async def purge(self, letter_id: str, state: ReplayState | None) -> bool:
        return await self._service.letters.purge(Ref(LETTERS, letter_id), LetterFilter(states=only(state)))

    async def edit(self, letter_id: str, edit: Edit) -> bool:
        return await self._service.edit_letter(letter_id, edit)

    async def move(self, collection: str, ids: Sequence[str]) -> list[Answer]:
        refs = [Ref(collection, document_id) for document_id in ids]
        return [msgspec.to_builtins(report.answer()) for report in await self._service.mover.move_all(refs)]

    async def submit(self, run: Any, run_id: str) -> Answer:
        flow = self._service.flow
        submitted = await flow.submit(run, run_id)
        return {"runId": submitted.run_id, "created": submitted.created, "notOurs": flow.not_ours(run)}

    async def sweep(self) -> Answer:
        return msgspec.structs.asdict(await self._service.flow.sweep())

    @contextlib.asynccontextmanager
    async def rebuild(self, view: str) -> AsyncIterator[ViewRebuild]:
        opening = self._service.rebuild(view)
        if opening is None:
            raise no_such_view(view, self._service.views)
        async with opening as rebuild:
            yield _LocalRebuild(rebuild)


class _LocalRebuild:
    def __init__(self, rebuild: RebuildRun) -> None:
        self._rebuild = rebuild
        self._report: Answer = {}

    async def fold(self) -> Answer:
        self._report = msgspec.to_builtins(rebuild_report(await self._rebuild.fold()))
        return self._state(Phase.FOLDED, None)

    async def swap(self, advance: Advance) -> Answer:
        return self._state(Phase.SWAPPED, await self._rebuild.swap(advance))

    def _state(self, phase: Phase, written: int | None) -> Answer:
        view, entries = self._rebuild.view.name, self._rebuild.entries
        return {"view": view, "phase": phase, "entries": entries, "report": self._report, "written": written}


def no_such_view(name: str | None, views: Sequence[View]) -> exit_codes.NegativeAnswer:
    known = suggest(name or "", (view.name for view in views))
    return exit_codes.NegativeAnswer(f"there is no view {name}: {known} (--views names your own)")


def _fine(reply: Reply) -> Answer:
    if reply.status not in {200, 201}:
        raise Unreachable(f"the server answered {reply.status}: {reply.answer.get('error')}")
    return reply.answer


async def _when_there_is_room(call: Callable[[], Awaitable[T]]) -> T:
    """Wait until the queue has room: large messages reach its limit of bytes before that of messages."""
    while True:
        try:
            return await call()
        except Overloaded:
            await asyncio.sleep(_ROOM_PAUSE_S)


async def _settled(call: Callable[[], Awaitable[Result]]) -> Result:
    """Retry for a minute while the store is unavailable: a command has no broker that would deliver again."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + PATIENCE_S
    while True:
        result = await _when_there_is_room(call)
        if not isinstance(result.error, Unavailable) or result.settled or loop.time() >= give_up_at:
            return result
        await asyncio.sleep(_AWAY_PAUSE_S)
