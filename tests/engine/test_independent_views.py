"""Views of one event are independent: what one refuses, fails on or cannot store holds up no other."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from millpond import Event, InvalidEvent, Latest, Merge, Tally
from millpond.core.ack import settle_push
from millpond.core.item import DeadLetter, Item
from millpond.core.model import Delivery, Document, Outcome, Ref, Result
from millpond.core.severity import severity_of
from millpond.dead_letters.filter import ReplayState, state_of
from millpond.dead_letters.store import StoredLetters
from tests.common.faulty_store import FaultyStore
from tests.common.pond import SECOND, at, delivery
from tests.common.rig import Bench

LETTER = "dead_letters/s__m1"
HOUR_US = 3_600 * SECOND


@dataclasses.dataclass
class Moods:
    """How each of the views below takes an event: set by a test, changed by a fix."""

    shelf: str = ""
    count: str = ""
    names: str = ""


class _Moody:
    def __init__(self, moods: Moods) -> None:
        self._moods = moods

    def _bear(self, view: str) -> None:
        mood = getattr(self._moods, view)
        if mood == "bug":
            raise ZeroDivisionError("a bug")
        if mood == "poison":
            raise InvalidEvent(f"{view} refuses it")


class Shelf(_Moody, Latest):
    """Where each book is. The store refuses the status `unstorable`."""

    topics = ("books",)
    name = collection = "shelf"
    key = "book"
    time = "at"

    def document(self, event: Event) -> Document:
        self._bear("shelf")
        status = "unstorable" if self._moods.shelf == "unstorable" else "fine"
        return {"place": event.get("place"), "status": status}


class Moves(_Moody, Tally):
    """How often each book was moved."""

    topics = ("books",)
    name = collection = "count"
    key = "book"
    time = "at"

    def fold(self, event: Event, current: Document) -> Document:
        self._bear("count")
        return {"n": current.get("n", 0) + 1, "last": event.message_id}


class Names(_Moody, Latest):
    """The name of each book."""

    topics = ("books",)
    name = collection = "names"
    key = "book"
    time = "at"

    def document(self, event: Event) -> Document:
        self._bear("names")
        return {"name": event.get("name")}


class Library(Bench):
    def __init__(self, **environment: str) -> None:
        super().__init__(FaultyStore(), **environment)
        self.moods = Moods()
        self.store.refused.add("unstorable")
        self.use(Shelf(self.moods), Moves(self.moods), Names(self.moods))

    async def one(self, message: Delivery) -> Result:
        (result,) = await self.send(message)
        return result

    async def counted(self) -> int:
        return int((await self.document("count/b1") or {}).get("n", 0))

    def view_events(self) -> dict[str, dict[str, int]]:
        return self.service.metrics.events_by_view()


def book(message_id: str = "m1", at_s: float = 1, **more: Any) -> Delivery:
    payload = {"topic": "books", "book": "b1", "place": f"p{at_s}", "name": "n", "at": at(at_s)}
    return delivery(payload, message_id, at_s, **more)


def outcomes(result: Result) -> dict[str, str]:
    return {view.view: f"{view.outcome} {view.reason}" for view in result.views}


def listed(letter: Document) -> dict[str, str]:
    return {refusal["view"]: refusal["reason"] for refusal in letter["refusals"]}


@pytest.mark.parametrize(
    ("mood", "reason"),
    [("poison", "invalid_event"), ("unstorable", "write_refused")],
    ids=["poison", "refused write"],
)
async def test_a_refusal_holds_up_no_other_view(mood: str, reason: str) -> None:
    """The others are applied, and one letter says which view refused it and why."""
    library = Library()
    library.moods.shelf = mood
    result = await library.one(book())
    assert outcomes(result) == {"count": "applied applied", "names": "applied applied", "shelf": f"poison {reason}"}
    assert (result.outcome, result.reason, result.buried) == (Outcome.POISON, reason, True)
    assert settle_push(result).http_status == 200
    assert severity_of(result) == ("ALERT" if reason == "write_refused" else "ERROR")
    letter = await library.document(LETTER)
    assert (letter["view"], letter["reason"], listed(letter)) == ("shelf", reason, {"shelf": reason})
    assert await library.counted() == 1
    assert await library.document("shelf/b1") is None


async def test_two_refused_writes_of_one_message_are_both_found() -> None:
    library = Library()

    class Twin(Shelf):
        name = collection = "twin"

    library.use(Shelf(library.moods), Twin(library.moods), Moves(library.moods), Names(library.moods))
    library.moods.shelf = "unstorable"
    result = await library.one(book())
    assert listed(await library.document(LETTER)) == {"shelf": "write_refused", "twin": "write_refused"}
    assert outcomes(result)["count"] == outcomes(result)["names"] == "applied applied"
    assert await library.counted() == 1


async def test_a_bug_in_one_view_is_retried_while_the_others_stand() -> None:
    """503 until the fix; then the message settles, and no view has counted it twice."""
    library = Library()
    library.moods.names = "bug"
    for expected in ("applied applied", "duplicate duplicate_message_noop"):
        result = await library.one(book())
        assert settle_push(result).http_status == 503
        assert outcomes(result)["count"] == expected
        assert outcomes(result)["names"] == "retry view_error"
    assert await library.document(LETTER) is None
    library.moods.names = ""
    result = await library.one(book())
    assert (result.outcome, outcomes(result)["names"]) == (Outcome.APPLIED, "applied applied")
    assert await library.counted() == 1


async def test_a_bug_that_lasts_is_buried_for_its_view_alone() -> None:
    library = Library(POISON_POLICY="native")
    library.moods.names = "bug"
    await library.one(book())
    library.now += HOUR_US + 2 * SECOND
    result = await library.one(book())
    assert (result.buried, settle_push(result).http_status) == (True, 200)
    assert listed(await library.document(LETTER)) == {"names": "view_error"}


async def test_only_the_view_that_fails_is_counted_while_a_message_is_retried() -> None:
    """Each redelivery is one failure of one view. The views that are done with it are counted when it settles."""
    library = Library()
    await library.push(book("m0", 9))
    library.moods.names = "bug"
    for _ in range(5):
        await library.push(book())
    await library.engine.drain()
    library.service.outcomes.flush()
    assert library.view_events() == {
        "shelf": {"applied": 1},
        "count": {"applied": 2},
        "names": {"applied": 1, "retry": 5},
    }


async def test_what_no_view_took_is_left_to_the_broker() -> None:
    """With a native dead-letter policy, 400: the broker keeps it, and no view can count its copy twice."""
    library = Library(POISON_POLICY="native")
    library.moods.shelf = library.moods.count = library.moods.names = "poison"
    result = await library.one(book())
    assert settle_push(result).http_status == 400
    assert await library.store.collections() == []
    assert set(outcomes(result)) == {"shelf", "count", "names"}


@pytest.mark.parametrize("taken_by", ["shelf", "count", "names"])
async def test_what_one_view_took_is_buried_here_under_every_policy(taken_by: str) -> None:
    """The broker's copy would have a new id: a view that took the event might count it again."""
    library = Library(POISON_POLICY="native")
    for name in ("shelf", "count", "names"):
        setattr(library.moods, name, "" if name == taken_by else "poison")
    result = await library.one(book(attempt=3))
    assert (settle_push(result).http_status, result.buried) == (200, True)
    assert taken_by not in listed(await library.document(LETTER))


