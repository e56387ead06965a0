"""`millpond ingest`: sends a file of messages through `backend`: the running server, or the store if none runs."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, BinaryIO

import click
import uvloop

from millpond.cli import exit_codes
from millpond.cli.backend import Answer, Backend, open_backend
from millpond.cli.escape import clean_block
from millpond.cli.options import example, json_option, load_settings, store_option, url_option, views_option
from millpond.cli.output import Advance, Column, print_json, print_line, print_note, print_table, progress
from millpond.core import timestamps
from millpond.core.errors import Poison, Unreachable
from millpond.core.model import Delivery
from millpond.http_client import Address
from millpond.ingress.files import FileLine, LineCutter, decode_lines
from millpond.settings import Settings

_CHUNK_BYTES = 256 * 1024
_FAULTS_MAX = 100
_NOTES_MAX = 20
_TRACES_MAX = 5
_OUTCOMES = (Column("outcome"), Column("messages", right=True))
_FAILED = frozenset({"poison", "retry", "refused"})


class IngestReport:
    """What became of the file so far."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.faults: list[dict[str, Any]] = []
        self.faulty = 0
        self.bad_lines = 0
        # Tracebacks that were printed, without the last line: it may quote the message.
        self._traces: set[str] = set()
        self._started = time.perf_counter()

    def bad_line(self, line: FileLine) -> None:
        self.bad_lines += 1
        self._fault(line.number, "bad_line", line.fault or "")

    def sent(self, number: int, answer: Answer) -> None:
        outcome, reason, error = (str(answer.get(name, "")) for name in ("outcome", "reason", "error"))
        self.outcomes[outcome] += 1
        if outcome in _FAILED:
            self._fault(number, outcome, f"{reason}: {error}" if error else reason)
            self._show_trace(str(answer.get("trace") or ""))

    def as_json(self, through: str) -> dict[str, Any]:
        messages = sum(self.outcomes.values())
        seconds = time.perf_counter() - self._started
        return {
            "through": through,
            "messages": messages,
            "badLines": self.bad_lines,
            "outcomes": dict(self.outcomes),
            "seconds": round(seconds, 3),
            "messagesPerSecond": round(messages / seconds, 1) if seconds > 0 else 0.0,
            "faults": self.faults,
        }

    def _show_trace(self, trace: str) -> None:
        """Print a view's traceback below the first message that has it: a bug usually hits many messages."""
        place = trace.rpartition("\n")[0]
        if trace and place not in self._traces and len(self._traces) < _TRACES_MAX:
            self._traces.add(place)
            click.echo(clean_block(trace), err=True)

    def _fault(self, number: int, kind: str, text: str) -> None:
        """Keep the first faults only: a file that is wrong throughout must not fill memory or the screen."""
        self.faulty += 1
        if len(self.faults) < _FAULTS_MAX:
            self.faults.append({"line": number, "kind": kind, "error": text})
        if self.faulty <= _NOTES_MAX:
            print_note(f"line {number}: {kind.replace('_', ' ')}: {text}")
        elif self.faulty == _NOTES_MAX + 1:
            print_note("… further faults are only counted")


@click.command(epilog=example("millpond ingest day.jsonl", "zcat day.jsonl.gz | millpond ingest -"))
@click.argument("file", type=click.File("rb"))
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    default=64,
    show_default=True,
    help="Messages at once.",
)
@click.option("--publish-time", metavar="TIME", help="RFC 3339 publish time of lines that have none.")
@url_option(None, "The server; by default the one that holds the store. If none does, no server is needed.")
@store_option
@views_option
@json_option
@click.pass_context
def ingest(
    ctx: click.Context,
    file: BinaryIO,
    concurrency: int,
    publish_time: str | None,
    url: Address | None,
    *,
    as_json: bool,
) -> None:
    """Feed a file of messages, one JSON object a line.

    A line is a push body ({"message": {…}, "subscription": …}) or {"topic": …, "data": {…}, "publishTime": …} with
    optional attributes and messageId. A missing id is a hash of the line and its number, so ingesting the same file
    again changes nothing. Lines that cannot be read are reported and skipped.

    Exits with 1 if a line was bad or a message poison, with 3 if the server ended.
    """
    try:
        default_time = timestamps.parse(publish_time, "--publish-time") if publish_time else None
    except Poison as error:
        raise click.UsageError(str(error), ctx) from None
    settings = load_settings()
    report = IngestReport()
    through = uvloop.run(_ingest(settings, url, ChunkSource(file), default_time, concurrency, report))
    summary = report.as_json(through)
    if as_json:
        print_json(summary)
    else:
        _show(summary)
        if report.outcomes["poison"] and settings.poison_policy != "native":
            print_note("Poison messages are dead letters now: millpond dlq list")
    ctx.exit(exit_codes.NEGATIVE if report.faulty else exit_codes.OK)


def _show(summary: dict[str, Any]) -> None:
    rows = sorted(summary["outcomes"].items(), key=lambda item: -item[1])
    if summary["badLines"]:
        rows.append(("(bad lines)", summary["badLines"]))
    if rows:
        print_table(_OUTCOMES, rows)
    rate = f"{summary['messagesPerSecond']:.0f} messages/s"
    print_line(f"{summary['messages']} messages in {summary['seconds']:.2f} s through {summary['through']}, {rate}")


async def _ingest(
    settings: Settings,
    url: Address | None,
    source: ChunkSource,
    default_time: int | None,
    concurrency: int,
    report: IngestReport,
) -> str:
    """Send all messages. Returns the server's URL, or the store."""
    async with open_backend(settings, url, concurrency) as backend:
        await backend.reach()
        with progress("Ingesting", source.size, backend.pace) as advance:
            try:
                await send_all(backend, source, default_time, concurrency, report, advance)
            except BaseExceptionGroup as group:
                # The first failure cancelled the others: report that one only.
                raise _first(group) from None
        return backend.name


async def send_all(
    backend: Backend,
    source: ChunkSource,
    default_time: int | None,
    concurrency: int,
    report: IngestReport,
    advance: Advance,
) -> None:
    """Send every message of the source, so many at once, each in its turn."""
    slots = asyncio.Semaphore(concurrency)

    async def one(number: int, delivery: Delivery) -> None:
        try:
            report.sent(number, await backend.deliver(delivery))
        finally:
            slots.release()

    async with asyncio.TaskGroup() as tasks:
        async for line in _lines(source, default_time, advance):
            if line.delivery is None:
                report.bad_line(line)
                continue
            await slots.acquire()
            tasks.create_task(one(line.number, line.delivery))


async def _lines(source: ChunkSource, default_time: int | None, advance: Advance) -> AsyncIterator[FileLine]:
    cutter = LineCutter()
    number = 1
    async for chunk in read_chunks(source):
        lines = cutter.feed(chunk) if chunk else cutter.end()
        for line in decode_lines(lines, first=number, publish_time=default_time):
            yield line
        number += len(lines)
        advance(len(chunk))


class ChunkSource:
    """The input. `size` is known for files on disk only."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        status = os.fstat(file.fileno())
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        # Files on disk are always ready; a read from a pipe may block.
        self.may_wait = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode) or file.isatty()


async def read_chunks(source: ChunkSource) -> AsyncIterator[bytes]:
    """Every chunk, then an empty one."""
    if not source.may_wait:
        while chunk := source.file.read(_CHUNK_BYTES):
            yield chunk
            await asyncio.sleep(0)
        yield b""
        return
    reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source.file)
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            yield chunk
        yield b""
    finally:
        transport.close()


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, Unreachable):
        return Unreachable(f"{error}; messages already sent are kept: run the same command again")
    return error
