"""`millpond dlq replay` and `purge`: through `backend`, the server that holds the store or this process.

A replay never removes a letter: the letter records it, and stays until it is purged or expires.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from millpond.cli import exit_codes
from millpond.cli.backend import AT_ONCE, Answer, open_backend
from millpond.cli.letters_preview import show_preview
from millpond.cli.letters_selection import LetterCommand, chosen_ids, filter_options
from millpond.cli.options import example, json_option, load_settings, store_option, views_option
from millpond.cli.output import Advance, Column, print_json, print_line, print_note, print_table, progress
from millpond.cli.store import refuse_memory, refuse_missing
from millpond.core.errors import StoreError, Unreachable, missing_extra
from millpond.core.model import Delivery
from millpond.dead_letters.filter import ALL_LETTERS, SETTLING_OUTCOMES, LetterFilter, ReplayState
from millpond.gcp.resource_names import full_name
from millpond.settings import Settings

_SHOWN_MAX = 20
_OUTCOMES = (Column("outcome"), Column("letters", right=True))
_FAILED = (Column("id"), Column("outcome"), Column("reason"), Column("error", clip=True))


@click.command(
    cls=LetterCommand,
    epilog=example(
        "millpond dlq replay --all --reason view_error --dry-run",
        "millpond dlq replay --all --reason view_error",
        "millpond dlq replay cli__cli-1f0c",
    ),
)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All letters that exist now.")
@filter_options
@click.option("--subscription", help="Instead: the messages of a dead-letter subscription, by its id or path.")
@click.option("--limit", type=click.IntRange(1), help="At most this many, with --subscription.")
@click.option("--dry-run", is_flag=True, help="Show which documents would change, and write nothing.")
@store_option
@views_option
@json_option
@click.pass_context
def replay(
    ctx: click.Context,
    ids: tuple[str, ...],
    wanted: LetterFilter,
    subscription: str | None,
    limit: int | None,
    *,
    everything: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Send letters' messages through the engine again, as they were or as they were corrected.

    Letters stay until they are purged or expire. With --subscription, messages of a dead-letter subscription
    (DLQ_TOPIC's, or one Pub/Sub fills by a dead-letter policy) get their original subscription and publish time
    back; those that succeed are acknowledged, the others stay. Exits with 1 if a message failed again, or would
    fail.
    """
    through: str | None
    if dry_run:
        if subscription is not None:
            raise click.UsageError("--dry-run is about letters in the store, not about --subscription", ctx)
        settings = _settings()
        chosen = chosen_ids(settings, ids, wanted, everything=everything)
        answers = show_preview(settings, chosen, as_json=as_json)
        outcomes = {str(answer["outcome"]) for answer in answers}
        ctx.exit(exit_codes.OK if outcomes <= SETTLING_OUTCOMES else exit_codes.NEGATIVE)
    if subscription is not None:
        if ids or everything or wanted != ALL_LETTERS:
            raise click.UsageError("--subscription goes with neither IDs nor --all and its filters", ctx)
        through, answers = asyncio.run(_replay_subscription(load_settings(), subscription, limit))
    else:
        if limit is not None:
            raise click.UsageError("--limit goes with --subscription", ctx)
        settings = _settings()
        chosen = chosen_ids(settings, ids, wanted, everything=everything)
        through, answers = asyncio.run(_replay_all(settings, chosen)) if chosen else (None, [])
    counts = Counter(str(answer["outcome"]) for answer in answers)
    if as_json:
        print_json({"through": through, "letters": answers, "summary": dict(counts)})
    elif not answers:
        print_note("There are no letters to replay.")
    else:
        failed = [answer for answer in answers if answer["outcome"] not in SETTLING_OUTCOMES]
        if failed:
            print_table(_FAILED, [_failure_row(answer) for answer in failed[:_SHOWN_MAX]])
            if len(failed) > _SHOWN_MAX:
                print_line(f"… and {len(failed) - _SHOWN_MAX} more that failed")
        print_table(_OUTCOMES, counts.most_common())
        print_note(f"Through {through}.")
    ctx.exit(exit_codes.OK if counts.keys() <= SETTLING_OUTCOMES else exit_codes.NEGATIVE)


