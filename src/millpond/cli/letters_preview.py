"""`millpond dlq replay --dry-run`: shows the changes to documents that a replay would make. Never writes.

Uses the views of this command's settings, which may be newer than those of the running server: a fixed view can be
tried on its letters before it is deployed. Called by `letters_write`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from millpond.cli.output import Column, print_json, print_line, print_note, print_table, progress
from millpond.cli.store import open_for_reading
from millpond.core.route import Router
from millpond.dead_letters.store import StoredLetters
from millpond.reprocess.diff import differing_fields
from millpond.reprocess.preview import DocumentChange, Preview, preview_letters
from millpond.service.rules import engine_rules, route_rules
from millpond.service.views import load_views
from millpond.settings import Settings

_AT_ONCE = 100
_ROWS_MAX = 200
_CHANGES = (Column("document"), Column("field"), Column("now", clip=True), Column("then", clip=True))
_OUTCOMES = (Column("outcome"), Column("reason"), Column("letters", right=True))


def show_preview(settings: Settings, letter_ids: Sequence[str], *, as_json: bool) -> list[dict[str, Any]]:
    """Print what a replay of these letters would change. Returns the answer for each letter."""
    answers, changes = asyncio.run(_preview(settings, letter_ids))
    if as_json:
        summary = dict(Counter(str(answer["outcome"]) for answer in answers))
        print_json({"letters": answers, "changes": changes, "summary": summary})
    elif not answers:
        print_note("There are no letters to replay.")
    else:
        rows = [row for change in changes for row in _rows(change)]
        if rows:
            print_table(_CHANGES, rows[:_ROWS_MAX])
        if len(rows) > _ROWS_MAX:
            print_line(f"… and {len(rows) - _ROWS_MAX} more (--json lists all of them)")
        outcomes = Counter((str(answer["outcome"]), str(answer["reason"])) for answer in answers)
        print_table(_OUTCOMES, [(*what, n) for what, n in outcomes.most_common()])
        documents = "1 document" if len(changes) == 1 else f"{len(changes)} documents"
        print_note(f"A replay would write {documents}, with the views that this command loads (--views, $VIEWS).")
        print_note("Nothing was written.")
    return answers


async def _preview(
    settings: Settings, letter_ids: Sequence[str]
) -> tuple[list[dict[str, Any]], list[DocumentChange]]:
    async with open_for_reading(settings) as store:
        router = Router(load_views(settings), route_rules(settings))
        in_full = settings.view_errors_in_full
        preview = Preview(store, router, engine_rules(settings).receipts, view_errors_in_full=in_full)
        letters = StoredLetters(store, keep=0, wall_clock=lambda: 0)
        answers: list[dict[str, Any]] = []
        with progress("Previewing", len(letter_ids)) as advance:
            for at in range(0, len(letter_ids), _AT_ONCE):
                some = letter_ids[at : at + _AT_ONCE]
                found = await preview_letters(preview, letters, some, time.time_ns() // 1_000)
                answers += msgspec.to_builtins(found)
                advance(len(some))
        return answers, preview.changes()


def _rows(change: DocumentChange) -> Iterator[tuple[Any, ...]]:
    """One row for each field that would change, and one for the message that would decide the document."""
    before = change.before or {}
    for name in differing_fields(None, before, change.after):
        if name == "source":
            yield change.doc, "decided by", _message(before), _message(change.after)
        else:
            yield change.doc, name, before.get(name), change.after.get(name)


def _message(document: dict[str, Any]) -> Any:
    source = document.get("source")
    return source.get("messageId") if isinstance(source, dict) else None
