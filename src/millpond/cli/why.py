"""`millpond why`: explains what became of a message, with the parts of both stamps. Reads the store only."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from millpond.cli import exit_codes
from millpond.cli.escape import clean
from millpond.cli.options import example, json_option, load_settings, store_option
from millpond.cli.output import Column, print_facts, print_json, print_line, print_table, stamp_parts, verdict
from millpond.cli.store import open_for_reading
from millpond.core.model import Outcome, Ref
from millpond.reprocess.why import explain
from millpond.settings import Settings

_STAMPS = tuple(Column(title) for title in ("", "event time", "sequence", "published", "message"))
# The fields that each stamp gave to a merged document: document path → stamp → names.
Holdings = dict[str, dict[str, list[str]]]


@click.command(epilog=example("millpond why hello-1767873296000000", "millpond why order-17 --json"))
@click.argument("any_id", metavar="ID")
@store_option
@json_option
@click.pass_context
def why(ctx: click.Context, any_id: str, *, as_json: bool) -> None:
    """Show what became of a message or event, and which message won.

    ID is a message id or an event id. For each view: the outcome, the message's stamp (its place in the order),
    the stamp that the document has now, and the message it belongs to. Exits with 1 if the store has no record of
    the ID.
    """
    settings = load_settings()
    story, holdings = asyncio.run(_ask(settings, any_id))
    if story is None:
        text = f"there is no record of {any_id}"
        if as_json:
            print_json({"reason": "not_found", "error": text})
            ctx.exit(exit_codes.NEGATIVE)
        hint = "it may not have arrived, or its entry has expired" if settings.event_log else "EVENT_LOG is off"
        raise exit_codes.NegativeAnswer(f"{text}: {hint}")
    if as_json:
        print_json(story)
        return
    for number, message in enumerate(story["messages"]):
        if number:
            print_line()
        _print(message, holdings)


async def _ask(settings: Settings, any_id: str) -> tuple[dict[str, Any] | None, Holdings]:
    async with open_for_reading(settings) as store:
        story = msgspec.to_builtins(await explain(store, any_id))
        paths = {view["doc"] for message in (story or {}).get("messages", ()) for view in message["views"]}
        refs = [Ref(*path.rsplit("/", 1)) for path in paths if path]
        holdings: Holdings = {}
        for snapshot in await store.read(refs):
            source = (snapshot.data or {}).get("source")
            groups = source.get("stamps") if isinstance(source, dict) else None
            if isinstance(groups, list):
                holdings[snapshot.ref.path] = {group["stamp"]: group["fields"] for group in groups}
        return story, holdings


def _print(message: dict[str, Any], holdings: Holdings) -> None:
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
        print_line(f"  It was buried: millpond dlq show {clean(message['letter'])}")
    for view in message["views"]:
        print_line()
        place = f", {clean(view['doc'])}" if view["doc"] else ""
        payload = ", with the corrected payload" if view["corrected"] else ""
        print_line(f"View {clean(view['view'])}: {verdict(view['outcome'], view['reason'])}{place}{payload}")
        if view["doc"]:
            winner = view["winner"]["stamp"]
            rows = [("this message", *stamp_parts(view["stamp"])), ("document now", *stamp_parts(winner))]
            print_table(_STAMPS, rows)
        print_line(_who_won(view, message["messageId"], holdings.get(view["doc"])))


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
