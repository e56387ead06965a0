"""`make proof`, part memory: measures a server's resident memory under attack, on its default settings.

All attacks hit the same server, one after the other. Its memory must never exceed PEAK_MIB, and after each attack
it must be back within GROWTH_MIB of what it was at the start, within TRAFFIC_S of ordinary traffic.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from millpond.cli.output import Column, print_json, print_line, print_table
from proof.memory import attacks
from proof.memory.attacks import Unexpected
from tests.common.issuer import ACCOUNT, AUDIENCE, Issuer, good
from tests.common.memory import Memory
from tests.common.push import PUBLISHED, push_body
from tests.common.server import Server

PEAK_MIB = 350.0
GROWTH_MIB = 60.0
TRAFFIC_S = 10.0
UPLOADS, POISON, AT_ONCE = 500, 100, 200
_WARM = 2_000
_COLUMNS = (
    Column("attack"),
    Column("times", right=True),
    Column("start MiB", right=True),
    Column("peak MiB", right=True),
    Column("after MiB", right=True),
    Column("seconds", right=True),
    Column("held"),
)
Attack = Callable[[Server], Iterator[None]]


class Measured(NamedTuple):
    """One attack: memory before anything, at its highest, and after at most TRAFFIC_S of ordinary messages."""

    attack: str
    times: int
    start_mib: float
    peak_mib: float
    after_mib: float
    seconds: float
    fault: str

    @property
    def held(self) -> bool:
        return not self.fault and self.peak_mib <= PEAK_MIB and self.after_mib <= self.start_mib + GROWTH_MIB


def send_ordinary(server: Server, number: int, headers: dict[str, str]) -> None:
    payload = {"service": f"s{number % 50}", "status": "ok", "timestamp": PUBLISHED}
    answer = server.push(push_body(payload, message_id=f"ordinary-{number}-{time.monotonic_ns()}"), headers)
    if answer.status != 200:
        raise Unexpected(f"an ordinary message was answered {answer.status} {answer.json}")


def measure(
    server: Server, name: str, times: int, start_mib: float, attack: Attack, headers: dict[str, str]
) -> Measured:
    memory, began, fault = Memory(server.process.pid), time.monotonic(), ""
    memory.begin()
    try:
        for _ in attack(server):
            pass
        until = time.monotonic() + TRAFFIC_S
        number = 0
        while memory.now() > start_mib + GROWTH_MIB and time.monotonic() < until:
            send_ordinary(server, number := number + 1, headers)
    except (OSError, Unexpected, LookupError) as error:
        fault = f"{type(error).__name__}: {error}"
    seconds = round(time.monotonic() - began, 1)
    peak, after = round(memory.peak(), 1), round(memory.now(), 1)
    return Measured(name, times, round(start_mib, 1), peak, after, seconds, fault)


def attack_open(folder: Path, scale: float) -> Iterator[Measured]:
    """A server on its default settings: anything that reaches the port may push."""
    uploads, poison, at_once = (max(int(n * scale), 5) for n in (UPLOADS, POISON, AT_ONCE))
    with Server(folder) as server:
        start = warm_up(server, {})
        ids: list[str] = []

        def letters(act: Callable[[Server, Sequence[str]], Iterator[None]], server: Server) -> Iterator[None]:
            ids.extend(attacks.letter_ids(server, poison) if not ids else [])
            return act(server, ids)

        poisoned = partial(partial, attacks.push_poison, count=poison)
        for name, times, attack in (
            ("aborted uploads", uploads, partial(attacks.abort_uploads, count=uploads)),
            ("aborted uploads, Expect", uploads // 5, partial(attacks.abort_expecting, count=uploads // 5)),
            ("uploads at once", at_once, partial(attacks.upload_at_once, count=at_once)),
            ("unroutable, native", poison, poisoned(native=True)),
            ("invalid JSON, native", poison, poisoned(native=True, cut=True)),
            ("unroutable, buried", poison, poisoned()),
            ("invalid JSON, buried", poison, poisoned(cut=True)),
            ("letters replayed", poison, partial(letters, attacks.replay_letters)),
            ("letters previewed", poison, partial(letters, attacks.preview_letters)),
        ):
            yield measure(server, name, times, start, attack, {})


def attack_guarded(folder: Path, scale: float) -> Iterator[Measured]:
    """A server that asks for tokens; the attacker has none."""
    uploads, at_once = (max(int(n * scale), 5) for n in (UPLOADS, AT_ONCE))
    with Issuer() as issuer:
        settings = {"PUSH_AUDIENCE": AUDIENCE, "PUSH_SERVICE_ACCOUNT": ACCOUNT, "PUSH_CERTS_URL": issuer.url}
        token = {"authorization": good().decode()}
        with Server(folder, settings) as server:
            start = warm_up(server, token)
            for name, times, attack in (
                ("aborted uploads, no token", uploads, partial(attacks.abort_uploads, count=uploads)),
                ("uploads at once, no token", at_once, partial(attacks.upload_at_once, count=at_once)),
            ):
                yield measure(server, name, times, start, attack, token)


def warm_up(server: Server, headers: dict[str, str]) -> float:
    """The server's memory after some ordinary traffic."""
    for number in range(_WARM):
        send_ordinary(server, number, headers)
    return Memory(server.process.pid).now()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m proof.memory", description=__doc__.partition(":")[2])
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the attacks (default: 1)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    args = parser.parse_args(argv)
    results: list[Measured] = []
    for attack in (attack_open, attack_guarded):
        with tempfile.TemporaryDirectory(prefix="millpond-memory-") as folder:
            results.extend(attack(Path(folder), args.scale))
    found: dict[str, Any] = {
        "attacks": [{**result._asdict(), "held": result.held} for result in results],
        "peak_mib": max(result.peak_mib for result in results),
        "growth_mib": round(max(result.after_mib - result.start_mib for result in results), 1),
    }
    if args.json:
        print_json(found)
    else:
        print_table(_COLUMNS, [(*result[:6], result.fault or result.held) for result in results])
        print_line(f"peak {found['peak_mib']} MiB, growth {found['growth_mib']} MiB")
    return 0 if all(result.held for result in results) else 1
