"""Opens the store and the dead-letter sink that the settings name. Called by `Service` and by commands.

Modules that need Google's libraries are imported only if the settings name them: those libraries take a second to
load, and an embedded store needs none of them.
"""

from __future__ import annotations

from millpond.core import timestamps
from millpond.core.errors import SettingsError, missing_extra
from millpond.core.ports import DeadLetterSink, StoreWithCatalog
from millpond.dead_letters.store import StoredLetters
from millpond.settings import FIRESTORE, Settings
from millpond.stores.memory import MemoryStore
from millpond.stores.sqlite.lock import StoreLock
from millpond.stores.sqlite.store import SqliteStore


def open_store(settings: Settings, *, read_only: bool = False) -> StoreWithCatalog:
    if settings.store == FIRESTORE:
        return _open_firestore(settings)
    path = settings.store_path
    if path is None:
        return MemoryStore(keeps_log=settings.event_log)
    return SqliteStore(path, keeps_log=settings.event_log, read_only=read_only)


def lock_store(settings: Settings) -> StoreLock | None:
    """Take the embedded store's lock; None if it has no file. Raises SettingsError if it cannot be written."""
    path = settings.store_path
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return StoreLock(path)
    except OSError as error:
        raise SettingsError(
            "STORE", settings.store, f"cannot be written: {error.strerror}: {error.filename}"
        ) from None


def _open_firestore(settings: Settings) -> StoreWithCatalog:
    try:
        from millpond.stores.firestore.store import FirestoreStore  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing_extra("STORE", FIRESTORE, error) from None
    days = settings.event_log_ttl_days
    return FirestoreStore(
        project=settings.gcp_project,
        database=settings.firestore_database,
        prefix=settings.firestore_collection_prefix,
        deadline_s=settings.firestore_rpc_deadline_s,
        tried_s=settings.firestore_retry_max_total_s,
        keeps_log=settings.event_log,
        log_keep=None if days is None else round(days * timestamps.DAY_US),
    )


def open_dead_letter_sink(settings: Settings, letters: StoredLetters) -> DeadLetterSink:
    if settings.dlq_topic is None:
        return letters
    try:
        from millpond.dead_letters.pubsub import PublishedLetters  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing_extra("DLQ_TOPIC", settings.dlq_topic, error) from None
    return PublishedLetters(
        topic=settings.dlq_topic,
        project=settings.gcp_project,
        deadline_s=settings.dlq_publish_deadline_s,
        otherwise=letters,
    )
