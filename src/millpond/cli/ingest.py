"""`millpond ingest`: a file of messages, through the running server or, where none runs, into the store itself."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, BinaryIO, NamedTuple

import click
import uvloop

from millpond.cli import exits
from millpond.cli.address import Address, url_option
from millpond.cli.chunks import ChunkSource, read_chunks
from millpond.cli.http_client import Client
from millpond.cli.local import open_service, settled
from millpond.cli.messages import encode_push
from millpond.cli.options import example, json_option, load_settings, store_option, views_option
from millpond.cli.output import Advance, Column, print_json, print_line, print_note, print_table, progress
from millpond.cli.retry import patiently
from millpond.cli.server import answer_of, find_server, push_path
from millpond.core import timestamps
from millpond.core.errors import Poison
from millpond.core.model import Delivery
from millpond.ingress.files import FileLine, LineCutter, decode_lines
from millpond.settings import Settings

_TIMEOUT_S = 30.0
_FAULTS_MAX = 100
_NOTES_MAX = 20
_OUTCOMES = (Column("outcome"), Column("messages", right=True))
_FAILED = frozenset({"poison", "retry", "refused"})


class SentChunk(NamedTuple):
    outcome: str
    reason: str
    error: str = ""


Send = Callable[[Delivery], Awaitable[SentChunk]]


class IngestReport:
    """What became of the file so far."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.faults: list[dict[str, Any]] = []
        self.faulty = 0
        self.bad_lines = 0
        self._started = time.perf_counter()

    def bad_line(self, line: FileLine) -> None:
        self.bad_lines += 1
        self._fault(line.number, "bad_line", line.fault or "")

    def sent(self, number: int, sent: SentChunk) -> None:
        self.outcomes[sent.outcome] += 1
        if sent.outcome in _FAILED:
            self._fault(number, sent.outcome, f"{sent.reason}: {sent.error}" if sent.error else sent.reason)

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

    def _fault(self, number: int, kind: str, text: str) -> None:
        """The first of them in full; a file that is wrong throughout must not fill memory or the screen."""
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
    help="Messages under way at once.",
)
@click.option("--publish-time", metavar="TIME", help="RFC 3339 publish time of lines that have none.")
@url_option(None, "Server; by default the one that holds the store, else no server at all.")
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
    attributes and messageId if you like. The id that is not given is a hash of the line and its number, so the
    same file again changes nothing. Lines that cannot be read are reported and skipped.

    Exits with 1 where a line was bad or a message poison, with 3 where the server went away.
    """
    try:
        default_time = timestamps.parse(publish_time, "--publish-time") if publish_time else None
    except Poison as error:
        raise click.UsageError(str(error), ctx) from None
    settings = load_settings()
    address = url or find_server(settings)
    report = IngestReport()
    uvloop.run(_ingest(settings, address, ChunkSource(file), default_time, concurrency, report))
    summary = report.as_json(address.base if address else settings.store)
    if as_json:
        print_json(summary)
    else:
        _show(summary)
        if report.outcomes["poison"] and settings.poison_policy != "native":
            print_note("What was poison lies in the letters: millpond dlq list")
    ctx.exit(exits.NEGATIVE if report.faulty else exits.OK)


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
    address: Address | None,
    source: ChunkSource,
    default_time: int | None,
    concurrency: int,
    report: IngestReport,
) -> None:
    async with _sender(settings, address, concurrency) as send:
        with progress("Ingesting", source.size) as advance:
            try:
                await _send_all(send, source, default_time, concurrency, report, advance)
            except BaseExceptionGroup as group:
                # The first failure stopped the rest; one line is enough for all of them.
                raise _first(group) from None


async def _send_all(
    send: Send,
    source: ChunkSource,
    default_time: int | None,
    concurrency: int,
    report: IngestReport,
    advance: Advance,
) -> None:
    slots = asyncio.Semaphore(concurrency)

    async def one(number: int, delivery: Delivery) -> None:
        try:
            report.sent(number, await send(delivery))
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


@contextlib.asynccontextmanager
async def _sender(settings: Settings, address: Address | None, concurrency: int) -> AsyncIterator[Send]:
    if address is None:
        async with open_service(settings, concurrency) as service:

            async def handle(delivery: Delivery) -> SentChunk:
                result = await settled(lambda: service.engine.handle(delivery))
                error = "" if result.error is None else str(result.error)
                return SentChunk(str(result.outcome), result.reason, error)

            yield handle
        return
    client = Client(address, timeout_s=_TIMEOUT_S)
    path = push_path(address)
    # A server that was never there is said at once; only one that goes away later is waited for.
    await client.request("GET", "/livez")

    async def post(delivery: Delivery) -> SentChunk:
        body = encode_push(delivery)
        reply = await patiently(lambda: client.request("POST", path, body))
        answer = answer_of(reply)
        texts = [str(answer.get(name, "")) for name in ("outcome", "reason", "error")]
        return SentChunk(texts[0] or "refused", *texts[1:])

    try:
        yield post
    finally:
        client.close()


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, exits.Unreachable):
        return exits.Unreachable(f"{error}; what arrived stays, so run the same command again")
    return error