@click.command(
    cls=LetterCommand,
    epilog=example("millpond dlq purge --all --state succeeded", "millpond dlq purge cli__cli-1f0c --yes"),
)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All letters that exist now.")
@filter_options
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
@json_option
@click.pass_context
def purge(
    ctx: click.Context, ids: tuple[str, ...], wanted: LetterFilter, *, everything: bool, yes: bool, as_json: bool
) -> None:
    """Delete letters forever.

    Asks for confirmation on a terminal; elsewhere it needs --yes. Exits with 1 if one of the IDs does not exist.
    """
    settings = _settings()
    chosen = chosen_ids(settings, ids, wanted, everything=everything)
    if chosen and not yes:
        _confirm(len(chosen))
    # A letter that is replayed again meanwhile may no longer be in the state it was chosen for.
    (state,) = wanted.states if len(wanted.states) == 1 else (None,)
    through, gone = asyncio.run(_purge_all(settings, chosen, state)) if chosen else (None, {})
    purged = [letter_id for letter_id, was_there in gone.items() if was_there]
    missing = [letter_id for letter_id, was_there in gone.items() if not was_there]
    if as_json:
        print_json({"through": through, "purged": purged, "missing": missing})
    else:
        print_line(f"Purged {len(purged)} of {_letters(len(chosen))}.")
        if through is not None:
            print_note(f"Through {through}.")
        for letter_id in missing:
            print_note(
                f"There was no letter {letter_id}." if state is None else f"{letter_id} is not {state} any more."
            )
    ctx.exit(exit_codes.NEGATIVE if missing else exit_codes.OK)


def _settings() -> Settings:
    settings = load_settings()
    refuse_memory(settings)
    refuse_missing(settings.store_path)
    return settings


def _confirm(count: int) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: give --yes to purge", click.get_current_context())
    if not click.confirm(f"Purge {_letters(count)} forever? Purged letters cannot be replayed.", err=True):
        raise exit_codes.NegativeAnswer("nothing was purged")


def _letters(count: int) -> str:
    return "1 letter" if count == 1 else f"{count} letters"


async def _replay_all(settings: Settings, ids: Sequence[str]) -> tuple[str, list[Answer]]:
    """The server's URL, or the store; and the answer for each letter."""

    async def one(letter_id: str, advance: Advance) -> Answer:
        async with slots:
            answer = await backend.replay(letter_id)
        advance(1)
        return answer or {"id": letter_id, "outcome": "not_found", "reason": "not_found"}

    slots = asyncio.Semaphore(AT_ONCE)
    async with open_backend(settings) as backend:
        with progress("Replaying", len(ids), backend.pace) as advance:
            return backend.name, await asyncio.gather(*(one(letter_id, advance) for letter_id in ids))


async def _replay_subscription(
    settings: Settings, subscription: str, limit: int | None
) -> tuple[str, list[Answer]]:
    try:
        from millpond.ingress.dead_letter_subscription import replay_all  # noqa: PLC0415 - Google's libraries
    except ModuleNotFoundError as error:
        raise missing_extra("--subscription", subscription, error) from None
    answers: list[Answer] = []
    refuse_memory(settings)
    async with open_backend(settings) as backend:
        with progress("Replaying", limit, backend.pace) as advance:

            async def send(delivery: Delivery, views: frozenset[str] | None) -> bool:
                answer = await backend.replay_delivery(delivery, views)
                answers.append(answer)
                advance(1)
                return answer["outcome"] in SETTLING_OUTCOMES

            path = full_name("subscriptions", subscription, settings.gcp_project)
            try:
                await replay_all(path, send, limit=limit, at_once=AT_ONCE)
            except StoreError as error:
                raise Unreachable(str(error)) from None
        return backend.name, answers


async def _purge_all(
    settings: Settings, ids: Sequence[str], state: ReplayState | None
) -> tuple[str, dict[str, bool]]:
    gone = {}
    async with open_backend(settings) as backend:
        with progress("Purging", len(ids)) as advance:
            for letter_id in ids:
                gone[letter_id] = await backend.purge(letter_id, state)
                advance(1)
        return backend.name, gone


def _failure_row(answer: Answer) -> list[Any]:
    return [answer.get(name) for name in ("id", "outcome", "reason", "error")]
