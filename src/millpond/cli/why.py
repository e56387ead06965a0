"""`millpond why`: explains what became of a message, with the parts of both stamps. Reads only."""

from __future__ import annotations

import asyncio
import shlex
from typing import Any, NamedTuple

import click
import msgspec

from millpond.cli import exit_codes
from millpond.cli.escape import clean
from millpond.cli.options import example, json_option, load_settings, read_url_option, store_option
from millpond.cli.output import Column, print_facts, print_json, print_line, print_table, stamp_parts, verdict
from millpond.cli.reading import open_reader
from millpond.core.model import Outcome, Ref
from millpond.http_client import Address
from millpond.settings import Settings

_STAMPS = tuple(Column(title) for title in ("", "event time", "sequence", "published", "message"))
# The fields that each stamp gave to a merged document: document path → stamp → names.
Holdings = dict[str, dict[str, list[str]]]


@click.command(
    epilog=example(
        "millpond why hello-1767873296000000", "millpond why order-17 --url http://127.0.0.1:8080 --json"
    )
)
@click.argument("any_id", metavar="ID")
@read_url_option
@store_option
@json_option
@click.pass_context
def why(ctx: click.Context, any_id: str, url: Address | None, *, as_json: bool) -> None:
    """Show what became of a message or event, and which message won.

    ID is a message id or an event id. For each view: the outcome, the stamp of the message, the stamp that the
    document has now, and the message it belongs to. A stamp is event time, sequence, publish time and message id;
    the greatest wins. With --url it asks that server instead of reading the store.
    Exits with 1 if there is no record of the ID.
    """
    settings = load_settings()
    asked = asyncio.run(_ask(settings, url, any_id))
    if asked.story is None:
        text = f"there is no record of {any_id}"
        if as_json:
            print_json({"reason": "not_found", "error": text})
            ctx.exit(exit_codes.NEGATIVE)
        raise exit_codes.NegativeAnswer(f"{text}: {asked.hint}")
    if as_json:
        print_json(asked.story)
        return
    for number, message in enumerate(asked.story["messages"]):
        if number:
            print_line()
        _print(message, asked)


class _Asked(NamedTuple):
    """What became of the message, or None with a hint; and what hints to other commands need."""

    story: dict[str, Any] | None
    holdings: Holdings
    hint: str
    options: str


async def _ask(settings: Settings, url: Address | None, any_id: str) -> _Asked:
    async with open_reader(settings, url) as reader:
        story = msgspec.to_builtins(await reader.why(any_id))
        if story is None:
            off = url is None and not settings.event_log
            hint = "EVENT_LOG is off" if off else "it may not have arrived, or its entry has expired"
            return _Asked(None, {}, hint + await reader.hint(), reader.options)
        paths = {view["doc"] for message in story["messages"] for view in message["views"]}
        holdings: Holdings = {}
        for ref in (Ref(*path.rsplit("/", 1)) for path in sorted(paths) if "/" in path):
            document = await reader.document(ref)
            source = document.data.get("source") if document is not None else None
            groups = source.get("stamps") if isinstance(source, dict) else None
            if isinstance(groups, list):
                holdings[ref.path] = {group["stamp"]: group["fields"] for group in groups}
        return _Asked(story, holdings, "", reader.options)


def _print(message: dict[str, Any], asked: _Asked) -> None:
    print_line(f"Message {clean(message['messageId'])}: {verdict(message['outcome'], message['reason'])}")
    print_facts(
        [
            ("event id", message["eventId"]),
            ("topic", message["topic"] or None),
            ("subscription", message["subscription"] or None),
            ("published", message["publishTime"]),
            ("arrived", message["arrivedAt"]),
        ],
        indent="  ",
    )
    if message["letter"] is not None:
        shown = shlex.quote(clean(message["letter"]))
        print_line(f"  It is a dead letter: millpond dlq show {shown}{asked.options}")
    for view in message["views"]:
        print_line()
        place = f", {clean(view['doc'])}" if view["doc"] else ""
        payload = ", with the corrected payload" if view["corrected"] else ""
        print_line(f"View {clean(view['view'])}: {verdict(view['outcome'], view['reason'])}{place}{payload}")
        if view["doc"]:
            winner = view["winner"]["stamp"]
            rows = [("this message", *stamp_parts(view["stamp"])), ("document now", *stamp_parts(winner))]
            print_table(_STAMPS, rows)
        print_line(_who_won(view, message["messageId"], asked.holdings.get(view["doc"])))


def _who_won(view: dict[str, Any], message_id: str, held: dict[str, list[str]] | None) -> str:
    winner = view["winner"]
    if view["outcome"] == Outcome.TOO_OLD:
        return "It arrived later than this view allows, and changed nothing."
    if view["outcome"] == Outcome.FILTERED:
        return "This view filters it out, and nothing changed."
    if view["outcome"] == Outcome.POISON:
        return "This view refused it, and nothing changed. The letter waits for a replay."
    if view["outcome"] == Outcome.RETRY:
        return "This view failed on it. It is asked again with the next delivery."
    if winner["stamp"] is None:
        return (
            "There is no document, or it has no stamp: it was deleted, has expired, or Millpond did not write it."
        )
    other = clean(winner["messageId"] or "unknown")
    if held is not None:
        # A merged document has fields of several messages, not only of the one with the greatest stamp.
        mine = ", ".join(map(clean, held.get(view["stamp"] or "", [])))
        fields = f"it gave the fields {mine}" if mine else "none of the fields are its"
        return f"It won: {fields}." if view["won"] else f"Message {other} has the greater stamp; {fields}."
    if view["won"]:
        return "It won: the document holds what this message says."
    if winner["messageId"] == message_id:
        return "The document holds a later copy of the same message."
    return f"It lost: the document holds message {other}, whose stamp is greater."
