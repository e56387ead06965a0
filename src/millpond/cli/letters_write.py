"""`millpond dlq replay` and `purge`: through the server that holds the store, or under its lock where none runs.

A replay never removes a letter: it is noted on it, and it stays until it is purged or expires.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol
from urllib.parse import quote

import click

from millpond.cli import exits
from millpond.cli.local import open_service, refuse_memory, when_there_is_room
from millpond.cli.options import example, json_option, load_settings, store_option, views_option
from millpond.cli.output import Advance, Column, print_json, print_line, print_note, print_table, progress
from millpond.cli.retry import patiently
from millpond.cli.selection import Filter, LetterCommand, chosen_ids, filter_options
from millpond.cli.server import admin_client, answer_of, find_server, refuse_missing
from millpond.cli.wire import Client, Reply
from millpond.errors import SettingsError, StoreError
from millpond.letters import in_store
from millpond.model import Ref, Result
from millpond.service import Service
from millpond.settings import Settings

# Few enough to leave a running server room for its own traffic.
_AT_ONCE = 16
_TIMEOUT_S = 30.0
_SHOWN_MAX = 20
_FINE = frozenset({"applied", "duplicate", "stale_ignored", "too_old_ignored", "filtered"})
_OUTCOMES = (Column("outcome"), Column("letters", right=True))
_FAILED = (Column("id"), Column("outcome"), Column("reason"), Column("error", clip=True))
Answer = dict[str, Any]


class Hands(Protocol):
    """Who does the work. Both answer in the words of the HTTP API; None means there is no such letter."""

    async def replay(self, letter_id: str) -> Answer | None: ...

    async def purge(self, letter_id: str) -> bool: ...


@click.command(
    cls=LetterCommand,
    epilog=example("millpond dlq replay --all --reason view_error", "millpond dlq replay cli__cli-1f0c"),
)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every letter there is now.")
@filter_options
@store_option
@views_option
@json_option
@click.pass_context
def replay(ctx: click.Context, ids: tuple[str, ...], wanted: Filter, *, everything: bool, as_json: bool) -> None:
    """Send letters' messages through the engine again, as they were.

    Letters stay until they are purged or expire. Exits with 1 where any of them failed again.
    """
    settings = _settings()
    chosen = chosen_ids(settings, ids, wanted, everything=everything)
    answers = asyncio.run(_replay_all(settings, chosen)) if chosen else []
    counts = Counter(str(answer["outcome"]) for answer in answers)
    if as_json:
        print_json({"letters": answers, "summary": dict(counts)})
    elif not chosen:
        print_note("There are no letters to replay.")
    else:
        failed = [answer for answer in answers if answer["outcome"] not in _FINE]
        if failed:
            print_table(_FAILED, [_failure_row(answer) for answer in failed[:_SHOWN_MAX]])
            if len(failed) > _SHOWN_MAX:
                print_line(f"… and {len(failed) - _SHOWN_MAX} more that failed")
        print_table(_OUTCOMES, counts.most_common())
    ctx.exit(exits.OK if counts.keys() <= _FINE else exits.NEGATIVE)


@click.command(
    cls=LetterCommand,
    epilog=example("millpond dlq purge --all --replayed", "millpond dlq purge cli__cli-1f0c --yes"),
)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every letter there is now.")
@filter_options
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
@json_option
@click.pass_context
def purge(
    ctx: click.Context, ids: tuple[str, ...], wanted: Filter, *, everything: bool, yes: bool, as_json: bool
) -> None:
    """Delete letters for ever.

    Asks first on a terminal; elsewhere it needs --yes. Exits with 1 where one of the IDs was not there.
    """
    settings = _settings()
    chosen = chosen_ids(settings, ids, wanted, everything=everything)
    if chosen and not yes:
        _confirm(len(chosen))
    gone = asyncio.run(_purge_all(settings, chosen)) if chosen else {}
    purged = [letter_id for letter_id, was_there in gone.items() if was_there]
    missing = [letter_id for letter_id, was_there in gone.items() if not was_there]
    if as_json:
        print_json({"purged": purged, "missing": missing})
    else:
        print_line(f"Purged {len(purged)} of {_letters(len(chosen))}.")
        for letter_id in missing:
            print_note(f"There was no letter {letter_id}.")
    ctx.exit(exits.NEGATIVE if missing else exits.OK)


def _settings() -> Settings:
    settings = load_settings()
    refuse_memory(settings)
    refuse_missing(settings.store_path)
    return settings


def _confirm(count: int) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("nobody is there to ask: give --yes to purge", click.get_current_context())
    if not click.confirm(f"Purge {_letters(count)} for ever? What is purged cannot be replayed.", err=True):
        raise exits.NegativeAnswer("nothing was purged")


def _letters(count: int) -> str:
    return "1 letter" if count == 1 else f"{count} letters"


async def _replay_all(settings: Settings, ids: Sequence[str]) -> list[Answer]:
    async def one(letter_id: str, advance: Advance) -> Answer:
        async with slots:
            answer = await hands.replay(letter_id)
        advance(1)
        return answer or {"id": letter_id, "outcome": "not_found", "reason": "not_found"}

    slots = asyncio.Semaphore(_AT_ONCE)
    async with _hands(settings) as hands:
        with progress("Replaying", len(ids)) as advance:
            return await asyncio.gather(*(one(letter_id, advance) for letter_id in ids))


async def _purge_all(settings: Settings, ids: Sequence[str]) -> dict[str, bool]:
    gone = {}
    async with _hands(settings) as hands:
        with progress("Purging", len(ids)) as advance:
            for letter_id in ids:
                gone[letter_id] = await hands.purge(letter_id)
                advance(1)
    return gone


@contextlib.asynccontextmanager
async def _hands(settings: Settings) -> AsyncIterator[Hands]:
    address = find_server(settings)
    if address is not None:
        client = admin_client(settings, address, timeout_s=_TIMEOUT_S)
        try:
            yield _ServerHands(client)
        finally:
            client.close()
        return
    async with open_service(settings, _AT_ONCE) as service:
        yield _OwnHands(service)


class _ServerHands:
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

    async def _ask(self, method: str, path: str) -> Reply:
        reply = await self._client.request(method, path)
        if reply.status == 401:
            raise SettingsError(
                "ADMIN_TOKEN", "(secret)", f"is not the one {self._client.address.base} was started with"
            )
        return reply


class _OwnHands:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def replay(self, letter_id: str) -> Answer | None:
        try:
            result = await when_there_is_room(lambda: self._service.replay_letter(letter_id))
        except StoreError as error:
            # This letter only; the others may still succeed.
            return {"id": letter_id, "outcome": "retry", "reason": "store_unavailable", "error": str(error)}
        return None if result is None else _answer(letter_id, result)

    async def purge(self, letter_id: str) -> bool:
        return await self._service.letters.purge(Ref(in_store.COLLECTION, letter_id))


def _answer(letter_id: str, result: Result) -> Answer:
    """As POST /api/letters/{id}/replay answers."""
    views = [{"view": v.view, "doc": v.doc, "outcome": v.outcome, "reason": v.reason} for v in result.views]
    answer = {
        "id": letter_id,
        "outcome": result.outcome,
        "reason": result.reason,
        "topic": result.topic,
        "views": views,
    }
    if result.error is not None:
        answer["error"] = in_store.bounded_error(result.error)
    return answer


def _failure_row(answer: Answer) -> list[Any]:
    return [answer.get(name) for name in ("id", "outcome", "reason", "error")]
