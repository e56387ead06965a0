"""The store port: two methods, and the contract that every guarantee of Millpond depends on.

The engine uses `Store`. `Catalog` serves people and maintenance: listing, counting, sweeping. `stores` implements
both; one contract suite (`tests/contract`) runs against every implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from millpond.core.item import DeadLetter, Item
from millpond.core.log_filter import LogFilter
from millpond.core.model import Committed, Conflict, LogEntry, LogPage, Ref, Snapshot, Write


class Store(Protocol):
    """Optimistic concurrency as Firestore has it: reads with versions, conditional commits.

    Errors: `Unavailable` (whether a commit was applied is unknown: read again), `AccessDenied`, `WriteRefused`
    (nothing was applied, and a retry cannot succeed).
    """

    # How many commits may run at once. 1 if the store has one writer: waiting messages then form one bigger batch
    # instead of a queue of small ones.
    commits_in_flight_max: int
    # Whether `commit` keeps the event log.
    keeps_log: bool

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        """A snapshot of every ref, in order, each taken after the call began."""

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        """Apply all writes and append to the log, durably, or apply nothing.

        At most one write per document. The log has each message once when it is read: a store completes the entry
        that it holds of a message, or merges the entries of a message later.
        """


class DeadLetterSink(Protocol):
    """Makes the letter of a message that cannot succeed, and stores the parts that do not fit into it first."""

    async def write_letter(self, item: Item) -> DeadLetter:
        """The letter about the item's faults."""

    async def close(self) -> None: ...


class Catalog(Protocol):
    """Queries for people and maintenance. Never used to decide the outcome of an event."""

    # Whether the store deletes expired documents without `sweep`.
    expires_by_itself: bool

    async def collections(self) -> list[tuple[str, int]]:
        """Every collection path that holds documents, and their number."""

    async def count_documents(self, collection: str) -> int:
        """The number of documents in a collection."""

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        """Up to `limit` documents in the order of their ids, beginning after the id `after`."""

    async def find_events(self, any_id: str) -> list[LogEntry]:
        """Log entries with this message id or event id, oldest first."""

    async def list_events(self, wanted: LogFilter, limit: int, before: str | None) -> LogPage:
        """Log entries that match, without their data: the newest first, from the end or from a position on.

        Each call looks at a bounded part of the log, so a page may have `more` and fewer than `limit` entries, or
        none. An entry that a later delivery completed stands in that delivery's place, or in its first one. If the
        later place is after the end of the range, the entry may be missing.
        """

    async def count_events(self) -> dict[str, dict[str, int]]:
        """The number of messages in the log, by topic and outcome. A long log on Firestore: about."""

    async def read_log(self, after: str | None, limit: int) -> LogPage:
        """The log from a position on; from its beginning if that is None.

        An entry may be returned again, and a replayed one is returned a second time. No entry is skipped.
        """

    async def sweep(self, now: int, events_before: int | None) -> int:
        """Delete expired documents, and log entries older than `events_before`. Returns how many were deleted."""


class StoreWithCatalog(Store, Catalog, Protocol):
    async def snapshot(self) -> Self | None:
        """A read-only snapshot of the whole store; close it. None if the store has no snapshots."""

    async def try_write(self) -> bool:
        """Write as a commit does, without a visible effect; False if the store has no such write.

        Raises what a commit would raise now. Called while commits fail, to learn when they succeed again.
        """

    async def close(self) -> None: ...
