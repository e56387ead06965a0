"""Commits that arrive after we gave up on them: the network kept them, and they cannot be called back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from grpc import StatusCode

from tests.common.firestore_proxy import BEFORE, COMMIT, LATE, Fault, FirestoreProxy
from tests.common.pond import tick
from tests.wire.onlooker import Onlooker
from tests.wire.rig import WireRig, documents_of_views, inject
from tests.wire.traffic import FIRST, fold


class LateFirst(FirestoreProxy):
    """Lets what it kept pass just before the next commit: after the second reading, before what it led to."""

    landed: StatusCode | None = None

    async def serve(self, path: str, request: bytes, context: Any) -> AsyncIterator[bytes]:
        if path.endswith(f"/{COMMIT}"):
            for status in await self.deliver_late():
                self.landed = status
        async for answer in super().serve(path, request, context):
            yield answer


@asynccontextmanager
async def giving_up(proxy: FirestoreProxy, emulator: str, project: str, **more: str) -> AsyncIterator[WireRig]:
    """A service behind the proxy that waits a second for each call."""
    with Onlooker(emulator) as onlooker:
        async with proxy:
            address = await proxy.open_door()
            async with WireRig(project, address, onlooker, FIRESTORE_RPC_DEADLINE_S="1.0", **more) as rig:
                yield rig


async def test_a_commit_that_lands_after_its_repetition_changes_nothing(
    firestore_emulator: str, project: str
) -> None:
    """Its versions are gone by then, so it is refused as a whole, tallies included."""
    proxy = FirestoreProxy(firestore_emulator)
    async with giving_up(proxy, firestore_emulator, project) as rig:
        inject(proxy, rig, Fault(COMMIT, BEFORE, LATE))
        assert await rig.deliver(*FIRST) == [200] * len(FIRST)
        before = rig.look()
        (landed,) = await proxy.deliver_late()
        assert landed in {StatusCode.ALREADY_EXISTS, StatusCode.FAILED_PRECONDITION}
        assert rig.look() == before
        assert documents_of_views(before) == fold(FIRST)
        assert rig.lies == []


async def test_a_commit_that_lands_late_does_not_undo_what_is_newer(firestore_emulator: str, project: str) -> None:
    """Without receipts and history only the document's version stands in its way."""
    proxy = FirestoreProxy(firestore_emulator)
    async with giving_up(proxy, firestore_emulator, project, TICK_HISTORY="off") as rig:
        assert await rig.deliver(tick("t1", 1, 1, 1.0)) == [200]
        inject(proxy, rig, Fault(COMMIT, BEFORE, LATE))
        for number in (2, 3):
            assert await rig.deliver(tick(f"t{number}", number, number, number)) == [200]
        assert await proxy.deliver_late() == [StatusCode.FAILED_PRECONDITION]
        assert rig.look()["market_ticks_latest/SPY"].data["price"] == 3


async def test_a_commit_that_lands_between_reading_again_and_its_repetition_counts_once(
    firestore_emulator: str, project: str
) -> None:
    """The repetition then conflicts, and the third reading finds everything done."""
    proxy = LateFirst(firestore_emulator)
    async with giving_up(proxy, firestore_emulator, project) as rig:
        inject(proxy, rig, Fault(COMMIT, BEFORE, LATE))
        assert await rig.deliver(*FIRST) == [200] * len(FIRST)
        assert proxy.landed is StatusCode.OK
        assert documents_of_views(rig.look()) == fold(FIRST)
        assert {line.outcome for _, line in rig.answered()} == {"duplicate"}
        assert rig.lies == []
