"""What the log cannot judge is never called wrong, and never lowered, lost or resurrected by a rebuild."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from millpond import Event
from millpond.core.model import Committed, Conflict, Document, LogEntry, LogPage, Put, Ref, Snapshot, Write
from millpond.core.receipts import Receipts
from millpond.core.view import View
from millpond.reprocess.move_ids import Mover
from millpond.reprocess.plan_move import Moved
from millpond.reprocess.report import BEFORE_THE_VIEW, COUNTED_MORE, NO_EVENT, NOT_IN_LOG, NOT_OURS
from millpond.stores.memory import MemoryStore
from tests.common.pond import NOW
from tests.reprocess.doors import (
    DAY_US,
    Doors,
    DoorsWithRoom,
    LenientDoors,
    Owners,
    Passes,
    door,
    late_door,
    older_doors,
    stateless_door,
)
from tests.reprocess.folding import Works


class ShortOwners(Owners):
    retention_days = 1


async def rebuilt(works: Works, view: str) -> int:
    rebuild = await works.rebuild(view)
    await rebuild.fold()
    return await rebuild.swap()


async def assert_no_alarm(works: Works, reason: str | None = None) -> None:
    report = await works.verify()
    assert report.listed == []
    assert set(report.uncheckable) <= ({reason} if reason is not None else set())


async def assert_left_alone(works: Works, count: int) -> None:
    """The tally has counted more than the log holds: it is not called wrong, and no rebuild lowers it."""
    await assert_no_alarm(works, COUNTED_MORE)
    await rebuilt(works, "passes")
    assert (await works.document("passes/d") or {})["n"] == count


async def test_a_tally_that_counted_before_the_log_began_is_left_alone() -> None:
    store = MemoryStore(keeps_log=False)
    async with Works([Passes()], store) as works:
        await works.take(*(door(f"a{n}", "open", n) for n in range(5)))
    store.keeps_log = True
    async with Works([Passes()], store) as later:
        await later.take(door("b", "open", 9))
        await assert_left_alone(later, 6)


async def test_a_tally_another_program_began_is_left_alone() -> None:
    """Its events are buried, so that an operator decides; verify says why it is not checked, rebuild leaves it."""
    async with Works([Passes()]) as works:
        await works.put("passes/d", {"n": 100})
        await works.take(door("a", "open", 1))
        await assert_no_alarm(works, NOT_OURS)
        await rebuilt(works, "passes")
        assert await works.document("passes/d") == {"n": 100}


class AdoptingOwners(Owners):
    adopt = "since"


async def added_later(view: View, there: Document) -> Works:
    """A store whose log holds an event, and a view that was added after it, with a document of another program."""
    async with Works([Doors()]) as before:
        await before.take(door("a", "open", 1))
        await before.put(f"{view.collection}/d", there)
    return Works([Doors(), view], before.store)


async def test_a_rebuild_leaves_a_document_alone_if_its_adoption_fails() -> None:
    class Failing(Owners):
        def adopt(self, document: Document) -> str | None:  # noqa: ARG002
            raise ZeroDivisionError

    async with await added_later(Failing(), {"note": "theirs"}) as works:
        assert await rebuilt(works, "owners") == 0
        assert await works.document("owners/d") == {"note": "theirs"}


async def test_a_rebuild_keeps_the_fields_of_an_adopted_document() -> None:
    since = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    async with await added_later(AdoptingOwners(), {"note": "theirs", "since": since}) as works:
        assert await rebuilt(works, "owners") == 1
        document = await works.document("owners/d") or {}
        assert (document["note"], document["state"]) == ("theirs", "open")


async def test_a_rebuild_begins_anew_if_the_view_replaces() -> None:
    class Replacing(Passes):
        existing = "replace"

    async with await added_later(Replacing(), {"n": 100, "note": "theirs"}) as works:
        assert await rebuilt(works, "passes") == 1
        document = await works.document("passes/d") or {}
        assert (document["n"], document.get("note")) == (1, None)
        await works.take(door("b", "open", 2))
        assert (await works.document("passes/d") or {})["n"] == 2


async def test_a_tally_whose_log_was_swept_is_left_alone() -> None:
    async with Works([Passes()]) as works:
        await works.take(*(door(f"a{n}", "open", n) for n in range(5)))
        await works.store.sweep(0, NOW + DAY_US)
        await works.take(door("b", "open", 9))
        await assert_left_alone(works, 6)


async def test_sums_of_fractions_may_differ_in_the_last_digit() -> None:
    async with Works([Passes()]) as works:
        await works.take(*(door(f"a{n}", "open", n, weight=0.1 * n) for n in range(9)))
        tally = await works.document("passes/d") or {}
        await works.damage("passes/d", sum=tally["sum"] + 1e-12)
        await assert_no_alarm(works)
        await works.damage("passes/d", sum=tally["sum"] + 1e-3)
        assert len((await works.verify()).listed) == 1


async def test_receipts_that_live_shorter_now_lower_no_tally() -> None:
    async with Works([Passes()]) as works:
        works.now = NOW + 5 * DAY_US
        await works.take(door("a", "open", 1), door("b", "open", 5 * 86_400))
    async with Works([Passes()], works.store) as later:
        later.now = works.now
        later.engine.rules = msgspec.structs.replace(later.engine.rules, receipts=Receipts(keep=DAY_US))
        await rebuilt(later, "passes")
        assert (await later.document("passes/d") or {})["n"] == 2


async def test_receipts_and_documents_that_expire_meanwhile_change_no_fold() -> None:
    """The fold is out of the sweep's reach: an old event that was published twice still counts once."""
    async with Works([Passes(), ShortOwners()]) as works:
        await works.take(door("a", "open", 1), door("b", "shut", 2, room="hall"), door("a-again", "open", 1))
        works.now = NOW + 60 * DAY_US
        rebuild = await works.rebuild("passes")
        await rebuild.fold()
        await works.store.sweep(works.now, None)
        await rebuild.swap()
        assert (await works.document("passes/d") or {})["n"] == 2
        await assert_no_alarm(works)


