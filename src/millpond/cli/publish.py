"""`millpond publish`: pushes one message to the running server, as Pub/Sub would. Never opens the store."""

from __future__ import annotations

import asyncio
from typing import Any, BinaryIO

import click
import msgspec

from millpond.cli import exit_codes
from millpond.cli.escape import clean, clean_block
from millpond.cli.options import example, json_option, load_settings, store_option, url_option
from millpond.cli.output import Column, print_json, print_line, print_table, verdict
from millpond.cli.push_bodies import encode_push, new_message_id, now_us
from millpond.cli.server import guess_server, push_path
from millpond.core import timestamps
from millpond.core.decode import checked_message_id
from millpond.core.errors import Poison
from millpond.core.model import Delivery
from millpond.dead_letters.store import letter_ref
from millpond.http_client import Address, Client, Reply

_TIMEOUT_S = 30.0
_VIEWS = (Column("view"), Column("document"), Column("outcome"), Column("reason"))


@click.command(
    epilog=example(
        """millpond publish --topic system.events --data '{"service": "api", "status": "ok"}'""",
        "millpond publish --topic market-ticks tick.json",
        "jq -c .order day.json | millpond publish --topic orders -",
    )
)
@click.option("--topic", required=True, help="Topic, sent as attributes.topic.")
@click.argument("file", type=click.File("rb"), required=False)
@click.option("--data", metavar="JSON", help="The message's data, instead of a FILE (- is standard input).")
@click.option("--raw", is_flag=True, help="Send the data as it is, even if it is not JSON.")
@click.option("--attribute", "attributes", metavar="NAME=VALUE", multiple=True, help="An attribute; repeatable.")
@click.option("--message-id", metavar="ID", help="Message id; a new one by default. A repeated id is a duplicate.")
@click.option("--event-id", metavar="ID", help="Put this eventId into the data.")
@click.option("--publish-time", metavar="TIME", help="RFC 3339 time of publication; now by default.")
@click.option(
    "--subscription",
    default="projects/local/subscriptions/cli",
    show_default=True,
    help="Subscription that the message names.",
)
@url_option(None, "Server; by default the one that holds the store, else http://HOST:PORT.")
@store_option
@json_option
@click.pass_context
def publish(
    ctx: click.Context,
    topic: str,
    file: BinaryIO | None,
    data: str | None,
    attributes: tuple[str, ...],
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

    Prints the server's answer. Exits with 1 if it is not 200, with 3 if no server answers.
    """
    try:
        delivery = Delivery(
            message_id=checked_message_id(message_id) if message_id else new_message_id(),
            publish_time=timestamps.parse(publish_time, "--publish-time") if publish_time else now_us(),
            data=_payload(file, data, event_id, raw=raw),
            attributes={**_pairs(attributes), "topic": topic},
            subscription=subscription,
        )
    except Poison as error:
        raise click.UsageError(str(error), ctx) from None
    address = url or guess_server(load_settings())
    reply = asyncio.run(_send(address, encode_push(delivery)))
    answer = {"status": reply.status, **reply.answer}
    if as_json:
        print_json(answer)
    else:
        _show(answer, delivery)
    ctx.exit(exit_codes.OK if reply.status == 200 else exit_codes.NEGATIVE)


async def _send(address: Address, body: bytes) -> Reply:
    client = Client(address, timeout_s=_TIMEOUT_S)
    try:
        return await client.request("POST", push_path(address), body)
    finally:
        client.close()


def _show(answer: dict[str, Any], delivery: Delivery) -> None:
    outcome = verdict(answer.get("outcome", "refused"), answer.get("reason"))
    print_line(f"{answer['status']} {outcome}, message {clean(delivery.message_id)}")
    if "error" in answer:
        print_line(clean(str(answer["error"])))
        if answer.get("trace"):
            print_line(clean_block(str(answer["trace"])))
    views = answer.get("views") or []
    if views:
        print_table(_VIEWS, [[view.get(name) for name in ("view", "doc", "outcome", "reason")] for view in views])
    if "error" not in answer and answer.get("outcome") == "poison":
        print_line(f"It was buried: millpond dlq show {clean(letter_ref(delivery).id)}")


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


def _pairs(attributes: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in attributes:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{text!r} must be NAME=VALUE", click.get_current_context())
        pairs[name] = value
    return pairs
