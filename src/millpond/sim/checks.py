"""Checks of every commit and every acknowledgement. They raise Broken, and never change the world.

`final_checks.py` has the checks of the world at rest. Called by `world.py` and the simulated store.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from millpond.core import timestamps
from millpond.core.collections import LETTERS, RECEIPTS, part_ref
from millpond.core.model import Delivery, LogEntry, Ref, Snapshot, Version
from millpond.sim import oracle
from millpond.sim.facts import BUG, REFUSED, PublishedMessage, attributes_of, data_of
from millpond.sim.oracle import KIND_OF, Document, FactKind
from millpond.sim.store import CommittedChange, Storehouse

TALLIES = "gate_passes"
# Fields that Millpond adds to what the view returned.
OURS = ("source", "ingestedAt")
# The longest time of a delivery, with its instance frozen in the middle of it. For so long after a person deleted a
# document, an instance's answer may rest on the state before.
AT_ONCE_S = 120


def letter_of(message: PublishedMessage) -> Ref:
    """The ref of its letter, if it has one: there is one subscription."""
    return Ref(LETTERS, f"all__{message.id}")


class Broken(AssertionError):
    """A broken promise: `checker` names it, the text describes it."""

    def __init__(self, checker: str, text: str) -> None:
        super().__init__(f"{checker}: {text}")
        self.checker = checker
        self.text = text


class Rules(NamedTuple):
    """Limits of the world that the checks need. Times in microseconds."""

    now: Callable[[], int]
    receipts_kept: int
    # The skew that the product allows for, and the actual skew of instances' clocks.
    skew_allowed: int
    skew_max: int
    parked_after: int
    # Attempts of a step of a flow run.
    attempts_max: int


class Checks:
    """Observes every commit of the store."""

    def __init__(self, house: Storehouse, rules: Rules, seen: Counter[str]) -> None:
        self._house = house
        self._rules = rules
        self._seen = seen
        self.messages: dict[str, PublishedMessage] = {}
        # Ids of messages that a document has ever named as its source, or as the source of a field.
        self.written: set[str] = set()
        self.buried: set[str] = set()
        self._versions: dict[Ref, Version] = {}
        # When a person deleted the document, on the event loop's clock.
        self._deleted_at: dict[Ref, float] = {}
        self._purged_at: dict[Ref, float] = {}

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
            if new.version is not None:
                self._version_is_new(new)
            collection = new.ref.collection
            if new.data is None:
                if collection == LETTERS:
                    self._purged_at[new.ref] = self._house.loop.time()
                continue
            if collection in KIND_OF:
                self._is_what_its_message_says(KIND_OF[collection], new)
                self._grows(KIND_OF[collection], old, new)
                self._is_in_all_views(KIND_OF[collection], new)
            elif collection == TALLIES:
                self._counts_once(old, new)
            elif collection == LETTERS:
                self._is_rightly_buried(old, new)
            elif collection == RECEIPTS:
                self._has_its_effect(old, new)
        self._note_batch(log)

    def acknowledged(self, message: PublishedMessage) -> None:
        """The broker will not redeliver it: the store must hold its effect, a greater effect, or a letter."""
        if message.id in self.buried and self._lies_in_its_letter(message):
            return
        if message.fact.flaw is not None and message.fact.flaw not in {REFUSED, BUG}:
            raise Broken("no ack before durability", f"{message.id} is poison, and there is no letter")
        for kind in oracle.kinds_of(message):
            ref = Ref(kind.collection, kind.id_of(message))
            if self._is_forgotten(ref):
                continue
            document = self._house.get(ref).data
            if document is None or not self._holds(kind, document, message):
                held = None if document is None else document["source"]["messageId"]
                raise Broken("no ack before durability", f"{message.id} is acknowledged, {ref.path} is {held}'s")
        if message.fact.topic == "gates" and message.fact.number not in self._passes(message):
            raise Broken("no ack before durability", f"{message.id} is acknowledged, its pass not counted")

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

    def _is_in_all_views(self, kind: FactKind, new: Snapshot) -> None:
        """Poison in one view means applied in none: the last pass was counted in the same commit."""
        if kind.topic == "gates" and new.data is not None:
            message = self.messages[new.data["source"]["messageId"]]
            if message.fact.number not in self._passes(message):
                raise Broken("poison in one view is applied in none", f"{new.ref.path} is {message.id}'s")

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

    def _is_rightly_buried(self, old: Snapshot, new: Snapshot) -> None:
        letter = new.data or {}
        message = self.messages[letter["messageId"]]
        self.buried.add(message.id)
        flaw, reason = message.fact.flaw, letter["reason"]
        self._is_whole(message, new)
        age = self._rules.now() + self._rules.skew_max - message.published_at
        if reason == "view_error" and old.data is None and age < self._rules.parked_after:
            raise Broken("no good message in the letters", f"{message.id} was parked too early, after {age} us")
        self._seen[f"buried: {reason}"] += letter["replays"] == 0
        if flaw is None and reason == "too_old_to_count":
            oldest = self._rules.now() - self._rules.receipts_kept + self._rules.skew_allowed + self._rules.skew_max
            if message.fact.topic == "gates" and oracle.happened(message) < oldest:
                self._has_no_receipt(message)
                return
        expected = {REFUSED: "write_refused", BUG: "view_error"}.get(flaw or "")
        if flaw is None or (expected is not None and reason != expected):
            raise Broken("no good message in the letters", f"{message.id} is buried as {reason}")

    def _is_whole(self, message: PublishedMessage, letter: Snapshot) -> None:
        """A letter must hold the delivery exactly as it was sent."""
        head = letter.data or {}
        self._seen["letter in parts"] += bool(head["parts"])
        parts = [self._house.get(part_ref(letter.ref, name)).data or {} for name in head["parts"]]
        packed = head["delivery"] or b"".join(part.get("delivery", b"") for part in parts)
        try:
            kept = msgspec.msgpack.decode(zlib.decompress(packed), type=Delivery)
        except (zlib.error, msgspec.MsgspecError) as error:
            raise Broken("letters are whole", f"{letter.ref.id} cannot be opened: {error}") from None
        sent = message.id, message.published_at, data_of(message.fact), attributes_of(message.fact)
        if (kept.message_id, kept.publish_time, kept.data, kept.attributes) != sent:
            raise Broken("letters are whole", f"{letter.ref.id} does not hold {message.id} as it was sent")

    def _lies_in_its_letter(self, message: PublishedMessage) -> bool:
        """Whether its letter is there and will last (an expired one may be swept), or was just purged."""
        alive_at = timestamps.to_datetime(self._rules.now() - self._rules.skew_max)
        found = self._house.get(letter_of(message))
        if found.data is None:
            return self._is_forgotten(found.ref)
        if found.data["expireAt"] <= alive_at:
            return False
        self._is_whole(message, found)
        return True

    def _has_no_receipt(self, message: PublishedMessage) -> None:
        """An event with a live receipt was counted, so it is a duplicate at any age, and must not be buried.

        The exception: two instances had it at once, and by one instance's clock it was too old. Then it is counted
        and has a letter, and a replay of the letter is a duplicate.
        """
        now = self._rules.now()
        alive_at = timestamps.to_datetime(now + self._rules.skew_max)
        known_since = timestamps.to_datetime(now - self._rules.skew_max - AT_ONCE_S * timestamps.SECOND_US)
        for receipt in self._house.all_of(RECEIPTS):
            known = receipt.data or {}
            same = self.messages[known["messageId"]].fact == message.fact
            counted = TALLIES in known["views"] and known["createdAt"] < known_since
            if same and counted and known["expireAt"] > alive_at:
                raise Broken("receipts agree", f"{message.id} is buried, and {receipt.ref.id} says it was counted")

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