async def test_what_a_merged_document_had_before_stays() -> None:
    """Fields that no event has given are neither judged nor removed: earlier builds merged into such documents."""
    async with Works([Owners()]) as works:
        await works.take(door("a", "open", 1))
        await works.damage("owners/d", note="by hand", owner="before")
        await assert_no_alarm(works)
        await works.damage("owners/d", state="another")
        assert await rebuilt(works, "owners") == 1
        document = await works.document("owners/d") or {}
        assert (document["state"], document["note"], document["owner"]) == ("open", "by hand", "before")


async def test_a_merged_document_that_expired_in_between_is_not_checkable() -> None:
    """Swept before the next event, or not: both are right, and a rebuild must not bring the old fields back."""
    async with Works([ShortOwners()]) as works:
        await works.take(door("a", "open", 1, owner="first"))
        works.now = NOW + 2 * DAY_US
        await works.store.sweep(works.now, None)
        works.engine.forget([Ref("owners", "d")])
        await works.take(door("b", "shut", 2 * 86_400))
        assert "owner" not in (await works.document("owners/d") or {})
        assert (await works.verify()).listed == []
        await rebuilt(works, "owners")
        assert "owner" not in (await works.document("owners/d") or {})


async def test_a_document_without_a_stamp_of_ours_is_older_than_the_log() -> None:
    """Written by an earlier consumer from the very message: adopted under its stamp, and a duplicate since."""

    class Adopting(Doors):
        def adopt(self, document: Document) -> str | None:
            return str(document.get("was")) if "was" in document else None

    async with Works([Adopting()]) as works:
        await works.take(door("a", "open", 1))
        stamp = (await works.document("doors/d") or {})["source"]["stamp"]
        await works.put("doors/d", {"state": "open", "was": stamp})
        await assert_no_alarm(works, NOT_IN_LOG)


async def test_a_message_that_came_again_for_a_new_view_is_no_alarm() -> None:
    """The log keeps its first entry, from before the view; a rebuild that finds nothing to do settles it."""
    async with Works([Passes()]) as works:
        await works.take(door("a", "open", 1))
    async with Works([Passes(), Doors()], works.store) as later:
        await later.take(door("a", "open", 1))
        assert await later.document("doors/d") is not None
        await assert_no_alarm(later, BEFORE_THE_VIEW)
        assert await rebuilt(later, "doors") == 0
        report = await later.verify()
        assert (report.listed, dict(report.uncheckable), report.equal) == ([], {}, 2)


async def test_documents_that_are_elsewhere_now_are_no_alarm() -> None:
    """A setting that names documents was changed: the old ones stay, and the new ones are not called missing."""

    class Elsewhere(Doors):
        def key_of(self, event: Event) -> Sequence[str]:
            return ("prod", event.require("door"))

    async with Works([Doors()]) as works:
        await works.take(door("a", "open", 1))
    async with Works([Elsewhere()], works.store) as later:
        report = await later.verify()
        assert (report.listed, sum(report.uncheckable.values())) == ([], 1)
        await rebuilt(later, "doors")
        report = await later.verify()
        assert (report.listed, report.equal, sum(report.uncheckable.values())) == ([], 1, 1)


