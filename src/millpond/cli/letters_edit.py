"""`millpond dlq edit`: corrects the payload of a dead letter, in an editor or from an option.

Shows the difference and asks before it writes. Through `backend`, as every command that writes.
"""

from __future__ import annotations

import asyncio
import difflib
import getpass
import sys
from typing import TextIO

import click
import msgspec

from millpond.cli import exit_codes
from millpond.cli.backend import open_backend
from millpond.cli.escape import clean, clean_block
from millpond.cli.letters_selection import LetterCommand
from millpond.cli.options import example, json_option, load_settings, store_option
from millpond.cli.output import print_json, print_line, print_note
from millpond.cli.reading import Answer, open_reader
from millpond.core.decode import decode_object
from millpond.core.errors import EditRefused, InvalidEvent
from millpond.dead_letters.correction import BY_CHARS_MAX, Edit
from millpond.settings import Settings


@click.command(
    cls=LetterCommand,
    epilog=example(
        "millpond dlq edit orders__1001",
        'millpond dlq edit orders__1001 --data \'{"order_id": "17", "status": "paid"}\'',
        "millpond dlq edit orders__1001 --revert",
    ),
)
@click.argument("letter_id", metavar="ID")
@click.option("--data", metavar="JSON", help="The corrected payload; without it and --file, an editor opens.")
@click.option(
    "--file", "source", type=click.File(encoding="utf-8"), help="The corrected payload; - is standard input."
)
@click.option("--revert", is_flag=True, help="Put the payload back as it arrived.")
@click.option("--by", metavar="NAME", help="Who edits it, to be recorded; otherwise your user name.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
@json_option
def edit(
    letter_id: str,
    data: str | None,
    source: TextIO | None,
    by: str | None,
    *,
    revert: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Correct the payload of a letter.

    Opens the payload in your editor ($EDITOR), checks that it is a JSON object, shows the difference, and asks. The
    original is kept, and who edited it and when is recorded. Nothing is sent: try it with
    `millpond dlq replay ID --dry-run`, then replay it. It keeps its message id and publish time, and so its place
    in the order. Exits with 1 if nothing was changed.
    """
    if sum((data is not None, source is not None, revert)) > 1:
        raise click.UsageError("give one of --data, --file and --revert", click.get_current_context())
    settings = load_settings()
    letter = asyncio.run(_open(settings, letter_id))
    if letter is None:
        raise exit_codes.NegativeAnswer(f"there is no letter {letter_id}: `millpond dlq list` lists them")
    before, original = letter["data"], letter.get("original")
    if revert:
        after = before if original is None else original
    else:
        after = data if data is not None else source.read() if source is not None else _in_editor(before)
        _check(after)
    if after == before:
        raise exit_codes.NegativeAnswer("the payload is the same: nothing was changed")
    if not as_json:
        print_line(_difference(before, after))
    if not yes:
        _confirm()
    name = (by or getpass.getuser())[:BY_CHARS_MAX]
    changed = Edit(None if revert else after.encode(), name, letter["editCount"])
    asyncio.run(_send(settings, letter_id, changed))
    if as_json:
        print_json({"id": letter_id, "data": after, "by": name})
    else:
        print_note(
            f"The letter holds {'the original' if revert else 'the corrected payload'} now. Nothing was sent yet:"
        )
        print_note(f"  millpond dlq replay {letter_id} --dry-run    shows what a replay would change")
        print_note(f"  millpond dlq replay {letter_id}              sends it")


async def _open(settings: Settings, letter_id: str) -> Answer | None:
    async with open_reader(settings, None) as reader:
        return await reader.letter(letter_id)


def _in_editor(before: str) -> str:
    if not sys.stdin.isatty():
        raise click.UsageError(
            "there is no terminal for an editor: give --data or --file", click.get_current_context()
        )
    after = click.edit(_indented(before), extension=".json")
    if after is None:
        raise exit_codes.NegativeAnswer("the editor was closed without saving: nothing was changed")
    # Editors end a file with a line break.
    return after.rstrip("\n")


def _indented(text: str) -> str:
    """The same JSON on several lines; unchanged if it is none. Numbers keep every digit."""
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.MsgspecError, RecursionError):
        return text


def _check(text: str) -> None:
    try:
        decode_object(text.encode())
    except (InvalidEvent, UnicodeEncodeError) as error:
        raise exit_codes.NegativeAnswer(f"the payload cannot be used, and nothing was changed: {error}") from None


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(
        _indented(before).splitlines(), _indented(after).splitlines(), "before", "after", lineterm=""
    )
    return "\n".join(map(clean, lines)) or clean_block(after)


def _confirm() -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: give --yes to edit", click.get_current_context())
    if not click.confirm("Save this payload? The original is kept.", err=True):
        raise exit_codes.NegativeAnswer("nothing was changed")


async def _send(settings: Settings, letter_id: str, changed: Edit) -> None:
    async with open_backend(settings) as backend:
        try:
            found = await backend.edit(letter_id, changed)
        except EditRefused as refusal:
            raise exit_codes.NegativeAnswer(str(refusal)) from None
        if not found:
            raise exit_codes.NegativeAnswer(f"there is no letter {letter_id} any more")
