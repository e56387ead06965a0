"""Prints the output of commands: tables on a terminal, aligned text elsewhere, JSON if asked for.

Text from messages is never trusted: characters that are not printable are written as escapes, so that no payload
can move the cursor, change colours or fake a line. rich is imported only for a terminal. Called by every command.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from millpond.cli.escape import clean
from millpond.core import timestamps
from millpond.core.stamp import decode_stamp

if TYPE_CHECKING:
    from millpond.engine.pace import Pace

_NOT_PRINTABLE = re.compile(r"[^ -~\n]")
_CLIP_CHARS = 100
Advance = Callable[[int], None]


class Column(NamedTuple):
    title: str
    right: bool = False
    # A preview: shortened to what fits instead of wrapped.
    clip: bool = False


def print_line(text: str = "") -> None:
    click.echo(text)


def print_coloured(*parts: tuple[str, str | None]) -> None:
    """One line of (text, colour) parts. Without a terminal, or with NO_COLOR, only the text is printed."""
    text = "".join(click.style(text, fg=colour) if colour else text for text, colour in parts)
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)


def print_note(text: str) -> None:
    """A line on standard error, for people: it is not part of the output."""
    click.echo(clean(text), err=True)


def print_error(text: str) -> None:
    click.echo(f"millpond: {clean(text)}", err=True)


def print_json(value: Any) -> None:
    """One JSON document. Numbers, times and bytes have the format of the HTTP API."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    click.echo(_NOT_PRINTABLE.sub(_escaped, text))


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> None:
    cells = [[cell(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _tables().print_table(columns, cells)
        return
    cells = [
        [_clipped(text) if column.clip else text for column, text in zip(columns, row, strict=True)]
        for row in cells
    ]
    titles = [column.title.upper() for column in columns]
    widths = [max(map(len, texts)) for texts in zip(titles, *cells, strict=True)]
    for row in (titles, *cells):
        parts = [
            text.rjust(width) if column.right else text.ljust(width)
            for column, text, width in zip(columns, row, widths, strict=True)
        ]
        print_line("  ".join(parts).rstrip())


def print_facts(facts: Sequence[tuple[str, Any]], indent: str = "") -> None:
    """Names and values in two aligned columns."""
    width = max((len(clean(name)) for name, _ in facts), default=0)
    for name, value in facts:
        print_line(f"{indent}{clean(name).ljust(width)}  {cell(value)}".rstrip())


def cell(value: Any) -> str:
    """One value as text: as in JSON, without quotes."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float):
        return f"{value:g}" if value == round(value, 3) else f"{value!r}"
    return clean(msgspec.json.encode(value).decode())


def verdict(outcome: Any, reason: Any) -> str:
    """`poison (invalid_event)`; the reason only if it differs from the outcome."""
    return clean(f"{outcome}" if not reason or outcome == reason else f"{outcome} ({reason})")


def stamp_parts(stamp: str | None) -> tuple[str, str, str, str]:
    """Event time, sequence, publish time and message id, each as text; dashes if there is none."""
    if stamp is None:
        return ("-", "-", "-", "-")
    try:
        parts = decode_stamp(stamp)
    except ValueError:
        return (stamp, "-", "-", "-")
    sequence = "-" if parts.sequence is None else str(parts.sequence)
    return timestamps.to_text(parts.event_time), sequence, timestamps.to_text(parts.publish_time), parts.message_id


def stamp_cell(stamp: str | None) -> str | None:
    """A stamp in one cell: event time, sequence and message id."""
    if stamp is None:
        return None
    event_time, sequence, _, message_id = stamp_parts(stamp)
    return f"{event_time} {message_id}" if sequence == "-" else f"{event_time} #{sequence} {message_id}"


@contextlib.contextmanager
def progress(label: str, total: int | None, pace: Pace | None = None) -> Iterator[Advance]:
    """A progress bar on standard error if that is a terminal; otherwise nothing.

    Beside it: how fast bulk work is, and why not faster, if it has a pace.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with _tables().progress(label, total, lambda: "" if pace is None else pace.text) as advance:
        yield advance


def _tables() -> Any:
    from millpond.cli import tables  # noqa: PLC0415 - rich takes longer to load than most commands to run

    return tables


def _clipped(text: str) -> str:
    return text if len(text) <= _CLIP_CHARS else text[: _CLIP_CHARS - 1] + "…"


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    return char if char.isprintable() else json.dumps(char)[1:-1]