@pytest.mark.parametrize("kind", [Doors, Owners, Passes])
async def test_documents_moved_from_the_ids_of_an_earlier_build_are_no_alarm(kind: type[View]) -> None:
    """Neither before the move nor after it; a rebuild finds them equal, and from then on they are checked."""
    earlier = kind()
    earlier.single_key = False
    name = earlier.collection
    async with Works([earlier]) as works:
        await works.take(door("a", "open", 1, "x_", owner="me"), door("b", "open", 1, "plain"))
    async with Works([kind()], works.store) as later:
        await assert_not_checkable(later, 1)
        mover = Mover(later.store, later.router.views, later.engine.forget)
        (moved,) = await mover.move_all([Ref(name, "x%5F")])
        assert moved.outcome is Moved.MOVED
        await assert_not_checkable(later, 1)
        await later.take(door("c", "shut", 2, "x_"))
        # Of the latest state the newest event says all, whatever was moved.
        await assert_not_checkable(later, 0 if kind is Doors else 1)
        assert await rebuilt(later, name) == 0
        report = await later.verify()
        assert (report.listed, report.equal, dict(report.uncheckable)) == ([], 2, {})
        await later.damage(f"{name}/x_", n=99, state="no", owner="other")
        assert [found.doc for found in (await later.verify()).listed] == [f"{name}/x_"]


async def assert_not_checkable(works: Works, count: int) -> None:
    report = await works.verify()
    assert (report.listed, sum(report.uncheckable.values())) == ([], count)


async def test_null_is_not_absent() -> None:
    async with Works([DoorsWithRoom()]) as works:
        await works.take(door("a", "open", 1))
        document = dict(await works.document("doors/d") or {})
        assert document.pop("room", "absent") is None
        await works.put("doors/d", document)
        assert [found.fields for found in (await works.verify()).listed] == [["room"]]
        assert await rebuilt(works, "doors") == 1


class Forgetful(MemoryStore):
    """Its log could not hold the data of message b."""

    async def read_log(self, after: str | None, limit: int) -> LogPage:
        page = await super().read_log(after, limit)
        return page._replace(entries=[self._cut(entry) for entry in page.entries])

    def _cut(self, entry: LogEntry) -> LogEntry:
        if entry.delivery.message_id != "b":
            return entry
        cut = msgspec.structs.replace(entry.delivery, data=None, data_fault="too large for the log")
        return msgspec.structs.replace(entry, delivery=cut)


async def test_data_the_log_could_not_hold_is_not_judged() -> None:
    async with Works([Doors()], Forgetful()) as works:
        await works.take(door("a", "open", 1), door("b", "shut", 2))
        report = await works.verify()
        assert (report.listed, sum(report.uncheckable.values())) == ([], 1)
        await rebuilt(works, "doors")
        assert (await works.document("doors/d") or {})["state"] == "shut"


class Meddled(MemoryStore):
    """Another instance writes between our reads and our commits; the log shows its entries late, or not at all."""

    def __init__(self, *, keeps_log: bool = True) -> None:
        super().__init__(keeps_log=keeps_log)
        self.before_commit: list[Any] = []
        self.hidden: set[str] = set()

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        if not log and self.before_commit and any(isinstance(write, Put) for write in writes):
            await self.before_commit.pop(0)()
        return await super().commit(writes, log)

    async def read_log(self, after: str | None, limit: int) -> Any:
        page = await super().read_log(after, limit)
        shown = [entry for entry in page.entries if entry.delivery.message_id not in self.hidden]
        return page._replace(entries=shown)


@pytest.mark.parametrize("view", [Doors, Owners, Passes])
async def test_another_instance_that_is_quicker_loses_nothing(view: type[View]) -> None:
    """It writes between our look at a document and our commit, again and again: in the end its events are there."""
    store = Meddled()
    old = older_doors()
    async with Works([old], store) as works:
        await works.take(*(door(f"a{n}", "open", n, f"d{n % 3}") for n in range(30)))
    async with Works([old, new := view()], store) as later, Works([old, view()], store) as other:
        sent = [door(f"b{n}", "live", 100 + n, f"d{n % 3}") for n in range(6)]
        store.before_commit = [lambda message=message: other.take(message) for message in sent]
        await rebuilt(later, new.name)
        met = len(sent) - len(store.before_commit)
        assert met > 1
        report = await later.verify()
        assert (report.listed, dict(report.uncheckable)) == ([], {})
        if view is Passes:
            found: list[Snapshot] = await store.list_documents("passes", 10, None)
            assert sum((tally.data or {})["n"] for tally in found) == 30 + met