async def test_what_one_view_took_earlier_is_buried_here_too() -> None:
    """By now it is a duplicate there; its copy would still count again."""
    library = Library(POISON_POLICY="native")
    library.moods.names = library.moods.shelf = "bug"
    await library.one(book(attempt=1))
    library.moods.names = library.moods.shelf = "poison"
    result = await library.one(book(attempt=2))
    assert settle_push(result).http_status == 200
    assert listed(await library.document(LETTER)) == {"shelf": "invalid_event", "names": "invalid_event"}


async def test_a_tally_that_cannot_count_an_old_event_does_not_take_the_latest_with_it() -> None:
    library = Library()
    old = delivery({"topic": "books", "book": "b1", "place": "p", "name": "n", "at": at(-30 * 86_400)}, "m1", 1)
    result = await library.one(old)
    assert outcomes(result)["shelf"] == "applied applied"
    assert listed(await library.document(LETTER)) == {"count": "too_old_to_count"}


async def test_there_is_one_letter_whatever_is_delivered_again() -> None:
    """Another attempt, and another view that refuses it later: the same letter, which then lists both."""
    library = Library(POISON_POLICY="park")
    library.moods.shelf = "poison"
    await library.one(book(attempt=1))
    library.moods.names = "poison"
    await library.delete("names/b1")
    library.engine.forget([Ref("names", "b1")])
    await library.one(book(attempt=2))
    letters = await library.store.list_documents("dead_letters", 9, None)
    assert [found.ref.id for found in letters] == ["s__m1"]
    assert listed(letters[0].data or {}) == {"shelf": "invalid_event", "names": "invalid_event"}


