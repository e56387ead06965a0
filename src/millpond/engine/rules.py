"""The settings the engine depends on, as one value. Made by `service.rules`."""

from __future__ import annotations

import msgspec

from millpond.core.receipts import Receipts

ROOM_BYTES_MAX = 64 * 1024 * 1024


class EngineRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings the engine depends on. Times in seconds unless named otherwise."""

    queue_size: int = 64
    batches_in_flight_max: int = 8
    retry_attempts_max: int = 6
    retry_backoff_initial_s: float = 0.25
    retry_backoff_max_s: float = 6.0
    retry_total_max_s: float = 8.0
    view_error_park_after_s: float = 3600.0
    # Whether letters, log lines and answers quote what a view raised: it may quote the payload.
    view_errors_in_full: bool = False
    poison_policy: str = "auto"
    # Whether a message the store denies access for is buried instead of retried; needs letters outside the store.
    bury_when_denied: bool = False
    receipts: Receipts = Receipts()
    # Not configurable: they follow from the limits of a Firestore commit and from the available memory.
    room_bytes_max: int = ROOM_BYTES_MAX
    batch_count_max: int = 500
    batch_bytes_max: int = 3 * 1024 * 1024
    # A queue longer than this is taken in two shards, if the store takes several commits at once.
    shards_from: int = 128
    cache_entries_max: int = 10_000