async def test_an_entry_the_log_shows_late_is_not_lost() -> None:
    """Another instance's clock is behind: the document has its event, and the fold must ask for it."""
    store = Meddled()
    async with Works([Doors()], store) as works:
        await works.take(door("a", "open", 1), door("b", "newest", 2))
        store.hidden = {"b"}
        await assert_no_alarm(works)
        await rebuilt(works, "doors")
        assert (await works.document("doors/d") or {})["state"] == "newest"


async def test_views_that_share_a_topic_are_folded_one_by_one() -> None:
    """What one view finds invalid today says nothing about documents of another; and no topic is guessed anew."""

    class Strict(Passes):
        def fold(self, event: Event, current: Document) -> Document:
            event.require("never sent")
            return current

        def matches(self, payload: Any) -> bool:
            return bool(payload)

    async with Works([Doors(), Passes()]) as works:
        await works.take(door("a", "open", 1))
    async with Works([Strict(), Doors()], works.store) as later:
        assert [found.doc for found in (await later.verify()).listed] == []
        assert await rebuilt(later, "doors") == 0


async def test_poison_that_was_never_replayed_stays_buried() -> None:
    """Also where the view of today would take it: a person decides, by replaying the letter."""
    async with Works([Doors()]) as works:
        await works.take(stateless_door("poison"))
    async with Works([LenientDoors()], works.store) as later:
        assert await rebuilt(later, "doors") == 0
        assert await later.document("doors/d") is None


async def test_a_document_that_would_be_too_big_holds_up_no_other() -> None:
    """The view takes more of each event now, and one document cannot hold it: the others are rebuilt."""

    class Everything(Owners):
        def fields(self, event: Event) -> Document:
            return {name: value for name, value in event.payload.items() if name.startswith(("state", "big"))}

    big = "x" * 600_000
    async with Works([Owners()]) as works:
        await works.take(
            door("a", "open", 1, big1=big),
            door("b", "shut", 2, big2=big),
            door("c", "open", 3, "other", big3="small"),
            door("e", "open", 4, "third", big4="small"),
        )
    async with Works([Everything()], works.store) as later:
        rebuild = await later.rebuild("owners")
        report = await rebuild.fold()
        assert sum(report.uncheckable.values()) == 1
        assert await rebuild.swap() == 2
        assert (await later.document("owners/other") or {})["big3"] == "small"
        assert (await later.document("owners/third") or {})["big4"] == "small"
        assert (await later.document("owners/d") or {})["state"] == "shut"


async def test_after_a_rebuild_the_rules_of_today_hold_for_the_past() -> None:
    """What is too late now is not folded any more; the document it had made stays, and is not called wrong."""

    class Strict(Doors):
        late_after_s = 10

    async with Works([Doors()]) as works:
        await works.take(door("a", "open", 1), late_door("late", "late"))
    async with Works([Strict()], works.store) as later:
        await assert_no_alarm(later)
        await rebuilt(later, "doors")
        report = await later.verify()
        assert (report.listed, dict(report.uncheckable), report.equal) == ([], {NO_EVENT: 1}, 1)


async def test_an_event_an_instance_without_the_view_took_meanwhile_counts_once() -> None:
    """A rolling deployment: it is in the log and in the fold; when it comes again, its receipt says so."""
    store = Meddled()
    old = older_doors()
    async with Works([old], store) as works:
        await works.take(door("a", "open", 1))
        async with Works([old, Passes()], store) as later:
            rebuild = await later.rebuild("passes")
            await rebuild.fold()
            # The first commit of the swap is of receipts, the second of the tally.
            store.before_commit = [_nothing, lambda: works.take(door("b", "open", 2))]
            await rebuild.swap()
            assert store.before_commit == []
            assert (await later.document("passes/d") or {})["n"] == 2
            await later.take(door("b", "open", 2), door("b-again", "open", 2))
            assert (await later.document("passes/d") or {})["n"] == 2
            await assert_no_alarm(later)


async def _nothing() -> None:
    pass
