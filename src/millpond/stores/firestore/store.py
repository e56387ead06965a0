"""The store port on Firestore: BatchGetDocuments, and one atomic Commit with preconditions.

It uses the low-level client, because the high-level one cannot replace a document with a version as precondition.
Opened by `service.stores`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.cloud.firestore_v1.types import BatchGetDocumentsRequest, CommitRequest

from millpond.core import timestamps
from millpond.core.document import check_ref, encode_document, patched
from millpond.core.errors import Unavailable, WriteRefused
from millpond.core.model import Committed, Conflict, Delete, LogEntry, Patch, Put, Ref, Snapshot, Write
from millpond.stores.firestore.catalog import FirestoreCatalog
from millpond.stores.firestore.connection import Connection
from millpond.stores.firestore.errors import CLIENT_ERRORS, is_conflict, is_existing, translate, translate_commit
from millpond.stores.firestore.names import Names
from millpond.stores.firestore.segments import COUNT_KEYS, encode_segments
from millpond.stores.firestore.values import decode_fields, encode_fields, field_path, get_time, set_time

# The maximum size of a commit, a little under Firestore's own. The emulator's gRPC server accepts less, and answers
# RESOURCE_EXHAUSTED, which would be retried in vain.
COMMIT_BYTES_MAX = 10 * 1024 * 1024 - 64 * 1024
COMMIT_BYTES_MAX_EMULATOR = 4 * 1024 * 1024 - 64 * 1024
_READ_AT_ONCE = 500
# A segment may be committed so long after its messages were tried for the last time, by a call that seemed to fail
# or an instance that was stopped for a while.
_LATE_US = 30 * timestamps.SECOND_US
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
        tried_s: float = 8.0,
        keeps_log: bool = False,
        log_keep: int | None = None,
    ) -> None:
        """`deadline_s` is for one call; `tried_s` is how long a message is tried before it is answered `retry`."""
        names = Names(project, database, prefix)
        super().__init__(
            names, Connection(names, deadline_s), late_us=round((tried_s + deadline_s) * 1e6) + _LATE_US
        )
        self.keeps_log = keeps_log
        self.operations = self.connection.operations
        self._log_keep = log_keep
        # Keys of `counts` that are known to be listed in COUNT_KEYS; None before it was read.
        self._count_keys: set[str] | None = None
        emulated = self.connection.emulator is not None
        self._commit_bytes_max = COMMIT_BYTES_MAX_EMULATOR if emulated else COMMIT_BYTES_MAX
        # Firestore deletes by its TTL policies; an emulator has none.
        self.expires_by_itself = not emulated

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        """As the port says. Firestore answers in any order, and once for each document."""
        by_name: dict[str, Ref] = {}
        found: dict[Ref, Snapshot] = {}
        for ref in refs:
            if _can_exist(ref):
                by_name[self.names.document(ref)] = ref
            else:
                found[ref] = Snapshot(ref, None, None)
        for name, message in await self._batch_get(list(by_name)):
            ref = by_name[name]
            if message is None:
                found[ref] = Snapshot(ref, None, None)
            else:
                found[ref] = Snapshot(ref, get_time(message.update_time), decode_fields(message.fields))
        if missing := [ref for ref in by_name.values() if ref not in found]:
            raise Unavailable(f"Firestore, reading: no answer for {len(missing)} of {len(by_name)} documents")
        return [found[ref] for ref in refs]

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        """As the port says. Firestore does not name the conflicting documents."""
        # The first read tells Firestore's time, which the segments are named by.
        known = await self._known_count_keys() if log else set()
        segments = encode_segments(log, self._event_log.time_of(log), self._log_keep) if log else []
        keys = {key for segment in segments for key in segment.data["counts"]}
        request = self._encode(writes, segments, sorted(keys - known))
        if not request.writes:
            return Committed(())
        try:
            response = await self.connection.commit(request)
        except CLIENT_ERRORS as error:
            if not is_conflict(error):
                raise translate_commit(error) from error
            return Conflict(exists=is_existing(error))
        known |= keys
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

    async def _known_count_keys(self) -> set[str]:
        """Read once: if every process added all of its keys again, their first commits would contend."""
        if self._count_keys is None:
            (listed,) = await self.read([COUNT_KEYS])
            self._count_keys = self._count_keys or set((listed.data or {}).get("keys", ()))
        return self._count_keys

    def _encode(self, writes: Sequence[Write], segments: Sequence[Put], count_keys: Sequence[str]) -> Any:
        request = _COMMIT(database=self.names.database)
        for write in (*writes, *segments):
            self._encode_write(request.writes.add(), write)
        if count_keys:
            # Added to what the document holds, whether it exists or not: every instance adds what it meets first.
            added = request.writes.add()
            added.update.name = self.names.document(COUNT_KEYS)
            added.update_mask.SetInParent()
            transform = added.update_transforms.add(field_path="keys")
            for key in count_keys:
                transform.append_missing_elements.values.add(string_value=key)
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

    async def _batch_get(self, names: Sequence[str]) -> list[tuple[str, Any]]:
        """(name, document or None if it does not exist), in any order."""
        found: list[tuple[str, Any]] = []
        for at in range(0, len(names), _READ_AT_ONCE):
            request = _BATCH_GET(database=self.names.database, documents=names[at : at + _READ_AT_ONCE])
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
