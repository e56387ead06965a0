"""What a store bills: operations by collection, counted since the last look. Pure.

A store with a bill fills `Operations`; `live.day` takes what was counted, and keeps it by the hour. Nothing here
decides anything about a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Protocol, runtime_checkable

import msgspec

from millpond.core.model import Snapshot

# Calls that belong to no collection, such as a list of collections, and what is over the limits below.
OTHER = ""
# Views have one collection each, and perhaps one below it. What is kept of an hour stays small.
COLLECTIONS_MAX = 200
NAME_CHARS_MAX = 200

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Spent(msgspec.Struct, omit_defaults=True):
    """The operations on one collection. All of it can be added, over hours and instances."""

    reads: _Count = 0
    # Writes that leave a document, and deletes.
    writes: _Count = 0
    deletes: _Count = 0
    # Documents that were created with an `expireAt`: the store deletes each of them later, and bills that.
    expiring: _Count = 0
    # Encoded size of the documents written.
    bytes: _Count = 0
    # Operations of calls whose answer never came: they may have been billed, or not. Deletes are among the writes.
    unanswered_reads: _Count = 0
    unanswered_writes: _Count = 0

    def add(self, other: Spent) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


# By collection. In nested paths `*` stands for the ids of documents; a prefix of all collections is left out.
SpentByCollection = dict[str, Spent]


def add_spent(into: SpentByCollection, more: Mapping[str, Spent]) -> None:
    for collection, spent in more.items():
        counters_of(into, collection).add(spent)


def counters_of(spent: SpentByCollection, collection: str) -> Spent:
    """The counters of a collection; those of OTHER if it is one too many, or if its name is too long."""
    found = spent.get(collection)
    if found is None:
        if len(spent) >= COLLECTIONS_MAX or len(collection) > NAME_CHARS_MAX:
            collection = OTHER
        found = spent.setdefault(collection, Spent())
    return found


class Operations:
    """The counters of one process."""

    def __init__(self) -> None:
        self._spent: SpentByCollection = {}

    def of(self, collection: str) -> Spent:
        """The counters of a collection, to be raised."""
        return counters_of(self._spent, collection)

    def take(self) -> SpentByCollection:
        """What was counted since the last call."""
        taken, self._spent = self._spent, {}
        return taken


class Measured(msgspec.Struct, frozen=True):
    """The documents of a collection: their number, and some of them. `more`: there are more than were counted."""

    documents: int
    more: bool
    sample: list[Snapshot]


@runtime_checkable
class BilledStore(Protocol):
    """A store whose owner bills each operation."""

    operations: Operations

    async def measure(self, collection: str) -> Measured:
        """Count the documents of a collection, up to a limit, and read a few. `*` stands for any document's id."""
