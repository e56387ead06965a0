"""`millpond load`: a load tester. It fills the server's store with made-up events, and measures the answers."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import click
import msgspec
import uvloop

from millpond.cli import exit_codes
from millpond.cli.options import example, json_option, load_settings, server_option, store_option
from millpond.cli.output import Advance, Column, print_json, print_line, print_table, progress
from millpond.cli.push_bodies import encode_push, now_us
from millpond.cli.server import choose_server, push_path
from millpond.core import timestamps
from millpond.core.errors import Unreachable
from millpond.core.model import Delivery
from millpond.core.suggest import suggest
from millpond.http_client import Address, Client, TimedOut
from millpond.settings import Settings

_DOCUMENTS = 100
Payload = dict[str, Any]
_STATUSES = (Column("answer"), Column("requests", right=True), Column("meaning"))
_FINE = {"200", "429"}


class Measures:
    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        # Of acknowledged requests only: refusals are fast, and would make the latency look better.
        self.latencies_s: list[float] = []
        self.seconds = 0.0

    @property
    def failed(self) -> bool:
        return not self.answers.keys() <= _FINE

    def as_json(self) -> dict[str, Any]:
        total = sum(self.answers.values())
        acked = len(self.latencies_s)
        return {
            "requests": total,
            "answers": dict(sorted(self.answers.items())),
            "seconds": round(self.seconds, 3),
            "requestsPerSecond": round(total / self.seconds, 1),
            "ackedPerSecond": round(acked / self.seconds, 1),
            "latencyMs": _percentiles_ms(self.latencies_s),
        }


@click.command(
    epilog=example(
        "millpond serve --store sqlite:/tmp/load.db",
        "millpond load --store sqlite:/tmp/load.db --concurrency 200",
        "millpond load --url http://127.0.0.1:9000/pubsub/push",
    )
)
@server_option
@click.option(
    "--requests", type=click.IntRange(1, 10_000_000), default=2_000, show_default=True, help="Number of requests."
)
@click.option(
    "--concurrency", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Requests at once."
)
@click.option("--topic", default="system.events", show_default=True, help="A built-in topic; its events are sent.")
@click.option(
    "--subscription",
    default="projects/local/subscriptions/loadtest",
    show_default=True,
    help="Subscription that the messages name.",
)
@click.option(
    "--timeout", type=click.FloatRange(0.1, 600), default=30.0, show_default=True, help="Seconds for one request."
)
@click.option("--allow-remote", is_flag=True, help="Allow a URL that is not this machine.")
@store_option
@json_option
@click.pass_context
def load(
    ctx: click.Context,
    url: Address | None,
    requests: int,
    concurrency: int,
    topic: str,
    subscription: str,
    timeout: float,
    *,
    allow_remote: bool,
    as_json: bool,
) -> None:
    """Put a server under load and measure its answers.

    Sends valid, unique events for 100 documents named load-… or LOAD…, as fast as the answers come: give the
    server a store of its own. Exits with 1 on anything but 200 and 429: 5xx, timeouts, failed connections.
    """
    settings = load_settings()
    known = _makers(settings)
    if topic not in known:
        raise click.UsageError(f"{topic!r} is no built-in topic: {suggest(topic, known)}", ctx)
    url = choose_server(settings, url).address
    if not url.is_loopback and not allow_remote:
        raise click.UsageError(f"{url.base} is not this machine: --allow-remote allows it", ctx)
    events = Events(known[topic], topic, subscription, uuid.uuid4().hex[:12])
    measures = uvloop.run(_run(url, events, requests, concurrency, timeout))
    summary = {"url": url.base + push_path(url), "topic": topic, "concurrency": concurrency, **measures.as_json()}
    if as_json:
        print_json(summary)
    else:
        _show(summary)
    ctx.exit(exit_codes.NEGATIVE if measures.failed else exit_codes.OK)


async def _run(url: Address, events: Events, requests: int, concurrency: int, timeout_s: float) -> Measures:
    client = Client(url, timeout_s=timeout_s)
    # One request before the measurement: if no server answers, there is nothing to measure.
    await client.request("GET", "/livez")
    measures = Measures()
    # Shared by all workers: a free one takes the next number.
    numbers = iter(range(requests))
    workers = min(concurrency, requests)
    started = time.perf_counter()
    with progress("Requests", requests) as advance:
        await asyncio.gather(*(_work(client, events, numbers, measures, advance) for _ in range(workers)))
    measures.seconds = time.perf_counter() - started
    client.close()
    return measures


async def _work(
    client: Client,
    events: Events,
    numbers: Iterator[int],
    measures: Measures,
    advance: Advance,
) -> None:
    path = push_path(client.address)
    for number in numbers:
        body = events.body(number)
        began = time.perf_counter()
        try:
            reply = await client.request("POST", path, body)
        except TimedOut:
            measures.answers["timeout"] += 1
        except Unreachable:
            measures.answers["connection_failed"] += 1
        else:
            measures.answers[str(reply.status)] += 1
            if reply.status == 200:
                measures.latencies_s.append(time.perf_counter() - began)
        advance(1)


def _percentiles_ms(latencies_s: list[float]) -> dict[str, float] | None:
    if not latencies_s:
        return None
    ordered = sorted(latencies_s)
    named = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[math.ceil(share * len(ordered)) - 1] * 1_000, 2) for name, share in named.items()}


def _show(summary: dict[str, Any]) -> None:
    print_table(_STATUSES, [(answer, count, _meaning(answer)) for answer, count in summary["answers"].items()])
    print_line(
        f"{summary['requests']} requests in {summary['seconds']:.2f} s, {summary['concurrency']} at once: "
        f"{summary['requestsPerSecond']:.0f} requests/s, {summary['ackedPerSecond']:.0f} acked/s"
    )
    print_line(f"sent to {summary['url']}")
    latency = summary["latencyMs"]
    if latency is not None:
        print_line("latency of acked requests: " + "  ".join(f"{name} {ms:.1f} ms" for name, ms in latency.items()))


def _meaning(answer: str) -> str:
    if answer == "200":
        return "acked: the store holds it"
    if answer == "429":
        return "backpressure: the queue was full; Pub/Sub would deliver it again"
    if answer.startswith("5"):
        return "transient failure, should be rare: too much pressure, or a bug"
    if answer == "timeout":
        return "no answer within --timeout"
    if answer == "connection_failed":
        return "connection refused or broken: the server is gone, or its backlog is full"
    return "refused: check that this is Millpond, and that it knows the topic"


def _system_event(number: int, at: str) -> Payload:
    service = f"load-{number % _DOCUMENTS:03d}"
    return {"service": service, "status": "ok", "version": "1.0.0", "region": "local", "timestamp": at}


def _heartbeat(number: int, at: str) -> Payload:
    return {"pipeline_id": f"load-{number % _DOCUMENTS:03d}", "status": "ok", "ts": at}


def _tick(number: int, at: str) -> Payload:
    price = 100 + number % 500 / 100
    return {"symbol": _symbol(number), "price": price, "bid": price, "ask": price, "size": 1, "timestamp": at}


def _bar(number: int, at: str) -> Payload:
    prices = {"open": 100.0, "high": 101.0, "low": 99.0, "close": 100.5, "volume": number}
    return {"symbol": _symbol(number), "ts": at, "timeframe": "1m", "producedAt": at, **prices}


def _signal(number: int, at: str) -> Payload:
    return {
        "signalId": f"load-{number % _DOCUMENTS:03d}",
        "strategyId": "load",
        "symbol": _symbol(number),
        "action": "buy" if number % 2 else "sell",
        "confidence": 0.5,
        "decisionAt": at,
    }


def _symbol(number: int) -> str:
    return f"LOAD{number % _DOCUMENTS:03d}"


def _makers(settings: Settings) -> dict[str, Callable[[int, str], Payload]]:
    """Topic → the function that makes one of its events."""
    return {
        settings.system_events_topic: _system_event,
        "ingest-heartbeat": _heartbeat,
        "market-ticks": _tick,
        "market-bars-1m": _bar,
        "trade-signals": _signal,
    }


class Events:
    """The push bodies of one run: valid, each one unique, spread over a hundred documents of the topic's view.

    `run` makes the ids of two runs against one store distinct.
    """

    def __init__(self, make: Callable[[int, str], Payload], topic: str, subscription: str, run: str) -> None:
        self._make = make
        self._topic = topic
        self._subscription = subscription
        self._run = run

    def body(self, number: int) -> bytes:
        at = now_us()
        message_id = f"load-{self._run}-{number}"
        payload = {**self._make(number, timestamps.to_text(at)), "eventId": message_id}
        return encode_push(
            Delivery(
                message_id=message_id,
                publish_time=at,
                data=msgspec.json.encode(payload),
                attributes={"topic": self._topic},
                subscription=self._subscription,
            )
        )
