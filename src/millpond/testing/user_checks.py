"""Checks of a user's views in the full simulation: every commit, every acknowledgement, and the world at rest.

They know what the views say of each message (`reference`), and nothing of what the engine decides. They raise
Broken. Called by `user_world`, the simulated store and the simulated broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from millpond.core.collections import LETTERS, RECEIPTS
from millpond.core.document import same_value
from millpond.core.errors import Poison
from millpond.core.model import Delivery, Document, LogEntry, Ref, Snapshot, Version
from millpond.core.stamp import decode_stamp
from millpond.core.view import Latest, Merge, Tally, View
from millpond.sim.facts import PublishedMessage
from millpond.sim.letter_checks import check_whole
from millpond.sim.rules import Broken
from millpond.sim.store import CommittedChange, Storehouse
from millpond.testing.asking import EventDecoder, ask
from millpond.testing.describe import text_of
from millpond.testing.reference import OURS, POISON, TAKEN, Rank, Take, fold, take

FOLD = "documents equal the fold"
GROW = "stamps only grow"
DURABLE = "no ack before durability"
ONCE = "tallies count each event once"
LETTER = "no good message in the letters"
SOUND = "views do not fail"


class Meanings:
    """What each message means to each view that it is for. Views are asked once for each message."""

    def __init__(self, views: Sequence[View], decoder: EventDecoder) -> None:
        self.views = list(views)
        self._decoder = decoder
        self._of: dict[str, list[tuple[View, Take]]] = {}
        self.messages: dict[str, PublishedMessage] = {}

    def add(self, message: PublishedMessage, delivery: Delivery) -> None:
        self.messages[message.id] = message
        try:
            views = self._decoder.views_of(self._decoder.decode(delivery))
        except Poison:
            self._of[message.id] = []
            return
        found = []
        for view in views:
            asked = ask(view, lambda: self._decoder.decode(delivery))
            if asked.raised is not None and not asked.is_poison:
                raised = asked.raised
                where = f" at {raised.where}" if raised.where else ""
                said = f"{view.name}: {raised.method}() raises {type(raised.error).__name__}{where}"
                raise Broken(SOUND, f"{said} for {message.id}")
            found.append((view, take(view, asked)))
        self._of[message.id] = found

    def of(self, message_id: str) -> list[tuple[View, Take]]:
        return self._of[message_id]

    def taken(self, view: View, message_ids: Iterable[str]) -> list[Take]:
        return [one for id_ in message_ids for other, one in self._of[id_] if other is view and one.state == TAKEN]


class UserChecks:
    """Observes every commit of the store, and what the broker is told."""

    def __init__(self, house: Storehouse, meanings: Meanings) -> None:
        self._house = house
        self._meanings = meanings
        self._view_of = {view.collection: view for view in meanings.views}
        # Ids of messages that a document has named as its source, or as the source of a field.
        self.written: set[str] = set()
        # The views that a message's letter lists; none if it is about the whole message.
        self._listed: dict[str, frozenset[str]] = {}
        self._counted: set[tuple[str, str]] = set()

    def add(self, message: PublishedMessage) -> None:
        delivery = Delivery(
            message_id=message.id,
            publish_time=message.published_at,
            data=message.data,
            attributes=message.attributes,
        )
        self._meanings.add(message, delivery)

    def committed(self, changes: Sequence[CommittedChange], log: Sequence[LogEntry]) -> None:  # noqa: ARG002
        for old, new in changes:
            if new.data is None:
                continue
            if new.ref.collection == LETTERS:
                self._is_rightly_buried(new)
            elif new.ref.collection == RECEIPTS:
                self._counts_once(old, new)
            elif (view := self._find_view(new.ref)) is not None and not isinstance(view, Tally):
                self._is_what_its_messages_say(view, new)
                self._grows(view, old, new)

    def acknowledged(self, message: PublishedMessage) -> None:
        """The broker forgets it: each view has its effect, a greater effect, or is listed in its letter."""
        listed, found = self._listed.get(message.id), self._meanings.of(message.id)
        if not found and listed is None:
            raise Broken(DURABLE, f"{message.id} is poison, and there is no letter")
        for view, one in found:
            if one.state == POISON and view.name not in (listed or ()):
                raise Broken(DURABLE, f"{message.id} is poison to {view.name}, and there is no letter")
            if one.state == TAKEN:
                self._has_its_effect(message.id, view, one)

    def refused(self, message: PublishedMessage) -> None:
        """It was answered 400: the broker's copy has a new id, and a view that takes it may count it again."""
        takers = [view.name for view, one in self._meanings.of(message.id) if one.state == TAKEN]
        if takers:
            raise Broken(LETTER, f"{message.id} is answered 400, although {takers[0]} takes it")

    def check_rest(self, arrived: Sequence[str]) -> None:
        """At rest: each view's documents are the fold of the messages that arrived."""
        for view in self._meanings.views:
            expected = fold(view, self._meanings.taken(view, arrived))
            found = self._documents(view, expected)
            for ref in sorted(expected.keys() | found.keys()):
                one, other = expected.get(ref), found.get(ref)
                if one is None or other is None or not same_value(one, other):
                    raise Broken(FOLD, f"{ref.path} is {text_of(other)}, not {text_of(one)}")

    def photograph(self) -> dict[Ref, Version | None]:
        """The version of every document of the views. Any change changes it."""
        found = {}
        for view in self._meanings.views:
            takes = self._meanings.taken(view, self._meanings.messages)
            for collection in {view.collection, *(one.ref.collection for one in takes)}:
                found.update({snapshot.ref: snapshot.version for snapshot in self._house.all_of(collection)})
        return found

    def _find_view(self, ref: Ref) -> View | None:
        view = self._view_of.get(ref.collection)
        return view or next((v for c, v in self._view_of.items() if ref.collection.startswith(f"{c}/")), None)

    def _documents(self, view: View, expected: Mapping[Ref, Document]) -> dict[Ref, Document]:
        collections = {view.collection, *(ref.collection for ref in expected)}
        return {
            snapshot.ref: _without_ours(snapshot.data)
            for collection in collections
            for snapshot in self._house.all_of(collection)
        }

    def _has_its_effect(self, message_id: str, view: View, one: Take) -> None:
        if isinstance(view, Tally):
            if (view.name, one.identity) not in self._counted:
                raise Broken(DURABLE, f"{message_id} is acknowledged, and {view.name} has not counted it")
            return
        document = self._house.get(one.ref).data
        holders = {} if document is None else self._holders(view, document)
        names = one.content if isinstance(view, Merge) else ("source",)
        for name in names:
            if name not in holders or self._rank(view, holders[name]) < one.rank:
                raise Broken(DURABLE, f"{message_id} is acknowledged, and {one.ref.path} does not hold it")

    def _holders(self, view: View, document: Document) -> dict[str, str]:
        """The message that each field of the document comes from."""
        source = document["source"]
        if isinstance(view, Latest):
            return dict.fromkeys(document, source["messageId"])
        return {
            name: decode_stamp(group["stamp"]).message_id for group in source["stamps"] for name in group["fields"]
        }

    def _rank(self, view: View, message_id: str) -> Rank:
        return next(one.rank for other, one in self._meanings.of(message_id) if other is view)

    def _is_what_its_messages_say(self, view: View, new: Snapshot) -> None:
        document = new.data or {}
        for name, message_id in self._holders(view, document).items():
            self.written.add(message_id)
            if name in OURS:
                continue
            said = next(one.content for other, one in self._meanings.of(message_id) if other is view)
            if name not in said or not same_value(said[name], document.get(name)):
                text = f"{new.ref.path}: {name} is {text_of(document.get(name))}"
                raise Broken(FOLD, f"{text}, and {message_id} says {text_of(said.get(name))}")

    def _grows(self, view: View, old: Snapshot, new: Snapshot) -> None:
        if old.data is None or new.data is None:
            return
        before, after = self._holders(view, old.data), self._holders(view, new.data)
        for name, earlier in before.items():
            later = after.get(name)
            if later is None and isinstance(view, Merge):
                raise Broken(GROW, f"{new.ref.path} forgot {name}, which {earlier} said")
            if later is not None and self._rank(view, later) < self._rank(view, earlier):
                raise Broken(GROW, f"{new.ref.path}: {name} went back from {earlier} to {later}")

    def _counts_once(self, old: Snapshot, new: Snapshot) -> None:
        """The receipt is committed with the tally: a second one for the same event is a second count."""
        known = (old.data or {}).get("views", {})
        for name, entry in (new.data or {})["views"].items():
            view = next((view for view in self._meanings.views if view.name == name), None)
            if not isinstance(view, Tally) or name in known:
                continue
            message_id = decode_stamp(entry["stamp"]).message_id
            identity = next(one.identity for other, one in self._meanings.of(message_id) if other is view)
            if (name, identity) in self._counted:
                raise Broken(ONCE, f"{entry['document']} counts {message_id} a second time")
            self._counted.add((name, identity))

    def _is_rightly_buried(self, new: Snapshot) -> None:
        letter: dict[str, Any] = new.data or {}
        message = self._meanings.messages[letter["messageId"]]
        listed = self._listed[message.id] = frozenset(one["view"] for one in letter["refusals"])
        check_whole(self._house, message, new)
        refusing = {view.name for view, one in self._meanings.of(message.id) if one.state == POISON}
        if listed - refusing or (self._meanings.of(message.id) and not listed):
            raise Broken(LETTER, f"{message.id} is buried as {letter['reason']}: {letter.get('error')}")


def _without_ours(document: Document | None) -> Document:
    return {name: value for name, value in (document or {}).items() if name not in OURS}
