"""Checks of every commit and every acknowledgement. They raise Broken, and never change the world.

`final_checks.py` has the checks of the world at rest. Called by `world.py` and the simulated store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from millpond.core.collections import LETTERS, RECEIPTS
from millpond.core.model import LogEntry, Ref, Snapshot, Version
from millpond.sim import oracle
from millpond.sim.facts import REFUSED, PublishedMessage
from millpond.sim.letter_checks import LetterChecks
from millpond.sim.oracle import KIND_OF, TALLIES, Document, FactKind
from millpond.sim.rules import AT_ONCE_S, Broken, Rules
from millpond.sim.store import CommittedChange, Storehouse

DURABLE = "no ack before durability"
# Fields that Millpond adds to what the view returned.
OURS = ("source", "ingestedAt")


class Checks:
    """Observes every commit of the store."""

    def __init__(self, house: Storehouse, rules: Rules, seen: Counter[str]) -> None:
        self._house = house
        self._rules = rules
        self._seen = seen
        self.messages: dict[str, PublishedMessage] = {}
        # Ids of messages that a document has ever named as its source, or as the source of a field.
        self.written: set[str] = set()
        # Documents of another program, which no view adopts.
        self.unowned: set[Ref] = set()
        self._versions: dict[Ref, Version] = {}
        # When a person deleted the document, on the event loop's clock.
        self._deleted_at: dict[Ref, float] = {}
        self._purged_at: dict[Ref, float] = {}
        self.letters = LetterChecks(house, rules, seen, self.messages, self.is_unowned, self._is_forgotten)

    @property
    def buried(self) -> set[str]:
        """Ids of messages that ever had a letter."""
        return self.letters.buried

    def add(self, message: PublishedMessage) -> None:
        self.messages[message.id] = message

    def deleted(self, ref: Ref) -> None:
        self._deleted_at[ref] = self._house.loop.time()

    def was_deleted(self, message: PublishedMessage) -> bool:
        """Whether a person ever deleted a document that this message feeds."""
        refs = [Ref(kind.collection, kind.id_of(message)) for kind in oracle.kinds_of(message)]
        return any(ref in self._deleted_at for ref in refs)

    @property
    def anything_deleted(self) -> bool:
        return bool(self._deleted_at)

    def committed(self, changes: Sequence[CommittedChange], log: Sequence[LogEntry]) -> None:
        for old, new in changes:
            self._check_change(old, new)
        self._note_batch(log)

    def _check_change(self, old: Snapshot, new: Snapshot) -> None:
        if new.version is not None:
            self._version_is_new(new)
        collection = new.ref.collection
        if new.ref in self.unowned:
            if old.data is not None:
                raise Broken("documents of others are left alone", f"{new.ref.path} was overwritten")
            return
        if new.data is None:
            if collection == LETTERS:
                self._purged_at[new.ref] = self._house.loop.time()
            return
        if collection in KIND_OF:
            self._is_what_its_message_says(KIND_OF[collection], new)
            self._grows(KIND_OF[collection], old, new)
        elif collection == TALLIES:
            self._counts_once(old, new)
        elif collection == LETTERS:
            self.letters.check(old, new)
        elif collection == RECEIPTS:
            self._has_its_effect(old, new)

    def acknowledged(self, message: PublishedMessage) -> None:
        """The broker will not redeliver it: each view has its effect, a greater effect, or stands in its letter."""
        listed = self.letters.views_in_letter(message) if message.id in self.buried else ()
        for view in oracle.views_of(message):
            if view in listed:
                continue
            # A document that the store refuses may have been superseded in its batch.
            refuses = oracle.never_takes(message, view) and message.fact.flaw != REFUSED
            if refuses or self.is_unowned(message, view):
                raise Broken(DURABLE, f"{message.id} is acknowledged, {view} refuses it, and there is no letter")
            if view != TALLIES:
                self._has_effect(message, KIND_OF[view])
            elif message.fact.number not in self._passes(message):
                raise Broken(DURABLE, f"{message.id} is acknowledged, its pass not counted")

    def refused(self, message: PublishedMessage) -> None:
        """It was answered 400: the broker dead-letters it, and the copy has a new id."""
        if message.id in self.written:
            raise Broken("a taken message is not refused", f"{message.id} is in a document, and was answered 400")

    def is_unowned(self, message: PublishedMessage, view: str) -> bool:
        """Whether the view's document for this message belongs to another program."""
        kind = KIND_OF.get(view)
        return Ref(view, message.fact.key if kind is None else kind.id_of(message)) in self.unowned

    def _has_effect(self, message: PublishedMessage, kind: FactKind) -> None:
        ref = Ref(kind.collection, kind.id_of(message))
        if oracle.is_late(message, kind) or self._is_forgotten(ref):
            return
        document = self._house.get(ref).data
        if document is None or not self._holds(kind, document, message):
            held = None if document is None else document["source"]["messageId"]
            raise Broken(DURABLE, f"{message.id} is acknowledged, {ref.path} is {held}'s")

    def holders(self, kind: FactKind, document: Document) -> dict[str, PublishedMessage]:
        """The message each field of the document comes from."""
        source = document["source"]
        if not kind.merged:
            return dict.fromkeys(document, self.messages[source["messageId"]])
        return {name: self._of_stamp(group["stamp"]) for group in source["stamps"] for name in group["fields"]}

    def _holds(self, kind: FactKind, document: Document, message: PublishedMessage) -> bool:
        """Whether every field of the message is in the document, or was set by a greater message."""
        own = oracle.rank(message, kind)
        holders = self.holders(kind, document)
        names = kind.fields_of(message) if kind.merged else ("source",)
        return all(name in holders and oracle.rank(holders[name], kind) >= own for name in names)

    def _version_is_new(self, new: Snapshot) -> None:
        """A reused version would let a writer commit that has not seen the state in between."""
        last = self._versions.get(new.ref)
        assert isinstance(new.version, int)  # noqa: S101 - the memory store's versions are integers
        if isinstance(last, int) and new.version <= last:
            raise Broken("versions are never reused", f"{new.ref.path} has version {new.version} after {last}")
        self._versions[new.ref] = new.version

    def _is_what_its_message_says(self, kind: FactKind, new: Snapshot) -> None:
        document = new.data or {}
        self._seen["tombstone written"] += "deleted" in document
        # Cached by message: mostly one message sets the whole document, and its content is computed once.
        says: dict[str, Document] = {}
        for name, message in self.holders(kind, document).items():
            self.written.add(message.id)
            if name in OURS:
                continue
            if message.id not in says:
                says[message.id] = kind.fields_of(message)
            said = says[message.id]
            if name not in said or said[name] != document.get(name):
                shown = f"{document.get(name)!r}, and {message.id} says {said.get(name)!r}"
                raise Broken("documents equal the oracle", f"{new.ref.path}: {name} is {shown}")

    def _grows(self, kind: FactKind, old: Snapshot, new: Snapshot) -> None:
        if old.data is None or new.data is None:
            return
        now = self.holders(kind, new.data)
        for name, before in self.holders(kind, old.data).items():
            after = now.get(name)
            if after is None and kind.merged:
                raise Broken("stamps only grow", f"{new.ref.path} forgot {name}, which {before.id} said")
            if after is not None and oracle.rank(after, kind) < oracle.rank(before, kind):
                raise Broken("stamps only grow", f"{new.ref.path}: {name} went back from {before.id} to {after.id}")

    def _counts_once(self, old: Snapshot, new: Snapshot) -> None:
        before, after = (old.data or {}).get("passes", []), (new.data or {})["passes"]
        if len(set(after)) != len(after) or (new.data or {})["count"] != len(after):
            raise Broken("tallies count each event once", f"{new.ref.path} counts {_twice(after)} twice")
        then, now = (self._source_rank(snapshot.data) for snapshot in (old, new))
        if then is not None and (now is None or now < then):
            raise Broken("stamps only grow", f"{new.ref.path} went back")
        if not set(before) <= set(after):
            raise Broken("tallies count each event once", f"{new.ref.path} forgot {set(before) - set(after)}")

    def _source_rank(self, tally: Document | None) -> oracle.Rank | None:
        """The rank of the greatest event that the tally says it has counted."""
        return (
            None if tally is None else oracle.rank(self._of_stamp(tally["source"]["stamp"]), KIND_OF["gate_last"])
        )

    def _has_its_effect(self, old: Snapshot, new: Snapshot) -> None:
        """A receipt is committed with its effect; otherwise the next copy would be dropped without one."""
        renewed = old.data is not None and new.data is not None and old.data["createdAt"] != new.data["createdAt"]
        self._seen["receipt expired and made anew"] += renewed
        known = {} if renewed else (old.data or {}).get("views", {})
        for view, entry in (new.data or {})["views"].items():
            collection, _, doc_id = entry["document"].partition("/")
            ref = Ref(collection, doc_id)
            if view in known or self._is_forgotten(ref):
                continue
            document = self._house.get(ref).data
            message = self._of_stamp(entry["stamp"])
            if collection == TALLIES:
                there = document is not None and message.fact.number in document["passes"]
            else:
                there = document is not None and self._holds(KIND_OF[collection], document, message)
            if not there:
                raise Broken("receipts agree", f"{new.ref.id} says {entry['outcome']}, {ref.path} does not")

    def _passes(self, message: PublishedMessage) -> Sequence[int]:
        collection, _, doc_id = oracle.tally_path(message.fact).partition("/")
        document = self._house.get(Ref(collection, doc_id)).data
        return () if document is None else list(document["passes"])

    def _is_forgotten(self, ref: Ref) -> bool:
        at = self._deleted_at.get(ref, self._purged_at.get(ref))
        return at is not None and self._house.loop.time() < at + AT_ONCE_S

    def _of_stamp(self, stamp: str) -> PublishedMessage:
        return self.messages[stamp.split(".", 3)[3]]

    def _note_batch(self, log: Sequence[LogEntry]) -> None:
        applied = Counter(view.doc for entry in log for view in entry.result.views if view.outcome == "applied")
        self._seen["superseded in its batch"] += any(count > 1 for count in applied.values())


def _twice(values: Sequence[Any]) -> list[Any]:
    return [value for value, count in Counter(values).items() if count > 1]
