"""Checks Firestore: a read shows whether it answers, how fast, and its clock; then the TTL policies.

Imported only with STORE=firestore: it needs Google's libraries. Reads only. Called by `examination`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import grpc
from google.api_core.exceptions import GoogleAPICallError, NotFound, PermissionDenied
from google.auth.exceptions import GoogleAuthError
from google.cloud.firestore_admin_v1.services.firestore_admin import FirestoreAdminAsyncClient
from google.cloud.firestore_admin_v1.services.firestore_admin.transports import FirestoreAdminGrpcAsyncIOTransport
from google.cloud.firestore_admin_v1.types import Field
from google.cloud.firestore_v1.types import BatchGetDocumentsRequest

from millpond.core.collections import EVENT_LOG, LETTER_PARTS, LETTERS, PROBE, RECEIPTS
from millpond.core.errors import AccessDenied, Unavailable
from millpond.doctor import clock as clock_check
from millpond.doctor.findings import Finding, fine, problem, unchecked, warning
from millpond.gcp.credentials import find_credentials
from millpond.gcp.error_text import error_text
from millpond.service.views import load_views
from millpond.settings import Settings
from millpond.stores.firestore.errors import CLIENT_ERRORS, translate
from millpond.stores.firestore.store import FirestoreStore

CHECK = "store"
TTL_CHECK = "expiry"
_TTL_FIELD = "expireAt"
_SLOW_S = 0.5
_CALL_S = 10.0
_BATCH_GET = BatchGetDocumentsRequest.pb()


async def check_firestore(settings: Settings, store: FirestoreStore) -> list[Finding]:
    where = f"Firestore, {store.names.database}"
    try:
        # The first call also opens the connection; the second has the latency that a message sees.
        await _read(store)
        asked_at, read_at, answered_at = await _read(store)
    except AccessDenied as error:
        advice = "grant roles/datastore.user, and look at GCP_PROJECT and FIRESTORE_DATABASE (docs/firestore.md)"
        return [problem(CHECK, f"{where}: {error}", advice)]
    except Unavailable as error:
        return [problem(CHECK, f"{where}: {error}", "look at the network, and at Firestore's status page")]
    took_s = answered_at - asked_at
    text = (
        f"{where} answers a read in {took_s * 1e3:.0f} ms; the event log is {'on' if settings.event_log else 'off'}"
    )
    slow = warning(CHECK, text, "run Millpond in the database's region") if took_s > _SLOW_S else None
    clock = clock_check.judge((asked_at + answered_at) / 2 - read_at, took_s / 2, "Firestore's")
    return [slow or fine(CHECK, text), clock]


async def _read(store: FirestoreStore) -> tuple[float, float, float]:
    """Our clock before the read, Firestore's at the read, and ours after it, in seconds since 1970."""
    request = _BATCH_GET(database=store.names.database, documents=[store.names.document(PROBE)])
    asked_at = time.time()
    try:
        (answer,) = await store.connection.batch_get(request)
    except CLIENT_ERRORS as error:
        raise translate(error, "reading") from error
    return asked_at, answer.read_time.seconds + answer.read_time.nanos / 1e9, time.time()


def expiring_collections(settings: Settings) -> list[str]:
    """Firestore's ids of the collections whose documents have `expireAt`."""
    names = [RECEIPTS, LETTERS]
    if settings.event_log and settings.event_log_ttl_days is not None:
        names.append(EVENT_LOG)
    names += [view.collection for view in load_views(settings) if view.retention_days is not None]
    # A policy names a collection id, the last part of the path; the configured prefix is on the first part.
    ids = [
        settings.firestore_collection_prefix + name if "/" not in name else name.split("/")[-1] for name in names
    ]
    return [*dict.fromkeys(ids), LETTER_PARTS]


async def check_expiry(settings: Settings, store: FirestoreStore) -> list[Finding]:
    collections = expiring_collections(settings)
    if store.connection.emulator is not None:
        text = f"an emulator has no TTL policies; the service needs one for {', '.join(collections)}"
        return [unchecked(TTL_CHECK, text, _list_command(settings))]
    credentials = find_credentials(FirestoreAdminGrpcAsyncIOTransport.AUTH_SCOPES, "for Google Cloud")
    channel = FirestoreAdminGrpcAsyncIOTransport.create_channel(credentials=credentials)
    return await look_at_policies(settings, channel, collections)


async def look_at_policies(
    settings: Settings, channel: grpc.aio.Channel, collections: Sequence[str]
) -> list[Finding]:
    client = FirestoreAdminAsyncClient(transport=FirestoreAdminGrpcAsyncIOTransport(channel=channel))
    try:
        found = [await _policy(settings, client, collection) for collection in collections]
    finally:
        await client.transport.close()  # type: ignore[no-untyped-call]
    missing = [finding for finding in found if finding is not None]
    return missing or [fine(TTL_CHECK, f"{len(collections)} TTL policies on {_TTL_FIELD} are active")]


async def _policy(settings: Settings, client: FirestoreAdminAsyncClient, collection: str) -> Finding | None:
    """What is wrong with the TTL policy of one collection; None if it is active."""
    database = f"projects/{settings.gcp_project}/databases/{settings.firestore_database}"
    name = f"{database}/collectionGroups/{collection}/fields/{_TTL_FIELD}"
    try:
        field: Any = await client.get_field(name=name, retry=None, timeout=_CALL_S)
    except NotFound:
        return problem(TTL_CHECK, f"there is no database {database}", "look at GCP_PROJECT and FIRESTORE_DATABASE")
    except PermissionDenied:
        text = f"may not look at the TTL policy of {collection}: it needs roles/datastore.viewer"
        return unchecked(TTL_CHECK, text, _list_command(settings))
    except (GoogleAPICallError, GoogleAuthError) as error:
        return unchecked(TTL_CHECK, f"the TTL policy of {collection}: {error_text(error)}", _list_command(settings))
    state = field.ttl_config.state if "ttl_config" in field else None
    if state == Field.TtlConfig.State.ACTIVE:
        return None
    if state == Field.TtlConfig.State.CREATING:
        return warning(
            TTL_CHECK, f"the TTL policy of {collection} is still being made", "wait: it takes up to a day"
        )
    text = f"{collection} has no TTL policy on {_TTL_FIELD}: expired documents stay, and are billed"
    if state == Field.TtlConfig.State.NEEDS_REPAIR:
        text = f"the TTL policy of {collection} failed (NEEDS_REPAIR)"
    advice = f"gcloud firestore fields ttls update {_TTL_FIELD} --collection-group={collection} --enable-ttl"
    return problem(TTL_CHECK, text, f"{advice} {_where(settings)}")


def _list_command(settings: Settings) -> str:
    return f"gcloud firestore fields ttls list {_where(settings)}"


def _where(settings: Settings) -> str:
    return f"--project={settings.gcp_project} --database='{settings.firestore_database}'"
