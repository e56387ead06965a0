"""A letter's payload is corrected: the original is kept, and the message keeps its place in the order."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec
import pytest

from millpond import Event
from millpond.core.collections import LETTERS
from millpond.core.errors import EditRefused, InvalidEvent
from millpond.core.model import Delivery, Document, Outcome, Ref, Result
from millpond.core.ports import StoreWithCatalog
from millpond.dead_letters.correction import EDITS_LISTED_MAX, Edit
from millpond.stores.log_entry import decode_entry, encode_body
from tests.common.pond import NOW, SECOND, at, delivery
from tests.common.rig import Rig
from tests.common.stores import Run, open_store
from tests.reprocess.doors import Doors, Passes
from tests.reprocess.folding import Works

LETTER = Ref(LETTERS, "s__m1")
STORES = ["memory", "sqlite", "firestore"]


class Strict(Doors):
    """Refuses a door without a room."""

    name = collection = "strict"

    def document(self, event: Event) -> Document:
        return {"state": event.require("state"), "room": event.require("room")}


def payload(state: object, at_s: float = 1, **more: Any) -> dict[str, Any]:
    return {"topic": "doors", "door": "d", "state": state, "at": at(at_s), **more}


def edit(content: object, by: str = "Ada", edits: int | None = None) -> Edit:
    return Edit(json.dumps(content).encode(), by, edits)


def broken(message_id: str = "m1") -> Delivery:
    """A door without a state: the view refuses it."""
    return delivery({"topic": "doors", "door": "d", "at": at(1)}, message_id, 1)


async def replayed(rig: Rig[StoreWithCatalog], letter_id: str = LETTER.id) -> Result:
    result = await rig.service.replay_letter(letter_id)
    assert result is not None
    return result


async def opened(rig: Rig[StoreWithCatalog]) -> tuple[dict[str, Any], Delivery]:
    found = await rig.service.letters.open_letter(LETTER)
    assert found is not None
    return found[0].data or {}, found[1]


@pytest.mark.parametrize("kind", STORES)
def test_a_corrected_message_is_applied_at_its_own_place(
    kind: str, request: pytest.FixtureRequest, run: Run
) -> None:
    """Older events stay overtaken, newer ones win; the letter keeps the original, and who edited it and when."""
    store = open_store(kind, request)

    async def check() -> None:
        async with Works([Doors()], store) as works:
            old, bad, new = (delivery(payload("old", 0), "m0", 0), broken(), delivery(payload("new", 2), "m2", 2))
            await works.take(old, bad)
            works.now = NOW + 9 * SECOND
            assert await works.service.edit_letter(LETTER.id, edit(payload("mended")))
            letter, held = await opened(works)
            assert held.data == bad.data
            assert held.correction is not None
            assert json.loads(held.correction) == payload("mended")
            assert [(one["by"], one["at"].second) for one in letter["edits"]] == [("Ada", 9)]
            result = await replayed(works)
            assert result.outcome is Outcome.APPLIED
            document = await works.document("doors/d")
            assert (document["state"], document["source"]["messageId"]) == ("mended", "m1")
            await works.take(old)
            assert (await works.document("doors/d"))["state"] == "mended"
            await works.take(new)
            assert (await replayed(works)).outcome is Outcome.DUPLICATE
            assert (await works.document("doors/d"))["state"] == "new"
            assert (await works.verify()).listed == []
        await store.close()

    run(check())


@pytest.mark.parametrize("kind", STORES)
def test_edits_follow_each_other_and_leave_nothing_behind(
    kind: str, request: pytest.FixtureRequest, run: Run
) -> None:
    """The last one counts, the original can be put back, and a purge takes the corrected payload along."""
    store = open_store(kind, request)

    async def check() -> None:
        async with Works([Doors()], store) as works:
            await works.take(broken())
            parts = f"{LETTER.path}/parts"
            for number in range(EDITS_LISTED_MAX + 5):
                assert await works.service.edit_letter(LETTER.id, edit(payload(f"state {number}"), edits=number))
                assert await store.count_documents(parts) == 1
            letter, held = await opened(works)
            assert (len(letter["edits"]), letter["editCount"]) == (EDITS_LISTED_MAX, EDITS_LISTED_MAX + 5)
            assert b"state 24" in (held.correction or b"")
            assert await works.service.edit_letter(LETTER.id, Edit(None, "Grace"))
            letter, held = await opened(works)
            assert held.correction is None
            assert (letter["edits"][-1]["by"], letter["edits"][-1]["size"]) == ("Grace", None)
            assert await store.count_documents(parts) == 0
            assert (await replayed(works)).outcome is Outcome.POISON
            assert await works.service.edit_letter(LETTER.id, edit(payload("mended")))
            assert await works.service.letters.purge(LETTER)
            assert await store.count_documents(parts) == 0
            assert not await works.service.edit_letter(LETTER.id, edit(payload("mended")))
        await store.close()

    run(check())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"state": ', "invalid_json"),
        (b"[1]", "not_an_object"),
        (b'{"n": 123456789012345678901234567890}', "integer_out_of_range"),
        (b'{"a":' * 150 + b"1" + b"}" * 150, "too_deep"),
        (b'{"n": NaN}', "invalid_json"),
    ],
)
async def test_a_payload_that_no_view_could_be_asked_about_is_refused(data: bytes, reason: str) -> None:
    """It is checked as an arriving message is, and the letter stays as it was."""
    async with Works([Doors()]) as works:
        await works.take(broken())
        before = await works.snapshot(LETTER.path)
        with pytest.raises(InvalidEvent) as refused:
            await works.service.edit_letter(LETTER.id, Edit(data, "Ada"))
        assert refused.value.reason == reason
        assert await works.snapshot(LETTER.path) == before


@pytest.mark.parametrize("by", ["", "  ", "a" * 101, "Ada\nLovelace", "A\u202eda"])
async def test_who_edits_must_be_readable(by: str) -> None:
    """The name is recorded and shown: it is short, printable, and not blank."""
    async with Works([Doors()]) as works:
        await works.take(broken())
        with pytest.raises(EditRefused) as refused:
            await works.service.edit_letter(LETTER.id, edit(payload("x"), by))
        assert refused.value.reason == "invalid_name"


async def test_an_edit_is_refused_if_it_would_be_lost() -> None:
    """Of two people the second is told; after a success the message has its place, and cannot change any more."""
    async with Works([Doors()]) as works:
        await works.take(broken())
        huge = {**payload("x"), "noise": os.urandom(1_000_000).hex()}
        for asked, reason in ((Edit(None, "Ada"), "not_edited"), (edit(huge), "payload_too_large")):
            with pytest.raises(EditRefused) as refused:
                await works.service.edit_letter(LETTER.id, asked)
            assert refused.value.reason == reason
        assert await works.service.edit_letter(LETTER.id, edit(payload("by Ada"), "Ada", 0))
        with pytest.raises(EditRefused, match="Ada has edited it meanwhile") as meanwhile:
            await works.service.edit_letter(LETTER.id, edit(payload("by Grace"), "Grace", 0))
        assert meanwhile.value.reason == "edited_meanwhile"
        await replayed(works)
        with pytest.raises(EditRefused, match="publish the change as a new message") as late:
            await works.service.edit_letter(LETTER.id, edit(payload("again")))
        assert late.value.reason == "already_replayed"
        assert (await works.document("doors/d"))["state"] == "by Ada"


async def test_only_the_views_that_refused_it_get_the_corrected_payload() -> None:
    """Verify and rebuild fold each view with the payload that it was asked with."""
    async with Works([Passes(), Strict()]) as works:
        await works.take(delivery(payload("open", 0, weight=1, room="hall"), "m0", 0))
        await works.take(delivery(payload("ajar", weight=5), "m1", 1))
        assert await works.service.edit_letter(LETTER.id, edit(payload("mended", weight=70, room="attic")))
        result = await replayed(works)
        assert [(view.view, view.outcome) for view in result.views] == [("strict", Outcome.APPLIED)]
        assert (await works.document("passes/d"))["states"] == ["ajar", "open"]
        assert (await works.document("strict/d"))["room"] == "attic"
        assert (await works.verify()).listed == []
        for view, path in (("strict", "strict/d"), ("passes", "passes/d")):
            before = await works.document(path)
            await works.delete(path)
            works.engine.forget([(await works.snapshot(path)).ref])
            rebuild = await works.rebuild(view)
            await rebuild.fold()
            assert await rebuild.swap() == 1
            assert await works.document(path) == before
            await works.held.aclose()


async def test_a_view_that_took_it_is_not_asked_again_with_another_correction() -> None:
    """Unreadable data is about every view: once one has taken the first correction, only the others are asked."""
    async with Works([Passes(), Strict()]) as works:
        await works.take(GARBLED)
        assert await works.service.edit_letter(LETTER.id, edit(payload("first")))
        assert (await replayed(works)).outcome is Outcome.POISON
        letter, _ = await opened(works)
        assert [one["view"] for one in letter["refusals"]] == ["strict"]
        assert (await works.document("passes/d"))["n"] == 1
        assert await works.service.edit_letter(LETTER.id, edit(payload("second", room="hall")))
        assert (await replayed(works)).outcome is Outcome.APPLIED
        assert (await works.document("passes/d"))["states"] == ["first"]
        assert (await works.document("strict/d"))["room"] == "hall"
        assert (await works.verify()).listed == []


async def counted_once(works: Works) -> None:
    """The tally has counted the message once, and what the log says agrees with every document."""
    assert (await works.document("passes/d"))["n"] == 1
    assert (await works.verify()).listed == []


async def edited_and_replayed(works: Works, content: dict[str, Any]) -> Result:
    assert await works.service.edit_letter(LETTER.id, edit(content))
    return await replayed(works)


GARBLED = Delivery(message_id="m1", publish_time=NOW + SECOND, data=b"{", subscription="projects/p/subscriptions/s")


async def test_a_correction_that_cannot_be_routed_opens_no_other_view() -> None:
    """A typo in the topic is a fault of the whole message; the views that took it are still not asked again."""
    async with Works([Passes(), Strict()]) as works:
        await works.take(delivery(payload("ajar", weight=5), "m1", 1))
        typo = {**payload("ajar", room="hall"), "topic": "door"}
        assert (await edited_and_replayed(works, typo)).outcome is Outcome.POISON
        assert (await edited_and_replayed(works, payload("ajar", room="hall"))).outcome is Outcome.APPLIED
        await counted_once(works)


async def test_the_original_that_is_put_back_opens_no_view_that_took_a_correction() -> None:
    """Replayed as it arrived it is still unreadable; the next correction is for the views that are left."""
    async with Works([Passes(), Strict()]) as works:
        await works.take(GARBLED)
        await edited_and_replayed(works, payload("first"))
        assert await works.service.edit_letter(LETTER.id, Edit(None, "Ada"))
        await replayed(works)
        assert (await edited_and_replayed(works, payload("second", room="hall"))).outcome is Outcome.APPLIED
        await counted_once(works)


async def test_a_redelivered_original_opens_no_view_that_took_a_correction() -> None:
    """The views refuse the original again, and are listed; the correction they took still stands."""
    async with Works([Passes(), Doors(), Strict()]) as works:
        stateless = delivery({"topic": "doors", "door": "d", "at": at(1)}, "m1", 1)
        await works.take(stateless)
        await edited_and_replayed(works, payload("first"))
        await works.take(stateless)
        await edited_and_replayed(works, payload("second", room="hall"))
        await counted_once(works)
        assert (await works.document("doors/d"))["state"] == "first"


async def test_a_crash_after_the_commit_lets_no_second_correction_in() -> None:
    """The letter does not know of the replay, so it can be edited; the view keeps the first correction."""
    async with Works([Passes(), Doors()]) as works:
        await works.take(GARBLED)
        await works.service.edit_letter(LETTER.id, edit(payload("first")))

        async def crash(message: Delivery, views: frozenset[str] | None) -> Result:
            await works.engine.handle(message, replay=True, only=views)
            raise ConnectionError("the process ended here")

        with pytest.raises(ConnectionError):
            await works.service.letters.replay(LETTER, crash)
        result = await edited_and_replayed(works, {**payload("second"), "door": "e"})
        assert result.outcome is Outcome.DUPLICATE
        assert await works.document("doors/e") is None
        await counted_once(works)


async def test_a_letter_that_was_edited_during_its_replay_is_not_applied_twice() -> None:
    """A second replay sends the newer payload, and the views say that they have the message."""
    async with Works([Passes(), Doors()]) as works:
        await works.take(GARBLED)
        await works.service.edit_letter(LETTER.id, edit(payload("first")))

        async def send(message: Delivery, views: frozenset[str] | None) -> Result:
            await works.service.edit_letter(LETTER.id, edit(payload("second")))
            return await works.engine.handle(message, replay=True, only=views)

        await works.service.letters.replay(LETTER, send)
        assert (await replayed(works)).outcome is Outcome.DUPLICATE
        await counted_once(works)


async def test_a_purged_letter_does_not_forget_what_was_taken() -> None:
    """The message comes again, gets a new letter, and is corrected once more: it counts once."""
    async with Works([Passes(), Doors()]) as works:
        await works.take(GARBLED)
        await edited_and_replayed(works, payload("first"))
        assert await works.service.letters.purge(LETTER)
        await works.take(GARBLED)
        assert (await edited_and_replayed(works, payload("second"))).outcome is Outcome.DUPLICATE
        assert (await works.document("passes/d"))["n"] == 1


async def test_a_rebuild_folds_a_new_view_with_one_payload_whenever_it_runs() -> None:
    """It got the original before a correction for another view, and goes on with it after the correction."""
    store = (first := Works([Strict()])).store
    async with first as works:
        await works.take(delivery(payload("ajar", weight=5), "m1", 1))
    async with Works([Strict(), Passes()], store) as works:
        rebuild = await works.rebuild("passes")
        await rebuild.fold()
        await edited_and_replayed(works, payload("mended", weight=70, room="hall"))
        await rebuild.swap()
        assert (await works.document("passes/d"))["states"] == ["ajar"]
        await counted_once(works)


async def test_an_expired_letter_is_not_edited() -> None:
    """The store may delete it at any moment."""
    async with Works([Doors()]) as works:
        await works.take(broken())
        works.now += 15 * 86_400 * SECOND
        assert not await works.service.edit_letter(LETTER.id, edit(payload("late")))


async def test_the_log_holds_a_correction_once_for_all_views() -> None:
    """A view refers to the view that holds the same payload, so that many views do not multiply it."""

    class More(Doors):
        def __init__(self, number: int) -> None:
            self.name = self.collection = f"more{number}"

    async with Works([More(number) for number in range(20)]) as works:
        await works.take(GARBLED)
        await edited_and_replayed(works, payload("mended", noise="x" * 10_000))
        (entry,) = await works.store.find_events("m1")
        assert len(entry.corrected) == 20
        body = encode_body(entry)
        assert len(body) < 20_000
        again = decode_entry("m1", entry.topic, None, entry.arrived_at, "applied", body)
        assert again.corrected == entry.corrected
        assert again.result.views == [msgspec.structs.replace(view, wrote=False) for view in entry.result.views]


async def test_a_view_that_is_added_later_gets_the_correction_if_it_refuses_the_original() -> None:
    """It was not asked when the message arrived, and the original is what the operator found wrong."""
    store = (first := Works([Doors()])).store
    async with first as works:
        await works.take(broken())
        await works.service.edit_letter(LETTER.id, edit(payload("mended", weight=7)))
        await replayed(works)
    async with Works([Doors(), Passes()], store) as works:
        rebuild = await works.rebuild("passes")
        await rebuild.fold()
        await rebuild.swap()
        assert (await works.document("passes/d"))["states"] == ["mended"]
        assert (await works.verify()).listed == []


async def test_a_message_without_a_subscription_keeps_its_letter() -> None:
    """Its letter is found by the data that arrived: a correction that fails again makes no second letter."""
    async with Works([Doors()]) as works:
        bad = delivery({"topic": "doors", "door": "d", "at": at(1)}, "m1", 1, subscription="")
        await works.take(bad)
        assert await works.service.edit_letter("-__m1", edit({"topic": "doors", "door": "d", "still": "wrong"}))
        assert (await replayed(works, "-__m1")).outcome is Outcome.POISON
        assert await works.store.count_documents(LETTERS) == 1
        assert await works.service.edit_letter("-__m1", edit(payload("mended")))
        assert (await replayed(works, "-__m1")).outcome is Outcome.APPLIED
        (again,) = await works.take(bad)
        assert again.outcome is Outcome.POISON
        assert await works.store.count_documents(LETTERS) == 1
        assert (await works.store.count_events())["doors"] == {"applied": 1}


async def test_an_edit_during_a_replay_is_not_taken_for_replayed() -> None:
    """The letter records which payload the replay sent."""
    async with Works([Doors()]) as works:
        await works.take(broken())
        await works.service.edit_letter(LETTER.id, edit(payload("first")))

        async def send(message: Delivery, views: frozenset[str] | None) -> Result:
            await works.service.edit_letter(LETTER.id, edit(payload("second")))
            return await works.engine.handle(message, replay=True, only=views)

        await works.service.letters.replay(LETTER, send)
        letter, _ = await opened(works)
        assert (letter["replayedEdits"], letter["editCount"]) == (1, 2)
        assert (await works.document("doors/d"))["state"] == "first"


async def test_an_edit_is_logged_without_the_payload() -> None:
    """An operator finds in the log who edited which letter; payloads are never logged."""
    async with Works([Doors()]) as works:
        await works.take(broken())
        await works.service.edit_letter(LETTER.id, edit(payload("secret")))
        (line,) = [line for line in works.lines() if line["message"] == "a dead letter was edited"]
        assert (line["severity"], line["letter"], line["by"]) == ("NOTICE", LETTER.id, "Ada")
        assert "secret" not in json.dumps(works.lines())


@pytest.mark.parametrize("kind", STORES)
def test_a_big_letter_is_corrected_too(kind: str, request: pytest.FixtureRequest, run: Run) -> None:
    """A delivery in parts stays in its parts, beside the part that holds the correction."""
    store = open_store(kind, request)

    async def check() -> None:
        async with Works([Doors()], store) as works:
            noise = os.urandom(1_000_000).hex()
            await works.take(delivery({"topic": "doors", "door": "d", "noise": noise, "at": at(1)}, "m1", 1))
            parts = f"{LETTER.path}/parts"
            in_parts = await store.count_documents(parts)
            assert in_parts > 1
            assert await works.service.edit_letter(LETTER.id, edit(payload("mended")))
            assert (await replayed(works)).outcome is Outcome.APPLIED
            assert (await works.document("doors/d"))["state"] == "mended"
            _, held = await opened(works)
            assert noise.encode() in (held.data or b"")
            assert await works.service.letters.purge(LETTER)
            assert await store.count_documents(parts) == 0
        await store.close()

    run(check())
