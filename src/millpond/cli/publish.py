"""`millpond publish`: pushes one message to the running server, as Pub/Sub would. Never opens the store."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Collection
from typing import Any, BinaryIO

import click
import msgspec

from millpond.cli import exit_codes
from millpond.cli.escape import clean, clean_block
from millpond.cli.options import example, json_option, load_settings, server_option, store_option
from millpond.cli.output import Column, print_json, print_line, print_table, verdict
from millpond.cli.push_bodies import encode_push, new_message_id, now_us
from millpond.cli.server import choose_server, push_path
from millpond.core import timestamps
from millpond.core.decode import checked_message_id
from millpond.core.errors import Poison, UsageError
from millpond.core.model import Delivery, Outcome
from millpond.core.shards import ATTRIBUTE, SHARDS_MAX, shard_of
from millpond.dead_letters.filter import SETTLING_OUTCOMES
from millpond.dead_letters.store import letter_ref
from millpond.http_client import Address, Client, Reply

_TIMEOUT_S = 30.0
_VIEWS = (Column("view"), Column("document"), Column("outcome"), Column("reason"))


@click.command(
    epilog=example(
        """millpond publish --topic system.events --data '{"service": "api", "status": "ok"}'""",
        "millpond publish --topic market-ticks tick.json",
        "jq -c .order day.json | millpond publish --topic orders -",
        "millpond publish --topic market-ticks tick.json --shards 8 --shard-key AAPL",
    )
)
@click.option("--topic", required=True, help="Topic, sent as attributes.topic.")
@click.argument("file", type=click.File("rb"), required=False)
@click.option("--data", metavar="JSON", help="The message's data, instead of a FILE (- is standard input).")
@click.option("--raw", is_flag=True, help="Send the data as it is, even if it is not JSON.")
@click.option("--attribute", "attributes", metavar="NAME=VALUE", multiple=True, help="An attribute; repeatable.")
@click.option(
    "--shards",
    type=click.IntRange(1, SHARDS_MAX),
    metavar="N",
    help="Add the attribute shard, as a producer for N shards does; with --shard-key.",
)
@click.option(
    "--shard-key",
    metavar="KEY",
    help="Key whose shard it is: the same text for all messages of one document.",
)
@click.option("--message-id", metavar="ID", help="Message id; a new one by default. A repeated id is a duplicate.")
@click.option("--event-id", metavar="ID", help="Put this eventId into the data.")
@click.option("--publish-time", metavar="TIME", help="RFC 3339 time of publication; now by default.")
@click.option(
    "--subscription",
    default="projects/local/subscriptions/cli",
    show_default=True,
    help="Subscription that the message names.",
)
@server_option
@store_option
@json_option
@click.pass_context
def publish(
    ctx: click.Context,
    topic: str,
    file: BinaryIO | None,
    data: str | None,
    attributes: tuple[str, ...],
    shards: int | None,
    shard_key: str | None,
    message_id: str | None,
    event_id: str | None,
    publish_time: str | None,
    subscription: str,
    url: Address | None,
    *,
    raw: bool,
    as_json: bool,
) -> None:
    """Send one message to the running server.

    Prints the server's answer, and which server it was. If a store is named, by --store or $STORE, only the server
    that holds it is used. Exits with 1 if the server refused the message or made it a dead letter (poison), with 3
    if no server answers.
    """
    shard = _shard(shards, shard_key)
    try:
        delivery = Delivery(
            message_id=checked_message_id(message_id) if message_id else new_message_id(),
            publish_time=timestamps.parse(publish_time, "--publish-time") if publish_time else now_us(),
            data=_payload(file, data, event_id, raw=raw),
            attributes={**_pairs(attributes, reserved=shard), **shard, "topic": topic},
            subscription=subscription,
        )
    except Poison as error:
        raise click.UsageError(str(error), ctx) from None
    server = choose_server(load_settings(), url)
    reply = asyncio.run(_send(server.address, encode_push(delivery)))
    ours = {"status": reply.status, "through": server.address.base, **shard}
    # Ours come first, and what the server says does not replace them.
    answer = {**ours, **reply.answer, **ours}
    if as_json:
        print_json(answer)
    else:
        _show(answer, delivery, server.options)
    settled = reply.status == 200 and str(answer.get("outcome")) in SETTLING_OUTCOMES
    ctx.exit(exit_codes.OK if settled else exit_codes.NEGATIVE)


async def _send(address: Address, body: bytes) -> Reply:
    client = Client(address, timeout_s=_TIMEOUT_S)
    try:
        return await client.request("POST", push_path(address), body)
    finally:
        client.close()


def _show(answer: dict[str, Any], delivery: Delivery, options: str) -> None:
    outcome = verdict(answer.get("outcome", "refused"), answer.get("reason"))
    message = clean(delivery.message_id)
    # Of the message, not of the answer: another service may answer with anything.
    shard = f", shard {clean(delivery.attributes[ATTRIBUTE])}" if ATTRIBUTE in delivery.attributes else ""
    print_line(f"{answer['status']} {outcome}, message {message}{shard}, through {answer['through']}")
    if "error" in answer:
        print_line(clean(str(answer["error"])))
        if answer.get("trace"):
            print_line(clean_block(str(answer["trace"])))
    views = answer.get("views")
    # Another service may answer with anything.
    rows = [view for view in views if isinstance(view, dict)] if isinstance(views, list) else []
    if rows:
        print_table(_VIEWS, [[view.get(name) for name in ("view", "doc", "outcome", "reason")] for view in rows])
    if answer["status"] == 200 and answer.get("outcome") == Outcome.POISON:
        shown = shlex.quote(clean(letter_ref(delivery).id))
        print_line(f"It is a dead letter now: millpond dlq show {shown}{options}")


def _payload(file: BinaryIO | None, data: str | None, event_id: str | None, *, raw: bool) -> bytes:
    context = click.get_current_context()
    if (file is None) == (data is None):
        raise click.UsageError("give the data either with --data JSON or in a FILE (- is standard input)", context)
    payload = file.read() if file is not None else (data or "").encode()
    if raw and event_id is None:
        return payload
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise click.UsageError(f"the data is not JSON: {error!s:.100}; --raw sends it anyway", context) from None
    if event_id is None:
        return payload
    if not isinstance(value, dict):
        raise click.UsageError("--event-id needs data that is a JSON object", context)
    return msgspec.json.encode({**value, "eventId": event_id})


def _shard(shards: int | None, key: str | None) -> dict[str, str]:
    """The attribute of the message's shard; none unless it is asked for."""
    context = click.get_current_context()
    if shards is None and key is None:
        return {}
    if shards is None or key is None:
        raise click.UsageError("give --shards N and --shard-key KEY together: the shard depends on both", context)
    try:
        return {ATTRIBUTE: shard_of(key, shards)}
    except UsageError as error:
        raise click.UsageError(f"--shard-key: {error}", context) from None


def _pairs(attributes: tuple[str, ...], reserved: Collection[str]) -> dict[str, str]:
    context = click.get_current_context()
    pairs = {}
    for text in attributes:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{text!r} must be NAME=VALUE", context)
        if name in reserved:
            raise click.UsageError(f"give the {name} either with --shards or with --attribute {name}=…", context)
        pairs[name] = value
    return pairs
