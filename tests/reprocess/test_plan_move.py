"""Where a document under an escaped id belongs, and what is written for each pair of documents: values alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond import Event
from millpond.core.ids import encode_id, encode_name, unescaped_id
from millpond.core.model import Delete, Delivery, Document, Put, Ref, Snapshot
from millpond.core.plan import plan
from millpond.core.receipts import Receipts
from millpond.core.route import Router, RouteRules
from millpond.core.stamp import encode_stamp
from millpond.core.view import View
from millpond.reprocess.plan_move import Move, Moved, new_place, plan_move
from tests.common.pond import at, delivery
from tests.reprocess import doors

OLD, NEW = Ref("doors", "x%5F"), Ref("doors", "x_")


def stamp_of(time: int) -> str:
    return encode_stamp(time, None, time, "m")


class Doors(doors.Doors):
    def document(self, event: Event) -> Document:
        return {"docId": self.id_of(event), "state": event.get("state")}


class Adopting(Doors):
    def adopt(self, document: Document) -> str | None:
        return stamp_of(document["stood"]) if "stood" in document else None


class Broken(Doors):
    def adopt(self, document: Document) -> str | None:  # noqa: ARG002
        raise ZeroDivisionError


class Owners(doors.Owners):
    name = collection = "doors"

    def fields(self, event: Event) -> Document:
        return {"docId": self.id_of(event), **super().fields(event)}


class Ruled(Owners):
    """Orders by another rule than the document's, and adopts what that one stamped."""

    order = "second"

    def adopt(self, document: Document) -> str | None:
        return stamp_of(document["rank"])


class Passes(doors.Passes):
    name = collection = "doors"


def stamped(stamp: str, **fields: Any) -> Document:
    return {**fields, "source": {"stamp": stamp, "key": "k", "messageId": stamp}}


def planned(view: View, old: Document | None, new: Document | None) -> Move:
    return plan_move(
        view, Snapshot(OLD, None if old is None else 7, old), Snapshot(NEW, None if new is None else 9, new)
    )


def written(move: Move) -> Document:
    """The document put at the new id, with the old one's deletion in the same commit under both versions."""
    put, delete = move.writes
    assert isinstance(put, Put)
    assert put.ref == NEW
    assert delete == Delete(OLD, 7)
    return put.data


@pytest.mark.parametrize("name", ["x_", "_x", "strat__SPY__1", "100%", "a__", "%zz", "ä_"])
def test_names_that_were_escaped_without_need(name: str) -> None:
    assert unescaped_id(encode_id(name)) == name
    assert new_place(Doors(), Ref("doors", encode_id(name))) == Ref("doors", name)


@pytest.mark.parametrize("name", ["a/b", "..", "__x__", "a%20b", "x%5F", "plain", "BRK.B", "\0"])
def test_names_whose_id_is_the_same_today(name: str) -> None:
    """Those that Firestore forbids, those that look escaped, and those that never were."""
    assert encode_id(name) == encode_name(name)
    assert unescaped_id(encode_id(name)) is None


@pytest.mark.parametrize("foreign", ["a%20b", "x%5f", "%FF", "dev__api_%5Fx", "x_%2Fy_"])
def test_ids_that_no_build_made_stay(foreign: str) -> None:
    """Another program's, or a key of several parts: what they would be called today cannot be known."""
    assert unescaped_id(foreign) is None


@given(st.text(min_size=1, max_size=30))
def test_only_a_changed_id_is_moved_and_to_the_id_of_today(name: str) -> None:
    old, new = encode_id(name), encode_name(name)
    assert unescaped_id(old) == (None if old == new else new)
    assert unescaped_id(new) is None


def test_a_key_of_several_parts_keeps_its_ids() -> None:
    class Rooms(Doors):
        single_key = False  # as with `key = ("house", "door")`

    assert new_place(Rooms(), Ref("doors", "x%5F")) is None


@pytest.mark.parametrize("view", [Doors(), Owners(), Passes()])
def test_an_empty_new_place_takes_the_document_as_it_is(view: View) -> None:
    """Under the precondition that it is still empty; a tally too, since there is one count."""
    move = planned(view, stamped("5", n=1, docId="x%5F"), None)
    assert move.outcome is Moved.MOVED
    assert written(move) == stamped("5", n=1, docId="x_")
    assert isinstance(move.writes[0], Put)
    assert move.writes[0].base is None


def test_a_doc_id_of_the_teams_own_is_kept() -> None:
    assert written(planned(Doors(), stamped("5", docId="mine"), None))["docId"] == "mine"
    assert "docId" not in written(planned(Doors(), stamped("5"), None))


def test_a_tombstone_is_moved_and_wins_like_any_document() -> None:
    tombstone = stamped("5", deleted=True)
    assert written(planned(Doors(), tombstone, None)) == tombstone
    assert written(planned(Doors(), tombstone, stamped("4", state="open"))) == tombstone
    assert planned(Doors(), stamped("4", state="open"), tombstone).outcome is Moved.SUPERSEDED


