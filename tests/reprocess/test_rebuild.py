"""`rebuild` makes a view's documents the fold of the log, beside live traffic, and lowers or removes no others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from millpond import Event, Merge
from millpond.core.model import Committed, Conflict, Delivery, Document, LogEntry, Outcome, Write
from millpond.reprocess.report import NO_EVENT, NOT_IN_LOG, NOT_OURS
from millpond.stores.memory import MemoryStore
from millpond.stores.sqlite.store import SqliteStore
from tests.common.pond import NOW, at
from tests.reprocess import doors
from tests.reprocess.doors import DAY_US, Doors, DoorsWithRoom, Passes, older_doors
from tests.reprocess.folding import Works


class DoorsByVersion(Doors):
    """The view after its order was changed: the same events get other stamps."""

    time = "changed"


class Rooms(Merge):
    topics = ("doors",)
    collection = "rooms"
    key = "room"
    time = "at"

    def fields(self, event: Event) -> Document:
        return {event.require("door"): event.require("state")}


def door(message_id: str, state: str, at_s: float, name: str = "d", **more: Any) -> Delivery:
    return doors.door(message_id, state, at_s, name, room="hall", **more)


async def is_level(works: Works) -> bool:
    report = await works.verify()
    return not report.listed and not report.uncheckable


async def test_a_view_that_is_right_is_left_alone() -> None:
    async with Works([Doors()]) as works:
        await works.take(door("1", "open", 1), door("2", "shut", 2))
        rebuild = await works.rebuild("doors")
        report = await rebuild.fold()
        assert (report.documents, report.equal, report.entries, report.listed) == (1, 1, 2, [])
        (before,) = await works.store.list_documents("doors", 10, None)
        assert await rebuild.swap() == 0
        assert await works.store.list_documents("doors", 10, None) == [before]


async def test_a_view_that_was_changed_is_folded_anew() -> None:
    async with Works([Doors()]) as works:
        await works.take(door("1", "open", 1), door("2", "shut", 2), door("3", "open", 3, "other"))
    async with Works([DoorsWithRoom()], works.store) as later:
        rebuild = await later.rebuild("doors")
        report = await rebuild.fold()
        assert [(found.doc, found.fields) for found in report.listed] == [
            ("doors/d", ["room"]),
            ("doors/other", ["room"]),
        ]
        assert (await later.document("doors/d") or {})["state"] == "shut"
        assert "room" not in (await later.document("doors/d") or {}), "nothing is written before the swap"
        assert await rebuild.swap() == 2
        assert (await later.document("doors/d") or {})["room"] == "hall"
        assert await is_level(later)


async def test_an_order_that_was_changed_may_lower_a_stamp() -> None:
    """The log decided the document, so the log may decide it anew; and the engine forgets what it remembered."""
    async with Works([Doors()]) as works:
        await works.take(door("1", "open", 1, changed=at(3)), door("2", "shut", 100, changed=at(2)))
    async with Works([DoorsByVersion()], works.store) as later:
        # Remembers the old stamp, which is greater than any to come.
        await later.take(door("3", "stale", 0, changed=at(1)))
        rebuild = await later.rebuild("doors")
        await rebuild.fold()
        assert await rebuild.swap() == 1
        assert (await later.document("doors/d") or {})["state"] == "open"
        (result,) = await later.take(door("4", "shut again", 4, changed=at(5)))
        assert result.outcome is Outcome.APPLIED
        assert await is_level(later)


@pytest.mark.parametrize("view", [DoorsWithRoom, Rooms, Passes])
async def test_a_view_that_was_just_added_is_filled(view: type[Any]) -> None:
    """And then it is as if it had been there from the beginning: an old event that comes again counts no more."""
    sent = [door("1", "open", 1), door("2", "shut", 2), door("3", "open", 3, "e"), door("2b", "shut", 2)]
    old = older_doors()
    async with Works([old]) as works:
        await works.take(*sent)
    async with Works([old, new := view()], works.store) as later:
        await later.take(door("4", "ajar", 4))
        rebuild = await later.rebuild(new.name)
        report = await rebuild.fold()
        assert report.differences
        await rebuild.swap()
        assert await is_level(later)
        after = await later.store.list_documents(new.collection, 10, None)
        # A republished copy as well: with another message id, but the same event.
        await later.take(*sent, door("1c", "open", 1))
        assert [found.data for found in await later.store.list_documents(new.collection, 10, None)] == [
            found.data for found in after
        ]
        async with Works([view()]) as fresh:
            await fresh.take(*sent, door("4", "ajar", 4))
            expected = await fresh.store.list_documents(new.collection, 10, None)
        assert [_content(found.data) for found in after] == [_content(found.data) for found in expected]


def _content(document: Document | None) -> Document:
    return {name: value for name, value in (document or {}).items() if name != "source"}


async def test_what_the_log_did_not_decide_is_never_lowered_nor_removed() -> None:
    async with Works([Doors()]) as works:
        await works.take(door("1", "open", 50))
        works.now = NOW + 2 * DAY_US
        await works.store.sweep(NOW, NOW + DAY_US)
        await works.take(door("2", "stale", 1), door("3", "open", 1, "another"))
        await works.put("doors/by-hand", {"state": "unknown"})
    async with Works([DoorsWithRoom()], works.store) as later:
        later.now = works.now
        rebuild = await later.rebuild("doors")
        report = await rebuild.fold()
        assert [found.doc for found in report.listed] == ["doors/another"]
        assert dict(report.uncheckable) == {NOT_IN_LOG: 1, NOT_OURS: 1}
        await rebuild.swap()
        assert (await later.document("doors/d") or {})["state"] == "open"
        assert await later.document("doors/by-hand") == {"state": "unknown"}
        assert (await later.document("doors/another") or {})["room"] == "hall"


async def test_a_document_no_event_makes_any_more_stays() -> None:
    class Renamed(Doors):
        def key_of(self, event: Event) -> list[str]:
            return [f"new {event.require('door')}"]

    async with Works([Doors()]) as works:
        await works.take(door("1", "open", 1))
    async with Works([Renamed()], works.store) as later:
        rebuild = await later.rebuild("doors")
        report = await rebuild.fold()
        assert dict(report.uncheckable) == {NO_EVENT: 1}
        assert await rebuild.swap() == 1
        assert {found.ref.id for found in await later.store.list_documents("doors", 9, None)} == {"d", "new d"}


async def test_events_that_a_view_finds_invalid_are_told_and_left_out() -> None:
    class Strict(Doors):
        def document(self, event: Event) -> Document:
            return {"state": event.require("state"), "floor": event.require("floor")}

    async with Works([Doors()]) as works:
        await works.take(door("1", "open", 1, floor=3), door("2", "shut", 2))
    async with Works([Strict()], works.store) as later:
        rebuild = await later.rebuild("doors")
        report = await rebuild.fold()
        assert dict(report.unfolded) == {"floor is missing": 1}
        await rebuild.swap()
        assert (await later.document("doors/d") or {})["floor"] == 3


async def test_a_view_with_a_bug_swaps_nothing_it_cannot_fold() -> None:
    class Buggy(DoorsWithRoom):
        def document(self, event: Event) -> Document:
            if event.message_id == "2":
                raise ZeroDivisionError
            return super().document(event)

    async with Works([Doors()]) as works:
        await works.take(door("1", "open", 1), door("2", "shut", 2))
    async with Works([Buggy()], works.store) as later:
        rebuild = await later.rebuild("doors")
        report = await rebuild.fold()
        assert (report.listed, sum(report.uncheckable.values())) == ([], 1)
        assert await rebuild.swap() == 0
        assert (await later.document("doors/d") or {})["state"] == "shut"


class Watched(MemoryStore):
    """After each commit it is seen whether every event a tally has counted has a receipt that says so."""

    # Done once, when a rebuild has just written a tally's document.
    meanwhile: Callable[[], Awaitable[object]] | None = None
    swaps = 0

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        committed = await super().commit(writes, log)
        counted = sum((tally.data or {})["n"] for tally in await self.list_documents("passes", 100, None))
        receipts = [found.data or {} for found in await self.list_documents("ops_dedupe", 100, None)]
        assert counted <= sum("passes" in receipt["views"] for receipt in receipts)
        if not log and any(write.ref.collection == "passes" for write in writes):
            self.swaps += 1
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                await meanwhile()
        return committed


async def test_a_rebuilt_tally_counts_nothing_before_its_receipts_say_so() -> None:
    """An event that came again between the document and its receipt, or after a kill there, would count twice."""
    old = older_doors()
    store = Watched()
    async with Works([old], store) as works:
        await works.take(*(door(f"a{n}", "open", n, f"door {n}") for n in range(3)))
        async with Works([old, Passes()], store) as later:
            rebuild = await later.rebuild("passes")
            await rebuild.fold()
            # On an instance that does not have the view yet: only the log knows of it.
            store.meanwhile = lambda: works.take(door("b", "shut", 9, "door 0"))
            await rebuild.swap()
            assert store.swaps == 2, "what arrived meanwhile was taken up after the others"
            assert (await later.document("passes/door 0") or {})["n"] == 2
            assert await is_level(later)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("view", [DoorsWithRoom, Rooms, Passes])
async def test_live_traffic_goes_on_throughout(view: type[Any], kind: str, tmp_path: Path) -> None:
    """Events pour in while the log is folded and while documents are swapped: none is lost, none counts twice."""
    store = SqliteStore(tmp_path / "pond.db") if kind == "sqlite" else None
    old = older_doors()
    async with Works([old], store) as works:
        await works.take(*(door(f"a{n}", f"s{n}", n, f"door {n % 10}") for n in range(300)))
    async with Works([old, new := view()], works.store) as later:
        stopping = asyncio.Event()
        arrived = 0

        async def traffic() -> None:
            nonlocal arrived
            while not stopping.is_set():
                again = arrived % 200
                await asyncio.gather(
                    later.engine.handle(door(f"b{arrived}", "live", 300 + arrived, f"door {arrived % 7}")),
                    later.engine.handle(door(f"a{again}", f"s{again}", again, f"door {again % 10}")),
                )
                arrived += 1

        feeder = asyncio.create_task(traffic())
        rebuild = await later.rebuild(new.name)
        await rebuild.fold()
        folded_at = arrived
        await rebuild.swap()
        swapped_at = arrived
        stopping.set()
        await feeder
        assert folded_at < swapped_at
        assert await is_level(later)
        left_alone = "rooms/hall" if view is Rooms else f"{new.collection}/door 9"
        assert await later.document(left_alone) is not None
        if view is Passes:
            found = await later.store.list_documents("passes", 10, None)
            assert sum((tally.data or {})["n"] for tally in found) == 300 + arrived
    if kind == "sqlite":
        await works.store.close()
