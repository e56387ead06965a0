"""`millpond cost`: what a day like the last one costs on Firestore, from the store or a server. Never writes."""

from __future__ import annotations

import asyncio

import click

from millpond.cli import exit_codes
from millpond.cli.options import example, json_option, load_settings, read_url_option, store_option, views_option
from millpond.cli.output import Column, print_json, print_line, print_note, print_table
from millpond.cli.reading import open_reader
from millpond.cost.answer import Cost, CostRow, Stored
from millpond.cost.bill import priced
from millpond.http_client import Address
from millpond.live.minutes import DAY_MINUTES
from millpond.settings import FIRESTORE, Settings

_FIGURES = ("reads", "writes", "deletes", "documents", "stored")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_UNIT = 1024
_NAMED_MAX = 5


@click.command(epilog=example("millpond cost --store firestore", "millpond cost --url https://HOST --json"))
@read_url_option
@store_option
@views_option
@json_option
def cost(url: Address | None, *, as_json: bool) -> None:
    """Show what a day like the last 24 hours costs on Firestore, by view.

    Operations were counted by the servers, as Firestore bills them; stored bytes are an estimate. FIRESTORE_PRICES
    turns them into money. Exits with 1 if nothing was counted yet.
    """
    settings = load_settings()
    if url is None and settings.store != FIRESTORE:
        raise exit_codes.WrongUsage(
            f"STORE={settings.store} has no bill: `millpond cost` is for STORE=firestore, or for the --url of a "
            "server on it"
        )
    found = priced(asyncio.run(_ask(settings, url)), settings.firestore_prices)
    if as_json:
        print_json(found)
    if not found.minutes:
        raise exit_codes.NegativeAnswer(
            "nothing was counted yet: a server on Firestore stores its first figures within a minute of its first "
            "message, and with HISTORY=off none"
        )
    if not as_json:
        _show(found)


async def _ask(settings: Settings, url: Address | None) -> Cost:
    async with open_reader(settings, url) as reader:
        return await reader.cost()


def _show(found: Cost) -> None:
    of = f"the last {found.minutes:,} minutes" if found.minutes != 1 else "the last minute"
    scaled = "" if found.minutes == DAY_MINUTES else f", multiplied by {found.scale:,.2f} to make 24 hours"
    print_line(f"A day like this one, from what was counted in {of}{scaled}:")
    titles = ["", *_FIGURES, *(["cost a day"] if found.prices else [])]
    rows = [_cells(row, found) for row in (*found.rows, found.total)]
    print_table([Column(title, right=bool(title)) for title in titles], rows)
    messages = f"{round(found.messages * found.scale):,} messages a day"
    each = found.operations_per_message
    print_line(messages if each is None else f"{messages}, {each:,.2f} operations each.")
    for note in _notes(found):
        print_note(note)


def _cells(row: CostRow, found: Cost) -> list[str]:
    day, stored = row.day, row.stored
    figures = [f"{n:,}" for n in (day.reads, day.writes, day.deletes + day.expiring)]
    money = [] if row.cost is None or found.prices is None else [f"{row.cost:,.4f} {found.prices.currency}"]
    return [row.name, *figures, *(("-", "-") if stored is None else _stored(stored)), *money]


def _stored(stored: Stored) -> tuple[str, str]:
    size, unit = float(stored.bytes + stored.index_bytes), 0
    while size >= _UNIT and unit < len(_UNITS) - 1:
        size, unit = size / _UNIT, unit + 1
    return f"{stored.documents:,}{'+' * stored.more}", f"{size:,.1f} {_UNITS[unit]}" if unit else f"{size:.0f} B"


def _notes(found: Cost) -> list[str]:
    notes = [
        "Deletes: those that were counted, and one for each document that was created to expire.",
        "Stored is an estimate: documents are counted, and 20 of each collection give their size and indexes.",
        "The free quota is not subtracted. Not in it: network, backups, commands that open Firestore themselves.",
    ]
    lost = found.unanswered_reads, found.unanswered_writes
    if any(lost):
        notes.append(
            f"Calls without an answer: {lost[0]:,} reads and {lost[1]:,} writes may have been billed too. They are "
            "not in it."
        )
    if found.unmeasured:
        names = ", ".join(found.unmeasured[:_NAMED_MAX]) + ", …" * (len(found.unmeasured) > _NAMED_MAX)
        notes.append(f"Not measured, so their storage is not in it: {names}.")
    if not found.kept:
        notes.append("HISTORY=off: these are the figures of one process since its start. Nothing is kept.")
    if not found.complete:
        notes.append("More instances ran than are read: the figures are too low.")
    if found.prices is None:
        notes.append(
            "No prices: set FIRESTORE_PRICES to those of your region, from Firestore's pricing page "
            "(https://cloud.google.com/firestore/pricing); docs/firestore.md has the form."
        )
    notes.append(f"This answer read {found.reads_for_this:,} documents.")
    return notes
