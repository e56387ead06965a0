"""Checks the embedded store: whether it opens and is intact, which process holds it, whether it is swept.

Reads only. If no process has the store open, reading it creates no files beside it. Called by `examination`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import apsw

from millpond.core.document import decode_document
from millpond.core.errors import Unavailable
from millpond.core.model import LogEntry, Ref, Snapshot
from millpond.core.timestamps import SECOND_US
from millpond.core.view import View
from millpond.doctor import clock as clock_check
from millpond.doctor.clock import probe
from millpond.doctor.existing_documents import check_existing
from millpond.doctor.findings import Finding, fine, problem, unchecked, warning
from millpond.doctor.old_ids import check_ids
from millpond.stores.sqlite import log as sqlite_log
from millpond.stores.sqlite import rows as sqlite_rows
from millpond.stores.sqlite import schema as sqlite_schema
from millpond.stores.sqlite.connection import open_reader
from millpond.stores.sqlite.errors import translate
from millpond.stores.sqlite.file import amount
from millpond.stores.sqlite.lock import Holder, find_holder

CHECK = "store"
# quick_check reads the whole file: the limit is for very large stores.
CHECK_S_MAX = 60.0
# Sixteen times the size at which the server checkpoints the write-ahead log.
WAL_BYTES_WARNING = 256 * 1024 * 1024
# The server sweeps once a minute.
_SWEPT_AFTER_S = 600
_COUNTED_MAX = 100_000
_LOOKED_AT_ENTRIES = 1_000
# For each collection: this many are read in a few seconds.
_IDS_MAX = 1_000_000
_DOCUMENTS_MAX = 100_000
_INSTRUCTIONS = 100_000
_RESTORE = "stop the server and put a backup in its place (docs/operating.md); keep the damaged file to look into"
_RECENT = "SELECT message_id, topic, event_id, arrived_at, outcome, body FROM events ORDER BY seq DESC LIMIT ?"
_PAGE_OF_DOCUMENTS = "SELECT id, version, body FROM documents WHERE collection = ? AND id > ? ORDER BY id LIMIT ?"
_PAGE_OF_IDS = "SELECT id FROM documents WHERE collection = ? AND id > ? ORDER BY id LIMIT ?"
_EXPIRED = """
    SELECT (SELECT count(*) FROM (SELECT 1 FROM documents WHERE expire_at <= :at LIMIT :most))
         + (SELECT count(*) FROM (SELECT 1 FROM receipts WHERE expire_at <= :at LIMIT :most))
"""


def check_embedded(path: Path, views: Sequence[View] = ()) -> list[Finding]:
    """Blocks while it reads the whole file, at most for CHECK_S_MAX. `views`: the views whose ids are checked."""
    if not path.exists():
        text = f"there is no store at {path} yet"
        return [warning(CHECK, text, "millpond serve makes it; if there should be one, look at STORE")]
    if not path.is_file():
        return [problem(CHECK, f"{path} is no file", "name the store's file: STORE=sqlite:PATH")]
    holder = find_holder(path)
    undisturbed = not _wal(path).exists()
    found = _inside(path, views, served=holder is not None)
    if undisturbed and _wal(path).exists() and any(finding.state == "problem" for finding in found):
        # A server started while we read, and its writes can look like damage: read again.
        found = _inside(path, views, served=True)
    return [*found, *_write_ahead_log(path), _holder(holder)]


def _inside(path: Path, views: Sequence[View], *, served: bool) -> list[Finding]:
    try:
        with _reading(path) as connection:
            schema = _schema(int(connection.execute("PRAGMA user_version").get), path)
            found = [schema, check_integrity(connection, path)]
            if schema.state == "ok":
                found += [_expired(connection, served=served), clock_check.judge_log(_recent(connection))]
                found += asyncio.run(check_ids(_Ids(connection), views, _IDS_MAX))
                now = time.time_ns() // 1_000
                found += asyncio.run(check_existing(_Documents(connection), views, _DOCUMENTS_MAX, now))
            return found
    except Unavailable as error:
        return [problem(CHECK, str(error), "run the newer Millpond; an older one cannot read this file")]
    except apsw.Error as error:
        damaged = isinstance(error, apsw.CorruptError | apsw.NotADBError)
        advice = _RESTORE if damaged else "look at the file's owner and permissions, and at the disk"
        return [problem(CHECK, f"{path}: {translate(error)}", advice)]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[apsw.Connection]:
    # A reader of a file in WAL mode creates two more files beside it, which fails if the folder is read-only.
    # Without a write-ahead log no process has the store open, so the file can be read as immutable.
    if _wal(path).exists():
        connection = open_reader(path)
    else:
        uri = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
        connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    with contextlib.closing(connection):
        yield connection


class _Ids:
    """Lists the documents' ids on a connection that leaves no files behind. Never reads the documents' content."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    async def collections(self) -> list[tuple[str, int]]:
        return list(self._connection.execute(sqlite_rows.COLLECTIONS))

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        found = self._connection.execute(_PAGE_OF_IDS, (collection, after or "", limit))
        return [Snapshot(Ref(collection, document_id), None, None) for (document_id,) in found]