def test_of_two_the_greater_stamp_stays() -> None:
    """At equal stamps both are the same event's, and the new place has it already."""
    replaced = planned(Doors(), stamped("5", state="old", docId="x%5F"), stamped("4", state="new"))
    assert (replaced.outcome, written(replaced)) == (Moved.REPLACED, stamped("5", state="old", docId="x_"))
    assert isinstance(replaced.writes[0], Put)
    assert replaced.writes[0].base == 9
    for stamp in ("5", "6"):
        superseded = planned(Doors(), stamped("5", state="old"), stamped(stamp, state="new"))
        # Written again under its version: if it is deleted meanwhile, the old one must not go as well.
        kept = Put(NEW, 9, stamped(stamp, state="new"))
        assert superseded == Move(Moved.SUPERSEDED, [kept, Delete(OLD, 7)])


def test_an_adopted_document_counts_with_its_stamp() -> None:
    assert planned(Adopting(), {"stood": 3}, stamped(stamp_of(2))).outcome is Moved.REPLACED
    assert planned(Adopting(), {"stood": 3}, stamped(stamp_of(4))).outcome is Moved.SUPERSEDED


@pytest.mark.parametrize("view", [Doors(), Owners(), Passes()])
def test_a_document_of_another_program_is_left(view: View) -> None:
    """Under the old id, the new one, or both: it is neither moved, nor replaced, nor deleted."""
    theirs = {"state": "theirs"}
    for old, new in ((theirs, None), (theirs, stamped("1")), (stamped("1"), theirs), (theirs, theirs)):
        move = planned(view, old, new)
        assert (move.outcome, move.writes) == (Moved.LEFT, [])
        assert "was not written by Millpond" in move.why


def test_a_view_that_raises_leaves_both() -> None:
    move = planned(Broken(), {"state": "old"}, {"state": "new"})
    assert (move.outcome, move.writes, "ZeroDivisionError" in move.why) == (Moved.LEFT, [], True)


def test_two_counts_are_left_and_the_way_out_is_named() -> None:
    move = planned(Passes(), stamped("5", n=3), stamped("6", n=1))
    assert (move.outcome, move.writes) == (Moved.LEFT, [])
    assert "millpond rebuild doors" in move.why


def test_what_is_gone_is_not_written() -> None:
    for new in (None, stamped("5")):
        assert planned(Doors(), None, new) == Move(Moved.GONE, [])


@pytest.mark.parametrize("rule", ["second", ""])
def test_fields_that_no_event_gave_and_a_stamp_of_another_rule(rule: str) -> None:
    """A field that another program added stays. What another rule stamped is adopted first."""
    view = Ruled()
    view.order = rule
    old = {"rank": 5, "state": "old", "source": {"stamp": "9", "order": "first", "messageId": "m"}}
    holders = [{"stamp": stamp_of(3), "key": "k", "fields": ["state", "rank"]}]
    source = {"stamp": stamp_of(3), "stamps": holders, **({"order": rule} if rule else {})}
    new = {"rank": 3, "state": "new", "note": 1, "source": source}
    merged = written(planned(view, old, new))
    assert (merged["state"], merged["rank"], merged["note"]) == ("old", 5, 1)
    assert (merged["source"]["stamp"], merged["source"].get("order", "")) == (stamp_of(5), rule)
    assert merged["source"]["messageId"] == "m"


# --- moving, and having gone to the new id from the start, lead to the same document ------------------------------

_EVENTS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.dictionaries(st.sampled_from(["state", "owner", "room"]), st.integers(0, 3), max_size=3),
        st.booleans(),
    ),
    max_size=12,
)


def folded(view: View, document_id: str, deliveries: list[Delivery]) -> Document | None:
    ref, document = Ref("doors", document_id), None
    for number, one in enumerate(deliveries):
        item = Router([view], RouteRules(env="dev")).route(one, 0)
        (target,) = item.targets
        assert target.ref == ref
        snapshots = {ref: Snapshot(ref, number, document)}
        if target.receipt is not None:
            snapshots[target.receipt] = Snapshot(target.receipt, None, None)
        for write in plan([item], snapshots, 0, Receipts()).writes:
            if isinstance(write, Put) and write.ref == ref:
                document = write.data
    return document


@pytest.mark.parametrize("kind", [Doors, Owners])
@given(events=_EVENTS)
def test_moving_leads_to_what_the_new_id_would_have_had_all_along(kind: type[View], events: Any) -> None:
    """The events of the earlier build and those of today, each at its id and then moved, in whatever order."""
    deliveries = [
        delivery({"topic": "doors", "door": "x_", "at": at(seconds), **fields}, f"m{number}")
        for number, (seconds, fields, _) in enumerate(events)
    ]
    earlier, today = kind(), kind()
    earlier.single_key = False
    before = [one for one, (_, _, old) in zip(deliveries, events, strict=True) if old]
    after = [one for one, (_, _, old) in zip(deliveries, events, strict=True) if not old]
    old, new = folded(earlier, "x%5F", before), folded(today, "x_", after)
    move = planned(today, old, new)
    puts = [write.data for write in move.writes if isinstance(write, Put)]
    assert (puts[0] if puts else new) == folded(kind(), "x_", deliveries)
