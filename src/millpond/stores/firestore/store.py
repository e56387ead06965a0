"""The store port on Firestore: BatchGetDocuments, and one atomic Commit with preconditions.

It uses the low-level client, because the high-level one cannot replace a document with a version as precondition.
Opened by `service.stores`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.cloud.firestore_v1.types import BatchGetDocumentsRequest, CommitRequest

from millpond.core.document import check_ref, encode_document, patched
from millpond.core.errors import Unavailable, WriteRefused
from millpond.core.model import Committed, Conflict, Delete, LogEntry, Patch, Put, Ref, Snapshot, Version, Write
from millpond.stores.firestore import log as firestore_log
from millpond.stores.firestore.catalog import FirestoreCatalog
from millpond.stores.firestore.connection import Connection
from millpond.stores.firestore.errors import CLIENT_ERRORS, is_conflict, translate, translate_commit
from millpond.stores.firestore.names import Names
from millpond.stores.firestore.values import NO_FIELDS, decode_fields, encode_fields, field_path, get_time, set_time

# The maximum size of a commit, a little under Firestore's own. The emulator's gRPC server accepts less, and answers
# RESOURCE_EXHAUSTED, which would be retried in vain.
COMMIT_BYTES_MAX = 10 * 1024 * 1024 - 64 * 1024
COMMIT_BYTES_MAX_EMULATOR = 4 * 1024 * 1024 - 64 * 1024
_READ_AT_ONCE = 500
_COMMIT = CommitRequest.pb()
_BATCH_GET = BatchGetDocumentsRequest.pb()


class FirestoreStore(FirestoreCatalog):
    """Any number of processes may use one database: a commit whose precondition fails changes nothing."""

    commits_in_flight_max = 8

    def __init__(
        self,
        *,
        project: str,
        database: str = "(default)",
        prefix: str = "",
        deadline_s: float = 3.0,
        keeps_log: bool = False,
        log_keep: int | None = None,
    ) -> None:
        self.keeps_log = keeps_log
        self.names = Names(project, database, prefix)
        self.connection = Connection(self.names.database, deadline_s)
        self._log_keep = log_keep
        emulated = self.connection.emulator is not None
        self._commit_bytes_max = COMMIT_BYTES_MAX_EMULATOR if emulated else COMMIT_BYTES_MAX
        # Firestore deletes by its TTL policies; an emulator has none.
        self.expires_by_itself = not emulated

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        """As the port says. Firestore answers in any order, and once for each document."""
        possible = [ref for ref in refs if _can_exist(ref)]
        by_name = {self.names.document(ref): ref for ref in possible}
        found = {ref: Snapshot(ref, None, None) for ref in refs if ref not in possible}
        for name, message in await self._batch_get(list(by_name)):
            ref = by_name[name]
            if message is None:
                found[ref] = Snapshot(ref, None, None)
            else:
                found[ref] = Snapshot(ref, get_time(message.update_time), decode_fields(message.fields))
        if missing := by_name.values() - found.keys():
            raise Unavailable(f"Firestore, reading: no answer for {len(missing)} of {len(by_name)} documents")
        return [found[ref] for ref in refs]

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        """As the port says. After a conflict, one more read finds the conflicting documents."""
        earlier = await self.earlier_entries(log)
        entries = firestore_log.encode_entries(log, earlier, self._log_keep)
        while True:
            request = self._encode(writes, entries)
            if not request.writes:
                return Committed(())
            try:
                response = await self.connection.commit(request)
            except CLIENT_ERRORS as error:
                if not is_conflict(error):
                    raise translate_commit(error) from error
                refused = await self._culprits(writes, entries)
                known = [entry for entry in entries if entry.ref in refused]
                if known and len(known) == len(refused):
                    # Only log entries conflict: the log already holds these messages. Complete their entries.
                    earlier = [found for found in await self.read(list(refused)) if found.data is not None]
                    kept = [entry for entry in entries if entry.ref not in refused]
                    again = [entry for entry in log if firestore_log.entry_ref(entry) in refused]
                    entries = [*kept, *firestore_log.encode_entries(again, earlier, self._log_keep)]
                    continue
                return Conflict(frozenset(refused) - {entry.ref for entry in entries})
            results = response.write_results[: len(writes)]
            versions = [
                None if isinstance(write, Delete) else get_time(result.update_time)
                for write, result in zip(writes, results, strict=True)
            ]
            return Committed(versions)

    async def snapshot(self) -> None:
        """None: Firestore has no snapshot, so callers must expect writes between two reads."""

    async def try_write(self) -> bool:
        """False: every write to Firestore leaves a document."""
        return False

    async def close(self) -> None:
        await self.connection.close()

    def _encode(self, writes: Sequence[Write], entries: Sequence[firestore_log.LogDocument]) -> Any:
        request = _COMMIT(database=self.names.database)
        for write in writes:
            self._encode_write(request.writes.add(), write)
        for entry in entries:
            self._encode_write(request.writes.add(), entry.write)
        if request.ByteSize() > self._commit_bytes_max:
            raise WriteRefused(
                f"a commit of {len(request.writes)} writes has {request.ByteSize()} bytes, over "
                f"{self._commit_bytes_max}",
                code="COMMIT_TOO_LARGE",
            )
        return request

    def _encode_write(self, target: Any, write: Write) -> None:
        check_ref(write.ref)
        name = self.names.document(write.ref)
        try:
            if isinstance(write, Put):
                encode_document(write.ref, write.data, checked=write.checked)
                target.update.name = name
                encode_fields(target.update.fields, write.data)
            elif isinstance(write, Patch):
                fields = patched({}, write.fields)
                encode_document(write.ref, fields)
                target.update.name = name
                encode_fields(target.update.fields, fields)
                target.update_mask.field_paths.extend(field_path(path) for path in write.fields)
            else:
                target.delete = name
        except UnicodeEncodeError:
            raise WriteRefused(f"{write.ref.path!a}: a lone surrogate", code="INVALID_ARGUMENT") from None
        if write.base is None:
            target.current_document.exists = False
        else:
            set_time(target.current_document.update_time, write.base)

    async def _culprits(self, writes: Sequence[Write], entries: Sequence[firestore_log.LogDocument]) -> set[Ref]:
        """Documents whose version differs from the commit's. Empty if two commits only contended for locks."""
        expected: dict[Ref, Version | None] = {write.ref: write.base for write in writes}
        expected.update({entry.ref: entry.write.base for entry in entries})
        by_name = {self.names.document(ref): ref for ref in expected}
        wrong: set[Ref] = set()
        for name, message in await self._batch_get(list(by_name), fields=NO_FIELDS):
            version = None if message is None else get_time(message.update_time)
            if version != expected[by_name[name]]:
                wrong.add(by_name[name])
        return wrong

    async def _batch_get(self, names: Sequence[str], fields: Sequence[str] = ()) -> list[tuple[str, Any]]:
        """(name, document or None if it does not exist), in any order."""
        found: list[tuple[str, Any]] = []
        for at in range(0, len(names), _READ_AT_ONCE):
            request = _BATCH_GET(database=self.names.database, documents=names[at : at + _READ_AT_ONCE])
            if fields:
                request.mask.field_paths.extend(fields)
            try:
                answers = await self.connection.batch_get(request)
            except CLIENT_ERRORS as error:
                raise translate(error, "reading") from error
            found += [(raw.found.name, raw.found) for raw in answers if raw.HasField("found")]
            found += [(raw.missing, None) for raw in answers if raw.missing]
        return found


def _can_exist(ref: Ref) -> bool:
    """Whether Firestore accepts the path; if not, no document can exist there."""
    try:
        check_ref(ref)
        ref.path.encode()
    except (WriteRefused, UnicodeEncodeError):
        return False
    return True
