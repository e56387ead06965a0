"""`millpond dlq`: the group, and the commands that read letters. `letters_write` has those that write."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from millpond.cli import exit_codes
from millpond.cli.escape import clean_block
from millpond.cli.groups import SuggestingGroup
from millpond.cli.letters_edit import edit
from millpond.cli.letters_selection import LetterCommand, filter_options
from millpond.cli.letters_write import purge, replay
from millpond.cli.options import example, json_option, load_settings, read_url_option, store_option
from millpond.cli.output import Column, print_facts, print_json, print_line, print_note, print_table
from millpond.cli.reading import Answer, open_reader
from millpond.dead_letters.filter import ALL_LETTERS, LetterFilter
from millpond.http.api.documents import LIMIT_DEFAULT, LIMIT_MAX
from millpond.http_client import Address
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


@click.group(
    cls=SuggestingGroup, epilog=example("millpond dlq list", "millpond dlq replay --all --reason view_error")
)
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
@read_url_option
@store_option
@json_option
def list_letters(
    wanted: LetterFilter, limit: int, after: str | None, url: Address | None, *, as_json: bool
) -> None:
    """List the letters, by id.

    Reads the store directly, also while a server runs; with --url it asks that server.
    """
    page = asyncio.run(_list(load_settings(), url, wanted, limit, after))
    if as_json:
        print_json(page)
        return
    if not page["letters"]:
        print_note("There are no letters" + (" like that." if wanted != ALL_LETTERS else "."))
        return
    print_table(_LETTERS, [_row(letter) for letter in page["letters"]])
    if page["next"] is not None:
        print_note(f"There are more: add --after {page['next']}")


@dlq.command(cls=LetterCommand, epilog=example("millpond dlq show cli__cli-1f0c5a6e"))
@click.argument("letter_id", metavar="ID")
@read_url_option
@store_option
@json_option
@click.pass_context
def show(ctx: click.Context, letter_id: str, url: Address | None, *, as_json: bool) -> None:
    """Show one dead letter: its envelope, why it could not be applied, and the payload.

    Reads the store directly, also while a server runs; with --url it asks that server. Characters that are not
    printable are shown as escapes. Exits with 1 if there is no such letter.
    """
    letter = asyncio.run(_open(load_settings(), url, letter_id))
    if letter is None:
        text = f"there is no letter {letter_id}"
        if not as_json:
            raise exit_codes.NegativeAnswer(f"{text}: `millpond dlq list` lists them")
        print_json({"reason": "not_found", "error": text})
        ctx.exit(exit_codes.NEGATIVE)
    if as_json:
        print_json(letter)
        return
    payload, original = letter["data"], letter.get("original")
    facts: list[tuple[str, Any]] = [(title, letter.get(name)) for title, name in _ENVELOPE]
    facts += [
        ("also refused", f"by {refusal['view']}, {refusal['reason']}: {refusal['error']}")
        for refusal in letter.get("refusals") or []
        if refusal["view"] != letter.get("view")
    ]
    facts += [("edited", _edit_text(one)) for one in letter.get("edits") or []]
    print_facts([("letter", letter_id), *((title, value) for title, value in facts if value not in {None, ""})])
    if letter.get("trace"):
        print_line("trace")
        print_line(clean_block(letter["trace"]))
    print_line("payload" if original is None else "payload, corrected")
    print_line(clean_block(payload) if payload else "  (none)")
    if original is not None:
        print_line("payload, as it arrived")
        print_line(clean_block(original) if original else "  (none)")


def _row(letter: Answer) -> tuple[Any, ...]:
    names = ("id", "reason", "topic", "buriedAt", "size", "state", "replayOutcome", "error")
    return tuple(letter.get(name) or None for name in names)


async def _list(
    settings: Settings, url: Address | None, wanted: LetterFilter, limit: int, after: str | None
) -> Answer:
    async with open_reader(settings, url) as reader:
        return await reader.letters(wanted, limit, after)


async def _open(settings: Settings, url: Address | None, letter_id: str) -> Answer | None:
    async with open_reader(settings, url) as reader:
        return await reader.letter(letter_id)


def _edit_text(edit: Answer) -> str:
    what = "the original was put back" if edit["size"] is None else f"{edit['size']} bytes"
    return f"{edit['at']} by {edit['by']}: {what}"


dlq.add_command(edit)
dlq.add_command(replay)
dlq.add_command(purge)
