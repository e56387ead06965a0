"""A message on its way through the engine: its item, its targets, its letter, and the documents its plan needs.

Values only. `route` makes items, the engine replaces them as views settle, and `plan` decides them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from millpond.core.errors import Fault, ViewError, as_value, gravest
from millpond.core.model import Delivery, Document, Event, Outcome, Ref, Result, Snapshot, ViewResult
from millpond.core.view import View

# Outcomes of a view that took the event: its document holds it, or a greater one.
TAKEN = frozenset({Outcome.APPLIED, Outcome.DUPLICATE, Outcome.STALE})


class Target(msgspec.Struct, frozen=True):
    """One event in one view: the document it is about, its stamp and its content."""

    view: View
    ref: Ref
    path: str
    stamp: str
    # Identifies the logical event: equal for a message and its republished copies.
    key: str
    event_time: int
    source: Document
    # The document of a `Latest` view, the fields of a `Merge` view.
    content: Document | None
    receipt: Ref | None
    # Set if the message alone decides the outcome: too old, or not wanted.
    settled: Outcome | None = None


class DeadLetter(msgspec.Struct, frozen=True):
    """A dead letter: the whole delivery and why it was buried. Ready to be stored, or durable already.

    Without a `ref` it is durable outside the store. With a `ref` and no `document` the store already holds it.
    """

    ref: Ref | None
    document: Document | None
    reason: str
    # If the letter is in parts: the document that its commit deletes, so that no second commit of it can succeed.
    token: Snapshot | None = None
    # The ref to use instead if `ref` holds the letter of another message.
    aside: Ref | None = None
    # One entry for each view that refused the message. Added to a letter that the store already holds.
    refusals: Sequence[Document] = ()


class Item(msgspec.Struct, frozen=True):
    """One delivery on its way through the engine."""

    delivery: Delivery
    topic: str
    arrived_at: int
    event: Event | None = None
    # One for each view that took part in routing without a fault, and is not committed yet.
    targets: Sequence[Target] = ()
    # Targets that are committed later, alone, because the store refused a write of this message.
    later: Sequence[Target] = ()
    # Results of views whose part of this message is committed.
    committed: Sequence[ViewResult] = ()
    # Why views refused the event; or the one fault of the whole message.
    faults: Sequence[Fault] = ()
    replay: bool = False
    # False if the sender keeps the message: if it cannot succeed, it is answered and not buried.
    bury: bool = True
    # Set once the message is to be buried: the plan then stores the letter and nothing else.
    letter: DeadLetter | None = None

    def __post_init__(self) -> None:
        for fault in self.faults:
            as_value(fault)

    @property
    def fault(self) -> Fault | None:
        """The gravest fault, if there is one."""
        return gravest(self.faults) if self.faults else None

    @property
    def is_taken(self) -> bool:
        """Whether a view has taken the event: its document holds it, or a greater event."""
        return any(view.outcome in TAKEN for view in self.committed)

    def unsettled(self, outcome: Outcome, reason: str, error: BaseException) -> Result:
        """The result while not every view is settled; `buried` if its letter is durable outside the store."""
        if self.letter is not None and self.letter.ref is None:
            return self.buried(self.letter)
        faults, event = self.faults, self.event
        views = [*self.committed, *refused_views(faults, retried=outcome is Outcome.RETRY)]
        return Result(outcome, reason, self.topic, views, error=error, faults=faults, event=event)

    def buried(self, letter: DeadLetter) -> Result:
        """The result once its letter is durable."""
        views = [*self.committed, *refused_views(self.faults, retried=False)]
        faults, event = self.faults, self.event
        return Result(
            Outcome.POISON, letter.reason, self.topic, views, self.fault, faults, event=event, buried=True
        )


def refused_views(faults: Iterable[Fault], *, retried: bool = True) -> list[ViewResult]:
    """The result of each view that refused the event. If `retried`, a view that failed on it is asked again."""
    return [
        ViewResult(
            fault.view,
            "",
            Outcome.RETRY if retried and isinstance(fault, ViewError) else Outcome.POISON,
            fault.reason,
        )
        for fault in faults
        if fault.view is not None
    ]


class Needs(msgspec.Struct, frozen=True):
    """The documents that the plan of an item uses."""

    # Must be read, or be in the cache, before planning.
    read: list[Ref]
    # Almost never exist yet (receipts, one document per event, letters), so they are assumed absent without a
    # read. The commit requires their absence, and a conflict shows that one exists.
    assumed: list[Ref]

    @property
    def all(self) -> list[Ref]:
        return self.read + self.assumed
