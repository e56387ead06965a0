"""`verify` finds every document that is not the fold of the log, names what decides, and calls no other wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond import Event, Latest
from millpond.core import timestamps
from millpond.core.model import Delivery, Document, Put, Ref
from millpond.core.stamp import decode_stamp
from millpond.reprocess.diff import DifferenceKind
from millpond.reprocess.fold import open_scratch
from millpond.reprocess.report import COUNTED_MORE, NOT_IN_LOG, Report
from millpond.reprocess.verify import Verifier
from millpond.stores.memory import MemoryStore
from tests.common.pond import NOW, SECOND, Orders, at, delivery, order, service, signal, tick
from tests.common.properties import examples
from tests.core.histories import Batch, histories_with_arrivals
from tests.core.mill import Mill
from tests.reprocess.doors import DAY_US, Doors, LenientDoors, door, late_door, stateless_door
from tests.reprocess.folding import Works


class ShortDoors(Doors):
    """Documents that expire."""

    retention_days = 1


def assert_fine(report: Report, documents: int) -> None:
    assert (report.listed, dict(report.uncheckable), dict(report.unfolded)) == ([], {}, {})
    assert (report.documents, report.equal) == (documents, documents)


async def test_all_kinds_of_views_are_equal_to_the_fold() -> None:
    async with Works([Orders(), Doors(), *Works().router.views]) as works:
        await works.take(
            tick("t2", 2, 2, 10.0),
            tick("t1", 1, 1, 9.0),
            tick("t2", 2, 2, 10.0),
            service("h1", 1, "ok", 1),
            signal("s2", 2, state="CLOSED", updatedAt=at(2)),
            signal("s1", 1, state="OPEN", symbol="SPY", updatedAt=at(1)),
            order("o1", 5, 1),
            order("o2", 7, 2),
            order("o1-again", 5, 1),
            door("d2", "gone", 2),
            door("d1", "open", 1),
            delivery({"nothing": "routable"}, "p1"),
        )
        report = await works.verify()
        assert_fine(report, documents=7)
        assert report.entries == 11


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("market_ticks_latest/SPY", {"price": 1.0}),
        ("market_ticks_latest/SPY", {"price": 10}),
        ("market_ticks_latest/SPY", {"more": 1}),
        ("trade_signals/s1", {"state": "OPEN"}),
        ("sales/d1", {"count": 3}),
    ],
)
async def test_a_changed_field_is_found(path: str, fields: dict[str, Any]) -> None:
    """Also where only the type differs: 10 is not 10.0."""
    async with Works([Orders(), *Works().router.views]) as works:
        await works.take(
            tick("t2", 2, 2, 10.0),
            signal("s1", 1, state="OPEN", updatedAt=at(1)),
            signal("s2", 2, state="CLOSED", updatedAt=at(2)),
            order("o1", 5, 1),
            order("o2", 7, 2),
        )
        await works.damage(path, **fields)
        report = await works.verify()
        (found,) = report.listed
        assert (found.doc, found.kind, found.fields) == (path, DifferenceKind.DIFFERENT, [*fields])
        assert dict(report.differences) == {DifferenceKind.DIFFERENT: 1}
        assert report.equal == report.documents - 1


async def test_a_lost_update_a_lost_document_and_one_too_many_are_told_apart() -> None:
    """Each with both stamps, taken from the messages that decide."""
    async with Works() as works:
        await works.take(tick("t1", 1, 1, 9.0))
        old = await works.document("market_ticks_latest/SPY")
        history = await works.document("market_ticks/t1")
        assert old is not None
        assert history is not None
        await works.take(tick("t2", 2, 2, 10.0))
        await works.put("market_ticks_latest/SPY", old)
        await works.delete("market_ticks/t2")
        await works.put("market_ticks/unknown", history)
        report = await works.verify()
        found = {difference.doc: difference for difference in report.listed}
        assert {doc: difference.kind for doc, difference in found.items()} == {
            "market_ticks_latest/SPY": DifferenceKind.BEHIND,
            "market_ticks/t2": DifferenceKind.MISSING,
            "market_ticks/unknown": DifferenceKind.EXTRA,
        }
        behind = found["market_ticks_latest/SPY"]
        assert decode_stamp(behind.stored or "").message_id == "t1"
        assert decode_stamp(behind.folded or "").message_id == "t2"
        assert (found["market_ticks/t2"].stored, found["market_ticks/unknown"].folded) == (None, None)


async def test_a_field_that_went_back_in_a_merged_document_is_found() -> None:
    async with Works() as works:
        await works.take(signal("s1", 1, state="OPEN", note="first", updatedAt=at(1)))
        old = await works.document("trade_signals/s1")
        await works.take(signal("s2", 2, state="CLOSED", updatedAt=at(2)))
        assert old is not None
        await works.put("trade_signals/s1", old)
        (found,) = (await works.verify()).listed
        assert found.kind is DifferenceKind.BEHIND
        assert "state" in found.fields


async def test_an_event_counted_twice_is_not_taken_for_right() -> None:
    """Nothing tells it from an event the log has lost; but it is not called equal."""
    async with Works([Orders()]) as works:
        await works.take(order("o1", 5, 1))
        for receipt in await works.store.list_documents("ops_dedupe", 10, None):
            await works.delete(receipt.ref.path)
    async with Works([Orders()], works.store) as other:
        await other.take(order("o1-again", 5, 1))
        report = await other.verify()
        assert (report.listed, dict(report.uncheckable)) == ([], {COUNTED_MORE: 1})


async def test_documents_older_than_the_log_are_not_checkable() -> None:
    """What the log does not hold cannot be wrong: not swept entries, not documents of another time."""
    async with Works([Orders(), *Works().router.views]) as works:
        await works.take(tick("t1", 1, 1, 9.0), order("o1", 5, 1), signal("s1", 1, state="OPEN", updatedAt=at(1)))
        works.now = NOW + 2 * DAY_US
        await works.store.sweep(NOW, NOW + DAY_US)
        await works.take(order("o2", 7, 90_000), signal("s2", 90_000, note="late", updatedAt=at(90_000)))
        await works.put("ops_services/dev__old", {"status": "ok", "lastHeartbeatAt": "2020-01-01T00:00:00Z"})
        report = await works.verify()
        assert report.listed == []
        assert dict(report.uncheckable) == {NOT_IN_LOG: 4, COUNTED_MORE: 1}
        assert set(report.uncheckable_docs) == {
            *("market_ticks_latest/SPY", "market_ticks/t1", "trade_signals/s1", "sales/d1"),
            "ops_services/dev__old",
        }


async def test_a_copy_the_log_does_not_hold_is_not_checkable() -> None:
    """One message id published twice: the log keeps the first, the document has the greater stamp of the second."""
    async with Works() as works:
        await works.take(service("h1", 1, "ok", 1), service("h1", 2, "ok", 1))
        report = await works.verify()
        assert (report.listed, dict(report.uncheckable)) == ([], {NOT_IN_LOG: 1})


async def test_a_lost_update_is_found_in_a_log_that_was_swept() -> None:
    async with Works() as works:
        await works.take(tick("t1", 1, 1, 9.0))
        old = await works.document("market_ticks_latest/SPY")
        works.now = NOW + 2 * DAY_US
        await works.store.sweep(NOW, NOW + DAY_US)
        await works.take(tick("t2", 2, 2, 10.0))
        assert old is not None
        await works.put("market_ticks_latest/SPY", old)
        assert [found.kind for found in (await works.verify()).listed] == [DifferenceKind.BEHIND]


async def test_what_expired_may_be_there_or_not() -> None:
    async with Works([ShortDoors()]) as works:
        await works.take(door("d1", "open", 1))
        works.now = NOW + 2 * DAY_US
        assert_fine(await works.verify(), documents=1)
        assert await works.store.sweep(works.now, None) > 0
        assert_fine(await works.verify(), documents=0)


async def test_one_message_id_on_two_topics_is_two_messages() -> None:
    """Ids are unique within a topic: both are folded, and neither document is called wrong."""
    async with Works() as works:
        await works.take(tick("same", 1, 1, 9.0), service("same", 1, "ok", 1))
        report = await works.verify()
        assert_fine(report, documents=3)
        assert report.entries == 2


async def test_every_page_of_a_collection_is_compared() -> None:
    """However many documents it has: the last one is looked at like the first."""
    async with Works() as works:
        names = [f"s{number:03d}" for number in range(450)]
        await asyncio.gather(
            *(
                works.engine.handle(delivery({"service": name, "timestamp": at(1)}, name, 1, subscription=""))
                for name in names
            )
        )
        for name in (names[0], names[-1]):
            await works.damage(f"ops_services/dev__{name}", status="another")
        report = await works.verify()
        assert report.documents == 450
        assert [found.doc for found in report.listed] == ["ops_services/dev__s000", "ops_services/dev__s449"]


@pytest.mark.parametrize("days", [-1, 0.5, 30, None], ids=["past", "too early", "too late", "never"])
async def test_a_wrong_expiry_is_found(days: float | None) -> None:
    """It would be deleted too early or too late; whether it has expired is for the fold to say."""
    async with Works([ShortDoors()]) as works:
        await works.take(door("d1", "open", 1))
        expires = None if days is None else timestamps.to_datetime(NOW + round(days * DAY_US))
        await works.damage("doors/d", expireAt=expires)
        (found,) = (await works.verify()).listed
        assert (found.doc, found.kind, found.fields) == ("doors/d", DifferenceKind.DIFFERENT, ["expireAt"])


async def test_a_view_added_or_a_limit_changed_later_makes_nothing_wrong() -> None:
    class Strict(Doors):
        late_after_s = 1

    class Picky(Latest):
        topics = ("doors",)
        collection = "picky"
        key = "door"

        def document(self, event: Event) -> Document:
            return {"never": event.require("never sent")}

    async with Works([Doors()]) as works:
        await works.take(late_door("d1"))
    async with Works([Strict(), Picky()], works.store) as later:
        assert_fine(await later.verify(), documents=1)


async def test_what_the_views_of_today_cannot_fold_is_not_checkable_and_counted() -> None:
    class Broken(Doors):
        def document(self, event: Event) -> Any:
            raise ZeroDivisionError(event.message_id)

    async with Works([Doors()]) as works:
        await works.take(door("d1", "open", 1))
        await works.damage("doors/d", state="another")
    async with Works([Broken()], works.store) as later:
        report = await later.verify()
        assert (report.listed, sum(report.uncheckable.values())) == ([], 1)
        assert sum(report.unfolded.values()) == 1


async def test_a_replayed_letter_counts_once_it_was_replayed() -> None:
    async with Works([Doors()]) as works:
        await works.take(stateless_door("d1"))
    async with Works([LenientDoors()], works.store) as later:
        assert_fine(await later.verify(), documents=0)
        letter = (await works.store.list_documents("dead_letters", 10, None))[0].ref
        await later.letters.replay(letter, lambda found, views: later.engine.handle(found, replay=True, only=views))
        report = await later.verify()
        assert_fine(report, documents=1)
        assert report.entries == 1


async def test_a_check_that_is_kept_folds_only_what_has_come_since() -> None:
    async with Works() as works, open_scratch() as scratch:
        verifier = await Verifier.begin(works.store, works.router, works.receipts, scratch, lambda: works.now)
        await works.take(*(tick(f"t{n}", n, n, float(n)) for n in range(5)))
        assert_fine(await verifier.check(), documents=6)
        await works.take(*(tick(f"t{n}", n, n, float(n)) for n in range(5, 8)))
        folded: list[int] = []
        report = await verifier.check(folded.append)
        assert_fine(report, documents=9)
        assert sum(folded) == 3


async def test_receipts_of_a_tally_are_no_documents_to_check() -> None:
    async with Works([Orders()]) as works, open_scratch() as scratch:
        verifier = await Verifier.begin(works.store, works.router, works.receipts, scratch, lambda: works.now)
        works.now += SECOND
        await works.take(order("o1", 5, 1), order("o2", 7, 2), order("o1-again", 5, 1))
        works.now += SECOND
        assert_fine(await verifier.check_touched(), documents=1)


class Restless(MemoryStore):
    """Cannot be looked at as of one moment, and is written to whenever it is listed."""

    works: Works | None = None
    arrivals: list[Delivery]

    async def snapshot(self) -> None:  # type: ignore[override]
        return None

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Any]:
        found = await super().list_documents(collection, limit, after)
        if self.works is not None and self.arrivals:
            await self.works.take(self.arrivals.pop())
        return found


async def test_traffic_during_a_check_is_no_difference_and_hides_none() -> None:
    """On a store without one moment for all: every listing is out of date before it is compared."""
    store = Restless()
    async with Works(None, store) as works:
        await works.take(*(tick(f"t{n}", n, n, float(n)) for n in range(5)), service("h1", 1, "ok", 1))
        store.arrivals = [tick(f"u{n}", 10 + n, 10 + n, float(n)) for n in range(20)]
        store.works = works
        report = await works.verify()
        assert len(store.arrivals) < 20
        assert (report.listed, dict(report.uncheckable)) == ([], {})
        await works.damage("ops_services/dev__api", status="another")
        assert [found.doc for found in (await works.verify()).listed] == ["ops_services/dev__api"]


@examples(60)
@given(histories_with_arrivals(), st.data())
def test_any_history_verifies_and_any_damage_is_found(
    case: tuple[list[Delivery], list[list[Batch]]], data: st.DataObject
) -> None:
    """Whatever arrived, however batched, in every kind of view: nothing differs, until a field is changed."""
    mill = Mill()
    mill.grind_all(case[1][0])

    async def check() -> Report:
        async with open_scratch() as scratch:
            now = max((entry.arrived_at for entry in mill.events_logged()), default=NOW)
            verifier = await Verifier.begin(mill.store, mill.router, mill.receipts, scratch, lambda: now)
            return await verifier.check()

    report = asyncio.run(check())
    assert (report.listed, dict(report.uncheckable)) == ([], {})
    living = {
        path: snapshot for path, snapshot in mill.snapshots().items() if "expireAt" not in (snapshot.data or {})
    }
    if living:
        path = data.draw(st.sampled_from(sorted(living)))
        found = living[path]
        names = sorted(name for name in found.data or {} if name not in {"source", "ingestedAt"})
        changed = {**(found.data or {}), data.draw(st.sampled_from(names)): "changed by hand"}
        asyncio.run(_put(mill.store, found.ref, found.version, changed))
        assert [difference.doc for difference in asyncio.run(check()).listed] == [path]


async def _put(store: MemoryStore, ref: Ref, version: Any, document: Mapping[str, Any]) -> None:
    await store.commit([Put(ref, version, dict(document))])
