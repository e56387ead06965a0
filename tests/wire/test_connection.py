"""The connection itself: Firestore was away for a while, or the way to it swallows everything without a word."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from millpond.core.errors import Unavailable
from millpond.core.model import Ref
from millpond.stores.firestore.store import FirestoreStore
from tests.common.relay import Relay, relayed

OUTAGE_S = 10.0
CALL_S = 0.5
# An instance that could work, and does not, turns away every message that is sent to it.
FOUND_AGAIN_S = 3.0
_REF = Ref("ponds", "a")


async def until_read(store: FirestoreStore, limit_s: float) -> float:
    """Read again and again, as messages that are redelivered would have it; after how many seconds it worked."""
    began = time.monotonic()
    while time.monotonic() - began < limit_s:
        with contextlib.suppress(Unavailable):
            await store.read([_REF])
            return time.monotonic() - began
        await asyncio.sleep(0.1)
    return limit_s


@asynccontextmanager
async def store_behind_relay(
    emulator: str, project: str, deadline_s: float = CALL_S
) -> AsyncIterator[tuple[FirestoreStore, Relay]]:
    """A store whose network is cut."""
    with relayed(emulator) as relay, pytest.MonkeyPatch.context() as patched:
        relay.cut()
        patched.setenv("FIRESTORE_EMULATOR_HOST", relay.address)
        store = FirestoreStore(project=project, deadline_s=deadline_s)
        try:
            yield store, relay
        finally:
            await store.close()


async def test_an_instance_finds_firestore_again_soon(firestore_emulator: str, project: str) -> None:
    """After an outage, however long gRPC would like to wait before it connects again."""
    async with store_behind_relay(firestore_emulator, project) as (store, relay):
        assert await until_read(store, OUTAGE_S) == OUTAGE_S
        relay.mend()
        assert await until_read(store, 2 * FOUND_AGAIN_S) < FOUND_AGAIN_S


async def test_a_connection_that_died_without_a_word_is_given_up(firestore_emulator: str, project: str) -> None:
    """A router forgot it: calls on it never end, while a new connection would work at once."""
    async with store_behind_relay(firestore_emulator, project) as (store, relay):
        relay.mend()
        assert await until_read(store, 20) < 20
        relay.swallow()
        assert await until_read(store, 2 * FOUND_AGAIN_S) < FOUND_AGAIN_S


async def test_a_connection_may_take_as_long_as_a_call(firestore_emulator: str, project: str) -> None:
    """A handshake on a busy instance, or with a distant region, takes a second: the first call waits for it."""
    async with store_behind_relay(firestore_emulator, project, deadline_s=10.0) as (store, relay):
        relay.mend()
        relay.connect_s = 1.0
        (found,) = await store.read([_REF])
        assert found.version is None


async def test_giving_up_a_connection_answers_the_other_calls_on_it(firestore_emulator: str, project: str) -> None:
    """They end as failed calls do, not as cancelled ones: the messages of a cancelled batch were never answered."""
    async with store_behind_relay(firestore_emulator, project) as (store, relay):
        relay.mend()
        assert await until_read(store, 20) < 20
        relay.swallow()

        async def later() -> None:
            await asyncio.sleep(CALL_S / 2)
            await store.read([_REF])

        both = await asyncio.gather(store.read([_REF]), later(), return_exceptions=True)
        assert [type(one) for one in both] == [Unavailable, Unavailable]