async def test_a_refusal_after_a_successful_replay_opens_the_letter_again() -> None:
    """Else a purge of the letters that were replayed successfully would lose it."""
    library = Library()
    library.moods.shelf = "poison"
    await library.one(book())
    library.moods.shelf = ""
    await library.service.replay_letter("s__m1")
    assert (await library.document(LETTER))["replayOutcome"] == "applied"
    library.moods.names = "poison"
    await library.delete("names/b1")
    library.engine.forget([Ref("names", "b1")])
    await library.one(book())
    letter = await library.document(LETTER)
    assert "replayOutcome" not in letter
    assert set(listed(letter)) == {"shelf", "names"}


async def test_a_replay_asks_only_the_views_that_refused() -> None:
    """The others took it: they are not asked again, so a tally without its receipt counts nothing twice."""
    library = Library()
    library.moods.shelf = "poison"
    await library.one(book())
    for found in await library.store.list_documents("ops_dedupe", 9, None):
        await library.delete(found.ref.path)
        library.engine.forget([found.ref])
    library.moods.shelf = ""
    result = await library.service.replay_letter("s__m1")
    assert result is not None
    assert outcomes(result) == {"shelf": "applied applied"}
    assert await library.counted() == 1


async def test_a_replay_that_one_view_still_refuses_lists_that_one() -> None:
    library = Library()
    library.moods.shelf = library.moods.names = "poison"
    await library.one(book())
    library.moods.shelf = ""
    result = await library.service.replay_letter("s__m1")
    assert result is not None
    assert (result.outcome, result.buried) == (Outcome.POISON, True)
    letter = await library.document(LETTER)
    assert (letter["replayOutcome"], listed(letter)) == ("poison", {"names": "invalid_event"})
    library.moods.names = ""
    again = await library.service.replay_letter("s__m1")
    assert again is not None
    assert outcomes(again) == {"names": "applied applied"}


async def test_a_letter_of_views_that_are_gone_stays() -> None:
    library = Library()
    library.moods.shelf = "poison"
    await library.one(book())
    later = Bench(library.store)
    later.use(Moves(library.moods), Names(library.moods))
    result = await later.service.replay_letter("s__m1")
    assert result is not None
    assert (result.outcome, result.reason) == (Outcome.POISON, "unroutable_payload")
    assert await later.document(LETTER) is not None


async def test_the_log_has_the_message_once_and_is_completed_as_views_settle() -> None:
    """Committed with the first effect, so that a rebuild folds it; the first arrival stays."""
    library = Library()
    library.moods.shelf, library.moods.names = "poison", "bug"
    arrived = library.now
    await library.one(book())
    (entry,) = await library.store.find_events("m1")
    assert (entry.result.outcome, entry.arrived_at) == (Outcome.RETRY, arrived)
    assert outcomes(entry.result)["count"] == "applied applied"
    library.now += SECOND
    library.moods.names = ""
    await library.one(book())
    (entry,) = await library.store.find_events("m1")
    assert (entry.result.outcome, entry.arrived_at) == (Outcome.POISON, arrived)
    assert outcomes(entry.result) == {
        "count": "applied applied",
        "names": "applied applied",
        "shelf": "poison invalid_event",
    }
    library.moods.shelf = ""
    await library.service.replay_letter("s__m1")
    (entry,) = await library.store.find_events("m1")
    assert (entry.result.outcome, entry.arrived_at) == (Outcome.APPLIED, arrived)
    assert await library.store.count_events() == {"books": {"applied": 1}}


async def test_a_replay_keeps_the_view_that_is_gone() -> None:
    """One of two views takes the message; the letter stays for the other, which a later version may load again."""
    library = Library()
    library.moods.shelf = library.moods.names = "poison"
    await library.one(book())
    library.moods.names = ""
    later = Bench(library.store)
    later.use(Moves(library.moods), Names(library.moods))
    result = await later.service.replay_letter("s__m1")
    assert result is not None
    assert outcomes(result) == {"names": "applied applied", "shelf": "poison unroutable_payload"}
    letter = await later.document(LETTER)
    assert (letter["replayOutcome"], listed(letter)) == ("poison", {"shelf": "unroutable_payload"})
    assert (letter["view"], letter["reason"]) == ("shelf", "unroutable_payload")


async def test_a_refusal_that_is_added_during_a_replay_keeps_the_letter_open() -> None:
    library = Library()
    library.moods.shelf = "poison"
    await library.one(book())

    async def send(message: Delivery, views: frozenset[str] | None) -> Result:
        library.moods.shelf = ""
        result = await library.engine.handle(message, replay=True, only=views)
        library.moods.names = "poison"
        await library.delete("names/b1")
        library.engine.forget([Ref("names", "b1")])
        await library.one(book())
        return result

    await library.service.letters.replay(Ref("dead_letters", "s__m1"), send)
    letter = await library.document(LETTER)
    assert listed(letter) == {"names": "invalid_event"}
    assert "replayOutcome" not in letter
    assert state_of(letter) is ReplayState.FAILED


