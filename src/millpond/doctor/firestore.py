"""Checks Firestore: a read shows whether it answers, how fast, and its clock; then the TTL policies.

Imported only with STORE=firestore: it needs Google's libraries. Reads only. Called by `examination`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import grpc
from google.cloud.firestore_admin_v1.types import Field
from google.cloud.firestore_v1.types import BatchGetDocumentsRequest

from millpond.core.collections import (
    EVENT_LOG,
    EVENT_SEGMENTS,
    HISTORY,
    LETTER_PARTS,
    LETTERS,
    PROBE,
    RECEIPTS,
)
from millpond.core.errors import AccessDenied, Unavailable
from millpond.doctor import clock as clock_check
from millpond.doctor.findings import Finding, fine, problem, unchecked, warning
from millpond.doctor.firestore_fields import (
    FieldReader,
    FieldUnknown,
    collection_id,
    open_channel,
    reading,
    where,
)
from millpond.service.views import load_views
from millpond.settings import Settings
from millpond.stores.firestore.errors import CLIENT_ERRORS, translate
from millpond.stores.firestore.store import FirestoreStore

CHECK = "store"
TTL_CHECK = "expiry"
_TTL_FIELD = "expireAt"
_SLOW_S = 0.5
_BATCH_GET = BatchGetDocumentsRequest.pb()


async def check_firestore(settings: Settings, store: FirestoreStore) -> list[Finding]:
    place = f"Firestore, {store.names.database}"
    try:
        # The first call also opens the connection; the second has the latency that a message sees.
        await _read(store)
        asked_at, read_at, answered_at = await _read(store)
    except AccessDenied as error:
        advice = "grant roles/datastore.user, and look at GCP_PROJECT and FIRESTORE_DATABASE (docs/firestore.md)"
        return [problem(CHECK, f"{place}: {error}", advice)]
    except Unavailable as error:
        return [problem(CHECK, f"{place}: {error}", "look at the network, and at Firestore's status page")]
    took_s = answered_at - asked_at
    text = (
        f"{place} answers a read in {took_s * 1e3:.0f} ms; the event log is {'on' if settings.event_log else 'off'}"
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
    if settings.history:
        names.append(HISTORY)
    if settings.event_log and settings.event_log_ttl_days is not None:
        # Entries of earlier builds, which wrote a document for each message, expire too.
        names += [EVENT_SEGMENTS, EVENT_LOG]
    names += [view.collection for view in load_views(settings) if view.retention_days is not None]
    return [*dict.fromkeys(collection_id(settings, name) for name in names), LETTER_PARTS]


async def check_expiry(settings: Settings, store: FirestoreStore) -> list[Finding]:
    collections = expiring_collections(settings)
    if store.connection.emulator is not None:
        text = f"an emulator has no TTL policies; the service needs one for {', '.join(collections)}"
        return [unchecked(TTL_CHECK, text, _list_command(settings))]
    return await look_at_policies(settings, open_channel(), collections)


async def look_at_policies(
    settings: Settings, channel: grpc.aio.Channel, collections: Sequence[str]
) -> list[Finding]:
    async with reading(settings, channel, TTL_CHECK, _list_command(settings)) as fields:
        found = [await _policy(settings, fields, collection) for collection in collections]
    missing = [finding for finding in found if finding is not None]
    return missing or [fine(TTL_CHECK, f"{len(collections)} TTL policies on {_TTL_FIELD} are active")]


async def _policy(settings: Settings, fields: FieldReader, collection: str) -> Finding | None:
    """What is wrong with the TTL policy of one collection; None if it is active."""
    try:
        field = await fields.get(collection, _TTL_FIELD, f"the TTL policy of {collection}")
    except FieldUnknown as unknown:
        return unknown.finding
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
    return problem(TTL_CHECK, text, f"{advice} {where(settings)}")


def _list_command(settings: Settings) -> str:
    return f"gcloud firestore fields ttls list {where(settings)}"
