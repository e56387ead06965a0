"""Rare states that at least one of many worlds must reach, or the worlds have become too kind. Read by `runner`."""

from __future__ import annotations

# Rare states, which a change could make unreachable without a failing check: name for people → name of the count.
RARE = {
    "lost reply": "commit reply lost",
    "commit applied after its caller gave up": "committed after its caller gave up",
    "isolated refusal": "buried: write_refused",
    "letter in parts": "letter in parts",
    "in-batch supersede": "superseded in its batch",
    "republished tie": "answered duplicate_event_noop",
    "cache verdict re-read": "verdict from the cache checked by a read",
    "lease takeover": "lease taken over",
    "step reclaimed by the sweep": "step reclaimed by the sweep",
    "attempts exhausted": "step's attempts exhausted",
    "skew clamp": "clock from the future clamped",
    "late event ignored": "late event ignored",
    "receipt expiry": "receipt expired and made anew",
    "too old to count": "buried: too_old_to_count",
    "view error parked": "buried: view_error",
    "one view refuses what another takes": "letter about one of two views",
    "one view retries what another has applied": "applied in one view, retried in another",
    "document of another program": "buried: unowned_document",
    "native dead letter": "dead-lettered by the broker",
    "crash with a commit under way": "crash with a commit under way",
    "acknowledgement lost": "acknowledgement lost",
    "waiting room full": "answered backpressure_queue_full",
    "contention": "answered contention",
    "document deleted by a person": "document deleted by a person",
    "tombstone": "tombstone written",
    "access denied": "answered access_denied",
}
