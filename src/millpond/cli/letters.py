"""`millpond dlq`: the group, and the commands that read letters. `letters_write` has those that write."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from millpond.cli import exit_codes
from millpond.cli.escape import clean_block
from millpond.cli.letters_edit import edit
from millpond.cli.letters_open import open_letter, payload_texts
from millpond.cli.letters_selection import LetterCommand, filter_options
from millpond.cli.letters_write import purge, replay
from millpond.cli.options import example, json_option, load_settings, store_option
from millpond.cli.output import Column, print_facts, print_json, print_line, print_note, print_table
from millpond.cli.store import open_for_reading
from millpond.core import timestamps
from millpond.core.model import Snapshot
from millpond.dead_letters import store as in_store
from millpond.dead_letters.filter import ALL_LETTERS, LetterFilter
from millpond.dead_letters.store import matching_letters
from millpond.http.api.documents import LIMIT_DEFAULT, LIMIT_MAX, split_page
from millpond.settings import Settings

_LETTERS = (
    Column("id"),
    Column("reason"),
    Column("topic"),
    Column("buried"),
    Column("bytes", right=True),
    Column("state"),
    Column("replayed"),
    Column("error", clip=True),
)
# In this order: what, why, from where, when.
_ENVELOPE = (
    ("message", "messageId"),
    ("reason", "reason"),
    ("error", "error"),
    ("error type", "errorType"),
    ("view", "view"),
    ("topic", "topic"),
    ("event type", "eventType"),
    ("subscription", "subscription"),
    ("attributes", "attributes"),
    ("ordering key", "orderingKey"),
    ("attempt", "deliveryAttempt"),
    ("published", "publishTime"),
    ("buried", "buriedAt"),
    ("expires", "expireAt"),
    ("state", "state"),
    ("replays", "replays"),
    ("replayed", "replayedAt"),
    ("replay outcome", "replayOutcome"),
    ("replay reason", "replayReason"),
    ("bytes", "size"),
)


@click.group(epilog=example("millpond dlq list", "millpond dlq replay --all --reason view_error"))
def dlq() -> None:
    """List, show, edit, replay and purge dead letters.

    A dead letter is a message that could not be applied, kept whole with the reason. Fix the cause, or correct the
    payload, replay the letter, and purge it once it is applied.
    """


@dlq.command("list", epilog=example("millpond dlq list --reason invalid_event --limit 20"))
@filter_options
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=LIMIT_DEFAULT,
    show_default=True,
    help="At most this many letters.",
)
@click.option("--after", metavar="ID", help="Start after this id.")
@store_option
@json_option
def list_letters(wanted: LetterFilter, limit: int, after: str | None, *, as_json: bool) -> None:
    """List the letters, by id."""
    found = asyncio.run(_list(load_settings(), wanted, limit + 1, after))
    page, following = split_page(found, limit)
    if as_json:
        print_json({"letters": [in_store.summary(snapshot) for snapshot in page], "next": following})
        return
    if not page:
        print_note("There are no letters" + (" like that." if wanted != ALL_LETTERS else "."))
        return
    print_table(_LETTERS, [_row(snapshot) for snapshot in page])
    if following is not None:
        print_note(f"There are more: add --after {following}")


@dlq.command(cls=LetterCommand, epilog=example("millpond dlq show cli__cli-1f0c5a6e"))
@click.argument("letter_id", metavar="ID")
@store_option
@json_option
@click.pass_context
def show(ctx: click.Context, letter_id: str, *, as_json: bool) -> None:
    """Show one dead letter: its envelope, why it was set aside, and the payload.

    Characters that are not printable are shown as escapes. Exits with 1 if there is no such letter.
    """
    opened = asyncio.run(open_letter(load_settings(), letter_id))
    if opened is None:
        text = f"there is no letter {letter_id}"
        if not as_json:
            raise exit_codes.NegativeAnswer(f"{text}: `millpond dlq list` lists them")
        print_json({"reason": "not_found", "error": text})
        ctx.exit(exit_codes.NEGATIVE)
    envelope = in_store.summary(opened.snapshot)
    payload, original = payload_texts(opened.delivery)
    if as_json:
        print_json({**envelope, "data": payload, **({} if original is None else {"original": original})})
        return
    facts: list[tuple[str, Any]] = [(title, envelope.get(name)) for title, name in _ENVELOPE]
    facts += [
        ("also refused", f"by {refusal['view']}, {refusal['reason']}: {refusal['error']}")
        for refusal in envelope.get("refusals") or []
        if refusal["view"] != envelope.get("view")
    ]
    facts += [("edited", _edit_text(edit)) for edit in envelope.get("edits") or []]
    print_facts([("letter", letter_id), *((title, value) for title, value in facts if value not in {None, ""})])
    if envelope.get("trace"):
        print_line("trace")
        print_line(clean_block(envelope["trace"]))
    print_line("payload" if original is None else "payload, corrected")
    print_line(clean_block(payload) if payload else "  (none)")
    if original is not None:
        print_line("payload, as it arrived")
        print_line(clean_block(original) if original else "  (none)")


def _row(snapshot: Snapshot) -> tuple[Any, ...]:
    letter = in_store.summary(snapshot)
    names = ("id", "reason", "topic", "buriedAt", "size", "state", "replayOutcome", "error")
    return tuple(letter.get(name) or None for name in names)


async def _list(settings: Settings, wanted: LetterFilter, limit: int, after: str | None) -> list[Snapshot]:
    found: list[Snapshot] = []
    async with open_for_reading(settings) as store:
        async for snapshot in matching_letters(store, wanted, after):
            found.append(snapshot)
            if len(found) == limit:
                break
    return found


def _edit_text(edit: dict[str, Any]) -> str:
    what = "the original was put back" if edit["size"] is None else f"{edit['size']} bytes"
    return f"{timestamps.to_text(timestamps.from_datetime(edit['at']))} by {edit['by']}: {what}"


dlq.add_command(edit)
dlq.add_command(replay)
dlq.add_command(purge)