async def test_what_one_view_took_is_buried_before_the_broker_gives_it_up() -> None:
    """Its copy would have a new id: a tally of events without id and time would count it a second time."""
    library = Library()
    library.moods.names = "bug"
    statuses = [settle_push(await library.one(book(attempt=attempt))).http_status for attempt in (1, 2, 3, 4)]
    assert statuses == [503, 503, 503, 200]
    assert listed(await library.document(LETTER)) == {"names": "view_error"}


async def test_what_no_view_took_is_retried_as_long_as_the_broker_has_it() -> None:
    library = Library()
    library.moods.names = library.moods.shelf = library.moods.count = "bug"
    assert settle_push(await library.one(book(attempt=9))).http_status == 503


@pytest.mark.parametrize("stamp", [at(0), True, b"stamp", "yesterday"], ids=repr)
async def test_an_adoption_of_a_wrong_type_is_a_bug_of_its_view_alone(stamp: Any) -> None:
    library = Library()

    class Adopting(Shelf):
        def adopt(self, document: Document) -> str | None:
            document.clear()
            return stamp  # type: ignore[no-any-return]

    library.use(Adopting(library.moods), Moves(library.moods))
    await library.put("shelf/b1", {"place": "theirs"})
    result = await library.one(book())
    assert outcomes(result) == {"count": "applied applied", "shelf": "retry view_error"}
    assert "Adopting.adopt() must return a stamp" in str(result.error)
    assert await library.document("shelf/b1") == {"place": "theirs"}


async def test_damaged_stamps_hold_up_no_other_view() -> None:
    library = Library()

    class Fields(_Moody, Merge):
        topics = ("books",)
        name = collection = "fields"
        key = "book"
        time = "at"

        def fields(self, event: Event) -> Document:
            return {"place": event.get("place")}

    library.use(Fields(library.moods), Moves(library.moods))
    await library.put("fields/b1", {"place": "x", "source": {"stamp": "s", "stamps": [{"damaged": 1}]}})
    result = await library.one(book())
    assert outcomes(result) == {"count": "applied applied", "fields": "retry view_error"}


async def test_a_slow_letter_of_one_view_holds_up_no_message() -> None:
    """The one batch that a store with one writer has under way must not wait for a letter."""
    library = Library()
    library.store.commits_in_flight_max = 1
    letters = StoredLetters(library.store, keep=10**15, wall_clock=lambda: library.now)
    begun, written = asyncio.Event(), asyncio.Event()

    async def slowly(item: Item) -> DeadLetter:
        begun.set()
        await written.wait()
        return await letters.write_letter(item)

    library.bury_with(slowly)
    library.moods.shelf = "poison"
    partly = asyncio.ensure_future(library.one(book()))
    await begun.wait()
    library.moods.shelf = ""
    async with asyncio.timeout(20):
        assert (await library.one(book("m2", 2))).outcome is Outcome.APPLIED
    assert not partly.done()
    written.set()
    assert (await partly).buried


async def test_views_that_raise_one_object_are_both_listed() -> None:
    """A module may make its exception once; the second view to raise it must not take the place of the first."""
    library = Library()
    refusal = InvalidEvent("made once")

    class Same(Names):
        name = collection = "same"

        def document(self, event: Event) -> Document:  # noqa: ARG002
            raise refusal

    class Other(Same):
        name = collection = "other"

    library.use(Same(library.moods), Moves(library.moods), Other(library.moods))
    first, second = await library.send(book("m1"), book("m2", 2))
    for message_id, result in (("m1", first), ("m2", second)):
        assert outcomes(result)["same"] == outcomes(result)["other"] == "poison invalid_event"
        assert set(listed(await library.document(f"dead_letters/s__{message_id}"))) == {"same", "other"}


async def test_each_view_has_its_line() -> None:
    """A stale latest is not hidden behind an applied history, and poison not behind either."""
    library = Library()
    await library.push(book("m0", 9))
    library.moods.names = "poison"
    await library.push(book())
    line = library.lines()[-1]
    assert (line["outcome"], line["handler"], line["write_kind"]) == ("poison", "names", "letter")
    assert {doc["handler"]: doc["outcome"] for doc in line["docs"]} == {
        "shelf": "stale_ignored",
        "count": "applied",
        "names": "poison",
    }
