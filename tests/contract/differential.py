"""Two stores, one story: whatever is asked of both, they answer alike.

Versions are opaque, so each store has its own; here they are kept side by side, and what they promise is checked:
never reused, and the same version means the same content.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from millpond.core.errors import WriteRefused
from millpond.core.model import Committed, Conflict, LogEntry, Outcome, Ref, Snapshot, Version
from millpond.core.ports import StoreWithCatalog
from tests.common.stores import Run
from tests.contract.writes import (
    EVENTS,
    LOGS,
    MOSTLY_RIGHT,
    REFS,
    START,
    WRONG,
    Wish,
    Wished,
    entry,
    is_storable,
    typed,
    write_of,
    writes,
)

# One version per store.
Versions = tuple[Version, ...]
# Whole microseconds, as every version of Firestore is.
NOBODYS = 10**15 + 7_000


class Refused(NamedTuple):
    """What became of a commit that no store may take."""


class Side:
    """One of the stores, and what it has told so far."""

    def __init__(self, name: str, open_it: Callable[[], StoreWithCatalog], run: Run) -> None:
        self.name = name
        self._open = open_it
        self._run = run
        self.store = open_it()
        self.contents: dict[tuple[Ref, Version], Any] = {}

    def ask(self, question: str, *args: Any) -> Any:
        try:
            return self._run(getattr(self.store, question)(*args))
        except WriteRefused:
            return Refused()

    def reopen(self) -> None:
        """As after a restart. What a store keeps nowhere else stays open."""
        if self.name != "memory":
            self._run(self.store.close())
            self.store = self._open()

    def remember(self, snapshot: Snapshot) -> None:
        """The same version, the same content."""
        if snapshot.version is not None:
            known = self.contents.setdefault((snapshot.ref, snapshot.version), typed(snapshot.data))
            assert known == typed(snapshot.data), f"{self.name}: two contents under one version of {snapshot.ref}"


class StoresAgree(RuleBasedStateMachine):
    """Asks all sides the same questions."""

    def __init__(self, sides: Sequence[Side], run: Run) -> None:
        super().__init__()
        self._run = run
        self.sides = sides
        self.current: dict[Ref, Versions] = {}
        self.past: list[tuple[Ref, Versions]] = []
        # The versions of the commit that deleted a document. Firestore's emulator takes them for the document's own
        # ones, and no writer can: it was never told them.
        self.deleted: dict[Ref, set[tuple[Version | None, ...]]] = {}
        self.arrived = 0
        self.commit_of: dict[int, int] = {}
        # Messages that the log holds as settled.
        self.settled: set[tuple[str, str]] = set()

    def teardown(self) -> None:
        for side in self.sides:
            self._run(side.store.close())

    def agreed(self, question: str, *args: Any) -> Any:
        """The answer all sides give, versions aside."""
        answers = [plain(side.ask(question, *args)) for side in self.sides]
        assert all(answer == answers[0] for answer in answers), (question, answers)
        return answers[0]

    # Several rules that write, because what is chosen is a rule: there would be more looking than writing.
    @rule(data=st.data())
    def write_one(self, data: st.DataObject) -> None:
        self.commit([data.draw(writes(self.current))], [])

    @rule(data=st.data(), entries=LOGS)
    def write_one_with_its_events(self, data: st.DataObject, entries: list[dict[str, Any]]) -> None:
        self.commit([data.draw(writes(self.current))], entries)

    @rule(data=st.data(), entries=LOGS)
    def write_several(self, data: st.DataObject, entries: list[dict[str, Any]]) -> None:
        several = st.lists(
            writes(self.current, MOSTLY_RIGHT), min_size=2, max_size=4, unique_by=lambda one: one.ref
        )
        self.commit(data.draw(several), entries)

    @rule(data=st.data(), entries=LOGS, storable=st.booleans())
    def write_what_may_not_be(self, data: st.DataObject, entries: list[dict[str, Any]], storable: bool) -> None:
        """A right write before a wrong one must leave no trace."""
        right = data.draw(writes(self.current))
        wrong = data.draw(writes(self.current, WRONG if storable else MOSTLY_RIGHT, storable=storable))
        self.commit([wrong] if wrong.ref == right.ref else [right, wrong], entries)

    def commit(self, wished: list[Wished], entries: list[dict[str, Any]]) -> None:
        bases = [self._bases(one) for one in wished]
        settled = set(self.settled)
        log = [self._logged(fields, settled) for fields in entries]
        for logged in log:
            self.commit_of[logged.arrived_at] = self.arrived
        answers = []
        for number, side in enumerate(self.sides):
            asked = [write_of(one, base[number]) for one, base in zip(wished, bases, strict=True)]
            answers.append(side.ask("commit", asked, log))
        wrong = frozenset(
            one.ref
            for one, base in zip(wished, bases, strict=True)
            if base != self.current.get(one.ref, self._every(None))
        )
        self._check_commit(wished, wrong, answers)
        if isinstance(answers[0], Committed):
            self.settled = settled

    def _check_commit(self, wished: list[Wished], wrong: frozenset[Ref], answers: list[Any]) -> None:
        storable = all(is_storable(one) for one in wished)
        if not storable:
            # Where a precondition fails as well, each store says what it saw first; nothing is applied either way.
            wrongs = [answer for answer in answers if answer != Refused()]
            assert all(wrong and _is_conflict(answer, wrong) for answer in wrongs), answers
            return
        if wrong:
            assert all(_is_conflict(answer, wrong) for answer in answers), answers
            return
        assert all(isinstance(answer, Committed) for answer in answers), answers
        versions = list(zip(*(answer.versions for answer in answers), strict=True))
        assert len(versions) == len(wished)
        for one, new in zip(wished, versions, strict=True):
            self._moved(one, new)
            if one.kind == "delete":
                self.deleted[one.ref] = set(versions)

    def _moved(self, one: Wished, new: tuple[Version | None, ...]) -> None:
        """A write was applied: its versions are new ones, and a delete has none."""
        if one.kind == "delete":
            assert set(new) == {None}
            del self.current[one.ref]
            return
        for number, version in enumerate(new):
            assert version is not None
            # A write that changes nothing may leave the version as it is: then `remember` compares the content.
            was = self.current[one.ref][number] if one.ref in self.current else None
            before = {versions[number] for ref, versions in self.past if ref == one.ref} - {was}
            assert version not in before, f"{self.sides[number].name}: a version of {one.ref} is used again"
        self.current[one.ref] = new  # type: ignore[assignment]
        self.past.append((one.ref, self.current[one.ref]))

    def _every(self, version: Version | None) -> tuple[Version | None, ...]:
        return (version,) * len(self.sides)

    def _bases(self, one: Wished) -> tuple[Version | None, ...]:
        """The precondition that was wished for, in each store's own versions."""
        current = self.current.get(one.ref)
        if one.wish is Wish.RIGHT:
            return current or self._every(None)
        if one.wish is Wish.ABSENT and one.kind == "put":
            return self._every(None)
        others = [
            versions
            for ref, versions in self.past
            if (ref == one.ref) == (one.wish is Wish.STALE)
            and (current is None or _could_be_read(versions, current))
            and versions not in self.deleted.get(one.ref, ())
        ]
        return others[one.pick % len(others)] if others else self._every(NOBODYS)

    def _logged(self, fields: dict[str, Any], settled: set[tuple[str, str]]) -> LogEntry:
        self.arrived += 1
        rest = dict(fields)
        message_id, event_id, data = rest.pop("message")
        logged = entry(message_id, event_id=event_id, data=data, **rest, arrived_at=START + self.arrived)
        message = (logged.delivery.message_id, logged.topic)
        if message in settled and logged.result.outcome is Outcome.APPLIED:
            # No engine applies a message twice.
            return self._logged({**fields, "outcome": Outcome.DUPLICATE}, settled)
        if logged.result.outcome is not Outcome.POISON:
            settled.add(message)
        return logged

    @invariant()
    def documents_are_the_same(self) -> None:
        found = [side.ask("read", [*REFS, REFS[0]]) for side in self.sides]
        assert all(plain(one) == plain(found[0]) for one in found), found
        for number, (side, snapshots) in enumerate(zip(self.sides, found, strict=True)):
            for snapshot in snapshots:
                expected = self.current.get(snapshot.ref, self._every(None))[number]
                assert snapshot.version == expected, f"{side.name}: {snapshot.ref} changed its version by itself"
                side.remember(snapshot)

    @rule(
        refs=st.lists(st.sampled_from(REFS), min_size=1, max_size=4),
        limit=st.integers(1, 3),
        after=st.sampled_from((None, "a", "b", "zz", "é")),
    )
    def look_around(self, refs: list[Ref], limit: int, after: str | None) -> None:
        """Reading answers in order; listings and counts of collections are the same."""
        assert [ref for ref, _ in self.agreed("read", refs)] == refs
        listed = [found.id for found, _ in self.agreed("list_documents", refs[0].collection, limit, after)]
        assert listed == sorted(listed)
        assert len(listed) <= limit
        assert self.agreed("collections") == sorted(Counter(ref.collection for ref in self.current).items())

    @rule(any_id=st.sampled_from(EVENTS))
    def look_for_events(self, any_id: str) -> None:
        """Whole, the oldest first, and counted alike. Within one commit they have no order."""
        assert all(n > 0 for topic in self.agreed("count_events").values() for n in topic.values())
        found = [side.ask("find_events", any_id) for side in self.sides]
        whole = [sorted((self._plain_entry(e) for e in entries), key=lambda e: e.arrived_at) for entries in found]
        assert all(entries == whole[0] for entries in whole), whole
        for side, entries in zip(self.sides, found, strict=True):
            commits = [self.commit_of[entry.arrived_at] for entry in entries]
            assert commits == sorted(commits), f"{side.name}: not the oldest first"

    def _plain_entry(self, entry: LogEntry) -> LogEntry:
        # That it came by a replay is told to the store, and not kept.
        return msgspec.structs.replace(entry, replay=False)

    @rule(seconds=st.integers(0, 3), events=st.booleans())
    def sweep(self, seconds: int, *, events: bool) -> None:
        """All events or none: a store may keep those of a commit together, and several of one message."""
        now = START + seconds * 1_000_000
        self.agreed("sweep", now, None)
        if events:
            for side in self.sides:
                side.ask("sweep", now, START + self.arrived + 1)
            self.settled.clear()
        assert self.agreed("sweep", now, START + self.arrived + 1 if events else None) == 0
        for snapshot in self.sides[0].ask("read", REFS):
            if snapshot.version is None:
                self.current.pop(snapshot.ref, None)

    @rule()
    def reopen(self) -> None:
        for side in self.sides:
            side.reopen()


def _could_be_read(versions: Versions, current: Versions) -> bool:
    """Whether a writer may believe a document with `current` to have `versions`.

    All documents of a commit may share a version, so another's may be this one's: then on every side. One that is
    greater than the stored version no writer can have read, and Firestore calls it an invalid argument.
    """
    pairs = list(zip(versions, current, strict=True))
    return len({base == now for base, now in pairs}) == 1 and all(int(base) <= int(now) for base, now in pairs)


def plain(answer: Any) -> Any:
    """An answer without versions, and with types: 1 is not 1.0, and no time lost its microseconds."""
    if isinstance(answer, Snapshot):
        return (answer.ref, typed(answer.data))
    if isinstance(answer, dt.datetime | Refused | Conflict):
        return answer
    if isinstance(answer, Sequence) and not isinstance(answer, str | bytes | tuple):
        return [plain(one) for one in answer]
    return answer


def _is_conflict(answer: object, wrong: frozenset[Ref]) -> bool:
    """Firestore does not name the documents."""
    return isinstance(answer, Conflict) and answer.refs in (wrong, frozenset())
