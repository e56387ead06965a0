"""The embedded store: SQLite in WAL mode, synchronous=FULL, one writer thread. Opened by `service.stores`.

A commit is one transaction and one fsync for all messages that share it. Events go into an append-only table with
small indexes. Documents are MessagePack, so that types survive. The engine's reads and people's queries have a
connection and a thread each, so the engine never waits for a listing.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

import apsw

from millpond.core import timestamps
from millpond.core.document import check_ref, decode_document, encode_document, patched
from millpond.core.errors import StoreError
from millpond.core.log_filter import LogFilter
from millpond.core.model import (
    Committed,
    Conflict,
    Delete,
    LogEntry,
    LogPage,
    Patch,
    Put,
    Ref,
    Snapshot,
    Write,
)
from millpond.stores.sqlite import log as sqlite_log
from millpond.stores.sqlite import rows
from millpond.stores.sqlite import schema as sqlite_schema
from millpond.stores.sqlite.connection import close_quietly, open_reader, open_writer
from millpond.stores.sqlite.errors import translate
from millpond.stores.sqlite.file import StoreFile
from millpond.stores.sqlite.log_list import list_entries

T = TypeVar("T")
_SWEEP_ROWS = 1_000


class SqliteStore:
    commits_in_flight_max = 1
    expires_by_itself = False

    def __init__(
        self,
        path: Path | str,
        *,
        keeps_log: bool = True,
        read_only: bool = False,
        still: bool = False,
        durable: bool = True,
    ) -> None:
        """With `still` all reads see the snapshot of this moment; the write-ahead log grows until `close`.

        Without `durable` nothing is synced: only for stores that are thrown away.
        """
        self.keeps_log = keeps_log
        self._path = path
        self._read_only = read_only or still
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-reader")
        self._looker = ThreadPoolExecutor(1, thread_name_prefix="store-looker")
        try:
            if not self._read_only:
                self._write_connection = open_writer(path, durable=durable)
            self._look_connection = open_reader(path)
            if still:
                # A transaction sees one snapshot, so all reads share one connection.
                self._reader, self._read_connection = self._looker, self._look_connection
                self._look_connection.execute("BEGIN")
                sqlite_schema.last_version(self._look_connection)
            else:
                self._read_connection = open_reader(path)
        except BaseException as error:
            # The caller gets no store to close.
            for name in ("_write_connection", "_look_connection", "_read_connection"):
                if (opened := getattr(self, name, None)) is not None:
                    close_quietly(opened)
            if isinstance(error, apsw.Error):
                raise translate(error) from error
            raise
        self._file = None if self._read_only else StoreFile(path)

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        found = await self._on(self._reader, self._read, refs)
        if self._file is not None:
            self._file.check()
        return found

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        """As the port says. Checks after the commit, too, that the file has not been deleted or moved."""
        file = self._writable()
        file.check()
        committed = await self._on(self._writer, self._commit, writes, log)
        file.check()
        return committed

    async def try_write(self) -> bool:
        """An empty commit: it costs a version number, one page of the write-ahead log, and a sync."""
        file = self._writable()
        file.check()
        await self._on(self._writer, file.check_room)
        await self.commit(())
        return True

    async def collections(self) -> list[tuple[str, int]]:
        return await self._on(self._looker, self._rows, rows.COLLECTIONS, ())

    async def count_documents(self, collection: str) -> int:
        ((n,),) = await self._on(self._looker, self._rows, *rows.count(collection))
        return int(n)

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        sql, bindings = rows.page(collection, limit, after)
        page = await self._on(self._looker, self._rows, sql, bindings)
        return [Snapshot(Ref(collection, row[0]), row[1], decode_document(row[2])) for row in page]

    async def find_events(self, any_id: str) -> list[LogEntry]:
        found = await self._on(self._looker, self._rows, sqlite_log.FIND, (any_id, any_id))
        return [sqlite_log.decode_row(row) for row in found]

    async def list_events(self, wanted: LogFilter, limit: int, before: str | None) -> LogPage:
        number = None if before is None else int(before)
        return await self._on(self._looker, list_entries, self._look_connection, wanted, limit, number)

    async def count_events(self) -> dict[str, dict[str, int]]:
        counts: dict[str, dict[str, int]] = {}
        for topic, outcome, n in await self._on(self._looker, self._rows, sqlite_log.COUNT, ()):
            counts.setdefault(topic, {})[outcome] = n
        return counts

    async def read_log(self, after: str | None, limit: int) -> LogPage:
        found = await self._on(self._looker, self._rows, sqlite_log.PAGE, (int(after or 0), limit + 1))
        page = found[:limit]
        position = str(page[-1][0]) if page else after
        return LogPage([sqlite_log.decode_row(row[1:]) for row in page], position, len(found) > limit)

    async def sweep(self, now: int, events_before: int | None) -> int:
        self._writable().check()
        return await self._on(self._writer, self._sweep, now, events_before)

    async def snapshot(self) -> Self:
        return await asyncio.to_thread(type(self), self._path, keeps_log=self.keeps_log, still=True)

    async def close(self) -> None:
        """Finish running calls, then close; SQLite moves the write-ahead log into the file."""
        await self._on(self._looker, self._look_connection.close)
        await self._on(self._reader, self._read_connection.close)
        if not self._read_only:
            await self._on(self._writer, self._write_connection.close)
        self._writer.shutdown()
        self._reader.shutdown()
        self._looker.shutdown()

    def _writable(self) -> StoreFile:
        if self._file is None:
            raise StoreError("the store was opened for reading only")
        return self._file

    async def _on(self, executor: ThreadPoolExecutor, call: Callable[..., T], *args: Any) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(executor, call, *args)
        except apsw.Error as error:
            raise translate(error) from error

    def _rows(self, sql: str, bindings: tuple[Any, ...]) -> list[Any]:
        return self._look_connection.execute(sql, bindings).fetchall()

    def _read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        connection = self._read_connection
        if connection.in_transaction:
            return [_snapshot(connection, ref) for ref in refs]
        # One transaction, so that all reads see one snapshot.
        connection.execute("BEGIN")
        try:
            return [_snapshot(connection, ref) for ref in refs]
        finally:
            connection.execute("COMMIT")

    def _commit(self, writes: Sequence[Write], log: Sequence[LogEntry]) -> Committed | Conflict:
        connection = self._write_connection
        # Encoded before the transaction begins: an impossible write is refused without taking the write lock.
        puts: list[rows.PutRow] = []
        others: list[Patch | Delete] = []
        for write in writes:
            check_ref(write.ref)
            if isinstance(write, Put):
                puts.append(_put_row(write))
            else:
                others.append(write)
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Read each time: after a failed COMMIT only the file shows which versions exist.
            version = sqlite_schema.last_version(connection) + 1
            applied = rows.put_all(connection, puts, version)
            for other in others:
                if isinstance(other, Patch):
                    applied += _patch(connection, other, version)
                else:
                    applied += rows.delete(connection, other.ref, other.base)
            if applied != len(writes):
                connection.execute("ROLLBACK")
                return Conflict(frozenset(w.ref for w in writes if rows.fetch(connection, w.ref)[0] != w.base))
            sqlite_log.append(connection, log, version)
            sqlite_schema.set_last_version(connection, version)
            connection.execute("COMMIT")
        except BaseException:
            # After SQLITE_FULL and some I/O errors SQLite has already rolled back.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return Committed([None if isinstance(write, Delete) else version for write in writes])

    def _sweep(self, now: int, events_before: int | None) -> int:
        connection = self._write_connection
        with connection:
            swept = rows.sweep(connection, now, _SWEEP_ROWS)
            if events_before is not None:
                swept += sqlite_log.sweep(connection, events_before, _SWEEP_ROWS)
        return swept


def _patch(connection: apsw.Connection, write: Patch, version: int) -> int:
    found = _snapshot(connection, write.ref)
    if found.data is None or found.version != write.base:
        return 0
    put = Put(write.ref, write.base, patched(found.data, write.fields))
    return rows.put_all(connection, [_put_row(put)], version)


def _snapshot(connection: apsw.Connection, ref: Ref) -> Snapshot:
    version, body = rows.fetch(connection, ref)
    return Snapshot(ref, version, None if body is None else decode_document(body))


def _put_row(put: Put) -> rows.PutRow:
    expires = put.data.get("expireAt")
    expire_at = timestamps.from_datetime(expires) if isinstance(expires, dt.datetime) else None
    return put.ref, put.base, expire_at, encode_document(put.ref, put.data, checked=put.checked)
