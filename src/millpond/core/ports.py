"""The store port: two methods. Everything Millpond promises rests on what is written here.

`Store` is what the engine uses. `Catalog` is what only people need: looking around, counting, sweeping.
One contract suite (`tests/contract`) holds for every implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from millpond.core.model import Committed, Conflict, LogEntry, LogPage, Ref, Snapshot, Write
from millpond.core.route import DeadLetter, Fault, Item


class Store(Protocol):
    """Firestore's optimistic model, and no more.

    Errors: `Unavailable` (nobody can say whether a commit was applied: read again), `AccessDenied`,
    `WriteRefused` (nothing was applied, and never will be).
    """

    # How many commits may run at once. One where the store has one writer anyway: waiting work then
    # gathers into a bigger batch instead of a queue of small ones.
    commits_in_flight_max: int
    # Whether `commit` keeps the event log.
    keeps_log: bool

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        """Every ref, in order, each as of a moment after the call began."""

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        """Apply all writes and append to the log, durably, or nothing at all.

        At most one write per document. A log entry whose message is already there is passed over.
        """


class DeadLetterSink(Protocol):
    """Keeps messages that can never succeed: makes the letter, and stores beforehand what does not fit into it."""

    async def write_letter(self, item: Item, fault: Fault) -> DeadLetter: ...

    async def close(self) -> None: ...


class Catalog(Protocol):
    """What people look at. Never used to decide what becomes of an event."""

    # Whether what has expired goes away without `sweep`.
    expires_by_itself: bool

    async def collections(self) -> list[tuple[str, int]]:
        """Every collection path that holds documents, and how many."""

    async def count_documents(self, collection: str) -> int:
        """How many documents a collection holds."""

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        """Documents by id, those after `after` first."""

    async def find_events(self, any_id: str) -> list[LogEntry]:
        """Log entries with this message id or event id, oldest first."""

    async def count_events(self) -> dict[str, dict[str, int]]:
        """The log's entries by topic and outcome."""

    async def read_log(self, after: str | None, limit: int) -> LogPage:
        """The log from a position on, from its beginning where that is None.

        An entry may come again, and a replayed one comes a second time; none is left out.
        """

    async def sweep(self, now: int, events_before: int | None) -> int:
        """Delete what has expired, and log entries older than `events_before`; how many."""


class StoreWithCatalog(Store, Catalog, Protocol):
    async def snapshot(self) -> Self | None:
        """All of the store as it is at one moment, for reading, to be closed; None where that cannot be had."""

    async def try_write(self) -> bool:
        """Write as a commit does, but nothing that can be seen; False if this store has no such write.

        Raises what a commit would raise now. Asked while commits fail, to learn when they would succeed again.
        """

    async def close(self) -> None: ...
