"""Every gRPC status there is, through the real client, for both calls of the store: which error of ours it is."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.auth.exceptions import DefaultCredentialsError, RefreshError
from grpc import StatusCode

from millpond.core.errors import AccessDenied, StoreError, Unavailable, WriteRefused
from millpond.core.model import Conflict, Outcome, Patch, Put, Ref
from millpond.stores.firestore.errors import CLIENT_ERRORS, translate
from millpond.stores.firestore.store import FirestoreStore
from tests.common.firestore_proxy import BEFORE, COMMIT, DETAILS, READ, Fault, FirestoreProxy
from tests.common.pond import service
from tests.common.rig import Rig

# (what a read becomes, what a commit becomes). A conflict is a value; the engine finds its documents.
# Unavailable where it is unknown whether it was applied, AccessDenied where only an operator can mend it.
MEANINGS: dict[StatusCode, tuple[type, type]] = {
    StatusCode.CANCELLED: (Unavailable, Unavailable),
    StatusCode.UNKNOWN: (Unavailable, Unavailable),
    # Paths are checked before: a read that is refused is about the set-up, not about a message.
    StatusCode.INVALID_ARGUMENT: (AccessDenied, WriteRefused),
    StatusCode.DEADLINE_EXCEEDED: (Unavailable, Unavailable),
    # A read finds no *database*: missing documents are answers.
    StatusCode.NOT_FOUND: (AccessDenied, Conflict),
    StatusCode.ALREADY_EXISTS: (Unavailable, Conflict),
    StatusCode.PERMISSION_DENIED: (AccessDenied, AccessDenied),
    StatusCode.RESOURCE_EXHAUSTED: (Unavailable, Unavailable),
    # For a read: the database is of another kind, or an index was never made.
    StatusCode.FAILED_PRECONDITION: (AccessDenied, Conflict),
    StatusCode.ABORTED: (Unavailable, Conflict),
    StatusCode.OUT_OF_RANGE: (AccessDenied, WriteRefused),
    StatusCode.UNIMPLEMENTED: (AccessDenied, AccessDenied),
    StatusCode.INTERNAL: (Unavailable, Unavailable),
    StatusCode.UNAVAILABLE: (Unavailable, Unavailable),
    StatusCode.DATA_LOSS: (Unavailable, Unavailable),
    StatusCode.UNAUTHENTICATED: (AccessDenied, AccessDenied),
}
REF = Ref("ponds", "a")


@asynccontextmanager
async def store_behind_proxy(
    emulator: str, project: str, patched: pytest.MonkeyPatch
) -> AsyncIterator[tuple[FirestoreStore, FirestoreProxy]]:
    async with FirestoreProxy(emulator) as proxy:
        patched.setenv("FIRESTORE_EMULATOR_HOST", proxy.address)
        store = FirestoreStore(project=project, deadline_s=20)
        yield store, proxy
        await store.close()


async def call(store: FirestoreStore, method: str) -> object:
    """What one call becomes: its value, or the error it raises."""
    try:
        return await (store.read([REF]) if method == READ else store.commit([Put(REF, None, {"n": 1})]))
    except StoreError as error:
        return error


async def test_every_status_has_a_meaning(
    firestore_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Walked through the real client, one call each: nothing is retried below the engine, and the code is kept."""
    async with store_behind_proxy(firestore_emulator, project, monkeypatch) as (store, proxy):
        database = store.names.database
        for status, meanings in MEANINGS.items():
            for method, meaning in zip((READ, COMMIT), meanings, strict=True):
                proxy.counts.clear()
                proxy.faults[database] = Fault(method, BEFORE, status, None)
                found = await call(store, method)
                assert type(found) is meaning, f"{method}: {status}"
                assert proxy.counts[database].calls[method] == 1, f"{method}: {status}"
                if isinstance(found, StoreError):
                    assert found.code == status.name
                    assert DETAILS in str(found)
                else:
                    assert found == Conflict(exists=status is StatusCode.ALREADY_EXISTS)


def test_no_status_is_forgotten() -> None:
    """A status that a new version of gRPC brings must be given a meaning; OK is no error."""
    assert {*MEANINGS, StatusCode.OK} == set(StatusCode)


async def test_a_conflict_whose_culprits_cannot_be_read_is_the_reads_error(
    firestore_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that does not exist answers NOT_FOUND to both calls: no contention, and an operator must act."""
    async with store_behind_proxy(firestore_emulator, project, monkeypatch) as (store, proxy):
        for number, (status, reason) in enumerate(
            ((StatusCode.NOT_FOUND, "access_denied"), (StatusCode.UNAVAILABLE, "store_unavailable"))
        ):
            proxy.faults.clear()
            async with Rig(store, FIRESTORE_RETRY_MAX_TOTAL_S="3") as rig:
                await rig.engine.handle(service(f"m{number}1", 1, "ok", 2 * number))
                (known,) = await store.read([Ref("ops_services", "dev__api")])
                assert known.version is not None
                await store.commit([Patch(known.ref, known.version, {("status",): "changed"})])
                proxy.faults[store.names.database] = Fault(READ, BEFORE, status, None)
                result = await rig.engine.handle(service(f"m{number}2", 2, "ok", 2 * number + 1))
            assert (result.outcome, result.reason) == (Outcome.RETRY, reason)


async def test_calls_carry_the_headers_of_googles_client(
    firestore_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads and commits go past that client: Firestore routes a call by one of the headers it adds."""
    async with store_behind_proxy(firestore_emulator, project, monkeypatch) as (store, proxy):
        await store.read([REF])
        await store.commit([Put(REF, None, {"n": 1})])
        ours = dict(proxy.headers)
        client, about = store.connection.client(), {"database": store.names.database}
        documents = [store.names.document(REF)]
        metadata = store.connection.metadata
        answers = await client.batch_get_documents({**about, "documents": documents}, metadata=metadata)
        assert [answer.found.name async for answer in answers] == documents
        await client.commit({**about, "writes": [{"delete": documents[0]}]}, metadata=metadata)
        assert {READ: ours[READ], COMMIT: ours[COMMIT]} == {
            READ: proxy.headers[READ],
            COMMIT: proxy.headers[COMMIT],
        }
        assert "x-goog-request-params" in dict(ours[COMMIT])


class Asked(list[Any]):
    """What a call was asked for; it can be watched."""


async def test_a_failed_call_leaves_nothing_behind(
    firestore_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the garbage collector: the server lets it run seldom, and conflicts are common in a fleet."""
    async with store_behind_proxy(firestore_emulator, project, monkeypatch) as (store, proxy):
        await store.commit([Put(REF, None, {"n": 1})])
        gc.collect()
        gc.disable()
        try:
            writes = Asked([Put(REF, None, {"n": 2})])
            assert await store.commit(writes) == Conflict(exists=True)
            proxy.faults[store.names.database] = Fault(READ, BEFORE, StatusCode.UNAVAILABLE)
            refs = Asked([REF])
            with contextlib.suppress(Unavailable):
                await store.read(refs)
            left = [weakref.ref(writes), weakref.ref(refs)]
            del writes, refs
            assert [one() for one in left] == [None, None]
        finally:
            gc.enable()


@pytest.mark.parametrize("kind", [DefaultCredentialsError, RefreshError])
def test_errors_of_the_credentials_are_denied_access(kind: type[Exception]) -> None:
    """They have no status: a client without a token has no identity."""
    error = kind("no token")
    assert isinstance(error, CLIENT_ERRORS)
    translated = translate(error, "reading")
    assert (type(translated), translated.code) == (AccessDenied, "UNAUTHENTICATED")
