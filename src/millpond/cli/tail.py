"""`millpond tail`: prints the outcome of each message as the running server decides it. Reads its stream only."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import click

from millpond.cli.escape import clean
from millpond.cli.options import example, load_settings, server_option, store_option
from millpond.cli.output import print_coloured, print_line, print_note
from millpond.cli.server import admin_headers, choose_server, token_refused
from millpond.core.errors import Unreachable
from millpond.core.model import Outcome
from millpond.core.timestamps import RFC3339
from millpond.http_client import Address
from millpond.settings import Settings
from millpond.sse_client import ServerSentEvent, StreamRefused, follow

_PATH = "/api/tail"
_PAUSE_FIRST_S = 1.0
_PAUSE_MAX_S = 10.0
_COLOURS: dict[str, str] = {
    Outcome.APPLIED: "green",
    Outcome.POISON: "red",
    Outcome.RETRY: "red",
    Outcome.STALE: "yellow",
    Outcome.TOO_OLD: "yellow",
}
_OUTCOME_WIDTH = max(len(outcome) for outcome in Outcome)
_TOPIC_WIDTH = 16


@click.command(
    epilog=example(
        "millpond tail",
        "millpond tail --outcome poison --outcome retry",
        "millpond tail --topic market-ticks --json | jq .latencyMs",
    )
)
@click.option("--topic", "topics", metavar="TOPIC", multiple=True, help="Only messages of this topic; repeatable.")
@click.option("--view", "views", metavar="VIEW", multiple=True, help="Only messages of this view; repeatable.")
@click.option(
    "--outcome",
    "outcomes",
    type=click.Choice([str(outcome) for outcome in Outcome]),
    metavar="OUTCOME",
    multiple=True,
    help="Only messages with this outcome: " + ", ".join(Outcome) + "; repeatable.",
)
@click.option("--limit", type=click.IntRange(1), help="End after this many messages.")
@server_option
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document a line instead of text.")
def tail(
    topics: tuple[str, ...],
    views: tuple[str, ...],
    outcomes: tuple[str, ...],
    limit: int | None,
    url: Address | None,
    *,
    as_json: bool,
) -> None:
    """Monitor what becomes of messages as they arrive.

    One line for each: time, outcome, topic, message id, documents, the reason if the outcome does not imply it, and
    the latency. Values of one option are alternatives; different options must all match. The command waits for a
    server that restarts. Ends with Ctrl-C, or after --limit; exits with 3 if there is no server at the start.
    """
    asked = [("topic", topic) for topic in topics]
    asked += [("view", view) for view in views]
    asked += [("outcome", outcome) for outcome in outcomes]
    path = _PATH + (f"?{urlencode(asked)}" if asked else "")
    asyncio.run(_Tail(load_settings(), url, path, limit, as_json=as_json).run())


class _Foreign(Unreachable):
    """The server at this URL is not Millpond: a retry does not help."""


class _Tail:
    def __init__(
        self, settings: Settings, url: Address | None, path: str, limit: int | None, *, as_json: bool
    ) -> None:
        self._settings = settings
        self._url = url
        self._path = path
        self._left = limit
        self._as_json = as_json
        self._headers = admin_headers(settings)
        self._seen_server = self._waiting = False
        # If set, only the store's next holder continues the stream: a server at HOST and PORT may hold another.
        self._by_lock = False

    async def run(self) -> None:
        """Run until --limit is reached. Raises Unreachable if there is no server at the start."""
        pause_s = _PAUSE_FIRST_S
        while True:
            try:
                await self._follow()
            except StreamRefused as error:
                if error.status not in {429, 503}:
                    raise self._explained(error) from None
                lost: Unreachable = error
            except _Foreign:
                raise
            except Unreachable as error:
                lost = error
            else:
                return
            if not self._seen_server:
                raise lost
            if not self._waiting:
                self._waiting = True
                pause_s = _PAUSE_FIRST_S
                print_note(f"{lost}: waiting for the server to come back")
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s + 1, _PAUSE_MAX_S)

    async def _follow(self) -> None:
        # Chosen again each time: a restarted server may have another port.
        server = choose_server(self._settings, self._url)
        if self._by_lock and not server.holds_store:
            raise Unreachable(f"no server holds {self._settings.store}")
        address = server.address
        async with contextlib.aclosing(follow(address, self._path, self._headers)) as messages:
            async for message in messages:
                if message is None:
                    self._by_lock = server.holds_store
                    self._begun(address)
                elif message.event == "skipped":
                    print_note(f"{_decoded(message).get('n')} outcomes were dropped: they arrived too fast")
                elif message.event == "outcome":
                    self._show(_decoded(message))
                    if self._left is not None:
                        self._left -= 1
                        if self._left == 0:
                            return

    def _explained(self, error: StreamRefused) -> Exception:
        if error.status == 401:
            return token_refused(self._settings, error.base)
        if error.status == 404:
            return Unreachable(f"{error}; its Millpond is older than this command, or --url names another service")
        return error

    def _begun(self, address: Address) -> None:
        if self._waiting:
            print_note(f"The server is back at {address.base}; messages of the interruption are not shown")
        elif not self._seen_server:
            print_note(f"Watching {address.base}; Ctrl-C ends it")
        self._seen_server, self._waiting = True, False

    def _show(self, outcome: dict[str, Any]) -> None:
        if self._as_json:
            # json.dumps writes ASCII only, with control characters as escapes.
            print_line(json.dumps(outcome))
        else:
            before, word, after = line_of(outcome)
            print_coloured((before, None), (word, _COLOURS.get(word.strip())), (after, None))


def line_of(outcome: Mapping[str, Any]) -> tuple[str, str, str]:
    """The text before the outcome, the outcome itself, and the text after it."""
    at = str(outcome.get("at"))
    time = at[11:23].rstrip("Z") if RFC3339.fullmatch(at) else clean(at)
    word = clean(str(outcome.get("outcome")))
    reason, error = outcome.get("reason"), outcome.get("error")
    docs = [str(view.get("doc")) for view in _views(outcome) if view.get("doc")]
    parts = [
        clean(str(outcome.get("topic") or "-")).ljust(_TOPIC_WIDTH),
        clean(str(outcome.get("messageId") or "-")),
        *([", ".join(map(clean, docs))] if docs else []),
        *([f"({clean(str(reason))})"] if reason and reason != word else []),
        *([clean(str(error))] if error else []),
    ]
    took = outcome.get("latencyMs")
    if isinstance(took, int | float):
        parts.append(f"{took:.1f} ms")
    return f"{time.ljust(12)}  ", word.ljust(_OUTCOME_WIDTH), "  " + "  ".join(parts)


def _views(outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
    views = outcome.get("views")
    return [view for view in views if isinstance(view, dict)] if isinstance(views, list) else []


def _decoded(message: ServerSentEvent) -> dict[str, Any]:
    try:
        value = json.loads(message.data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _Foreign("the server sent an event that is not a JSON object: it is not Millpond")
    return value
