"""The whole service on Firestore, where the store's limits meet the engine: sizes, expiry, time, others' values."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from millpond.core.model import Delivery
from tests.common.firestore_proxy import BEFORE, COMMIT, HANG, READ, Fault, FirestoreProxy
from tests.common.pond import NOW, at, delivery, order, service, tick
from tests.wire.onlooker import Onlooker
from tests.wire.rig import WireRig, documents_of_views, inject
from tests.wire.traffic import fold

BIG = 12


@asynccontextmanager
async def rig_behind_proxy(
    emulator: str, project: str, **environment: str
) -> AsyncIterator[tuple[WireRig, FirestoreProxy]]:
    with Onlooker(emulator) as onlooker:
        async with (
            FirestoreProxy(emulator) as proxy,
            WireRig(project, proxy.address, onlooker, **environment) as rig,
        ):
            yield rig, proxy


def big_signal(number: int, publish_s: float, **fields: Any) -> Delivery:
    payload = {"topic": "trade-signals", "signalId": f"s{number}", "updatedAt": at(publish_s), **fields}
    return delivery(payload, f"m{number}-{publish_s}", publish_s)


async def test_a_batch_over_the_commit_limit_is_split(firestore_emulator: str, project: str) -> None:
    """Small updates of big documents: one batch of a few kilobytes would be a commit of six megabytes."""
    async with rig_behind_proxy(firestore_emulator, project) as (rig, proxy):
        big = [big_signal(n, n, targets="x" * 500_000) for n in range(BIG)]
        small = [big_signal(n, 100 + n, state="filled") for n in range(BIG)]
        await rig.deliver_until_taken(big)
        commits = proxy.counts[rig.database].calls[COMMIT]
        assert await rig.deliver(*small) == [200] * BIG
        assert 2 <= proxy.counts[rig.database].calls[COMMIT] - commits <= 4
        assert documents_of_views(rig.look()) == fold([*big, *small])
        assert {line.outcome for _, line in rig.answered()} == {"applied"}
        assert rig.lies == []


async def test_a_thousand_messages_at_once_share_a_few_commits(firestore_emulator: str, project: str) -> None:
    """A full batch has three documents a message, far more than the five hundred Firestore once allowed."""
    async with rig_behind_proxy(firestore_emulator, project, CONSUMER_QUEUE_SIZE="2000") as (rig, proxy):
        messages: list[Delivery] = []
        for n in range(500):
            messages += [order(f"o{n}", 1, -n), tick(f"t{n}", n / 1_000, -n / 1_000, n, eventId=f"e{n}")]
        assert await rig.deliver(*messages) == [200] * len(messages)
        assert proxy.counts[rig.database].calls[COMMIT] <= 4
        assert documents_of_views(rig.look()) == fold(messages)


async def test_what_shall_expire_says_when(firestore_emulator: str, project: str) -> None:
    """`expireAt` is a timestamp on receipts, ticks, letters and their parts: TTL policies act on nothing else."""
    async with rig_behind_proxy(firestore_emulator, project, EVENT_LOG_TTL_DAYS="3", LETTER_TTL_DAYS="2") as (
        rig,
        _,
    ):
        huge = Delivery(message_id="huge", publish_time=NOW, data=os.urandom(1_500_000), subscription="s")
        poison = delivery({"no": "topic"}, "p1")
        sent = [service("m1", 1, "ok", 1), tick("t1", 0, 0, 1.5), order("o1", 1, 0), poison, huge]
        await rig.deliver_until_taken(sent)
        expiry: dict[str, set[float]] = {}
        for path, seen in rig.look().items():
            field = seen.raw.fields.get("expireAt")
            if field is not None:
                assert field.WhichOneof("value_type") == "timestamp_value"
                days = (field.timestamp_value.seconds - NOW // 1_000_000) / 86_400
                collection = "parts" if "/parts/" in path else path.partition("/")[0]
                expiry.setdefault(collection, set()).add(round(days, 3))
        assert expiry == {
            "ops_dedupe": {7.0},
            "market_ticks": {7.0},
            "dead_letters": {2.0},
            # After their letter, whichever the service deletes first.
            "parts": {3.0},
            "millpond_event_segments": {3.0},
        }
        undated = {path for path, seen in rig.look().items() if "expireAt" not in seen.data}
        assert undated == {
            "millpond_event_segments/keys",
            "ops_services/test__api",
            "market_ticks_latest/SPY",
            "sales/d1",
        }


@pytest.mark.parametrize("method", [READ, COMMIT])
async def test_the_answer_comes_within_its_time_although_calls_hang(
    firestore_emulator: str, project: str, method: str
) -> None:
    """FIRESTORE_RETRY_MAX_TOTAL_S is the time until retry is answered, not the time until the last try begins."""
    total_s, call_s = 2.5, 2.0
    async with rig_behind_proxy(
        firestore_emulator,
        project,
        FIRESTORE_RETRY_MAX_TOTAL_S=f"{total_s}",
        FIRESTORE_RPC_DEADLINE_S=f"{call_s}",
    ) as (rig, proxy):
        await rig.deliver_until_taken([order("warm-up", 1, 0)])
        inject(proxy, rig, Fault(method, BEFORE, HANG, None))
        began = time.monotonic()
        assert await rig.deliver(service("m1", 1, "ok", 1)) == [503]
        # A second try with all of its time would end two seconds after the message's.
        assert time.monotonic() - began < total_s + 1.5