class _Documents(_Ids):
    """Lists documents with their content."""

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        found = self._connection.execute(_PAGE_OF_DOCUMENTS, (collection, after or "", limit))
        return [
            Snapshot(Ref(collection, found_id), version, decode_document(body)) for found_id, version, body in found
        ]


def _schema(found: int, path: Path) -> Finding:
    known = len(sqlite_schema.MIGRATIONS)
    if found > known:
        text = f"{path} has schema {found}, and this Millpond knows only {known}"
        return problem(CHECK, text, "use the newer Millpond that made it")
    if found < known:
        advice = "the next serve upgrades it, and there is no way back: run millpond backup first"
        return warning(CHECK, f"{path} has schema {found}, and this Millpond writes {known}", advice)
    return fine(CHECK, f"{path} can be read: schema {found}, {amount(path.stat().st_size)}")


def check_integrity(connection: apsw.Connection, path: Path) -> Finding:
    """Whether the file is whole, as far as that is found out in time."""
    give_up_at = time.monotonic() + CHECK_S_MAX
    connection.set_progress_handler(lambda: time.monotonic() > give_up_at, _INSTRUCTIONS)
    try:
        verdict = str(connection.execute("PRAGMA quick_check(1)").get)
    except apsw.InterruptError:
        text = f"checking whether {path} is intact took longer than {CHECK_S_MAX:g} s"
        return unchecked(CHECK, text, "millpond backup FILE checks all of it, on the copy")
    finally:
        connection.set_progress_handler(None)
    if verdict == "ok":
        return fine(CHECK, "every page of it is intact (quick_check)")
    return problem(CHECK, f"{path} is damaged: {' '.join(verdict.split())[:200]}", _RESTORE)


def _expired(connection: apsw.Connection, *, served: bool) -> Finding:
    at = (time.time_ns() // 1_000) - _SWEPT_AFTER_S * SECOND_US
    count = int(connection.execute(_EXPIRED, {"at": at, "most": _COUNTED_MAX}).get)
    text = f"{count:,} documents and receipts expired over {_SWEPT_AFTER_S // 60} minutes ago and are still there"
    if not served or not count:
        return fine("expiry", f"{text}: the next server sweeps them" if count else "nothing that expired is left")
    return warning("expiry", text, "look for `the sweep of expired documents failed` in the server's log")


def _recent(connection: apsw.Connection) -> list[LogEntry]:
    return [sqlite_log.decode_row(row) for row in connection.execute(_RECENT, (_LOOKED_AT_ENTRIES,))]


def _write_ahead_log(path: Path) -> list[Finding]:
    try:
        size = _wal(path).stat().st_size
    except FileNotFoundError:
        return []
    found = f"the write-ahead log has {amount(size)}"
    if size <= WAL_BYTES_WARNING:
        return [fine(CHECK, found)]
    advice = "something reads for very long (a listing, a backup): let it end, then restart the server"
    return [warning(CHECK, f"{found}: it is not folded back, or was not for a while", advice)]


def _holder(holder: Holder | None) -> Finding:
    if holder is None:
        return fine("server", "no process writes to the store")
    process = f"process {holder.pid}"
    if holder.url is None:
        return fine("server", f"{process}, a command, writes to the store")
    try:
        status = asyncio.run(probe(f"{holder.url}/ready")).status
    except OSError as error:
        text = f"{process} holds the store, but {holder.url} does not answer: {error.strerror or error}"
        return problem("server", text, "look at its log; end it with SIGTERM and start it again")
    if status != 200:
        text = f"{process} at {holder.url} answers /ready with {status}: it takes no messages"
        return problem("server", text, "look at its log: it is stopping, or cannot read its store")
    return fine("server", f"{process} serves {holder.url}, and is ready")


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")
