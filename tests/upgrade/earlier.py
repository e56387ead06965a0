"""The earlier consumer: one transaction per message, on the high-level client.

With its one known fault mended, or it could not run at all: everything is read before anything is written.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from google.cloud import firestore


def apply_service(client: firestore.Client, message_id: str, published: str, payload: dict[str, Any]) -> str:
    """`ops_services/{service}` and `ops_dedupe/{messageId}`."""
    at = time_of(payload["timestamp"])
    dedupe = client.collection("ops_dedupe").document(message_id)
    target = client.collection("ops_services").document(payload["service"])

    @firestore.transactional
    def run(transaction: firestore.Transaction) -> str:
        seen = dedupe.get(transaction=transaction)
        existing = target.get(transaction=transaction).to_dict() or {}
        if seen.exists:
            return "duplicate_message_noop"
        transaction.create(dedupe, {"createdAt": firestore.SERVER_TIMESTAMP, "messageId": message_id})
        known = [existing[name] for name in ("lastHeartbeatAt", "updatedAt") if existing.get(name)]
        if known and at < max(known):
            return "stale_event_ignored"
        document = {
            "serviceId": payload["service"],
            "env": "prod",
            "status": payload.get("status", "unknown"),
            "lastHeartbeatAt": at,
            "version": payload.get("version", "unknown"),
            "region": payload.get("region", "eu"),
            "updatedAt": at,
            "source": {"topic": "system.events", "messageId": message_id, "publishedAt": time_of(published)},
        }
        transaction.set(target, document)
        return "applied"

    outcome: str = run(client.transaction())
    return outcome


def apply_stream(
    client: firestore.Client, collection: str, message_id: str, published: str, payload: dict[str, Any]
) -> None:
    """`market_ticks`, `market_bars_1m` and `trade_signals`, by event id or message id."""
    key = payload.get("eventId") or message_id
    document = {
        "docId": key,
        "eventId": payload.get("eventId"),
        "symbol": payload.get("symbol"),
        "eventTime": time_of(payload["producedAt"]),
        "producedAt": time_of(payload["producedAt"]),
        "publishedAt": time_of(published),
        "data": payload,
        "source": {"topic": collection, "messageId": message_id, "publishedAt": time_of(published)},
        "ingestedAt": firestore.SERVER_TIMESTAMP,
    }
    client.collection(collection).document(key).set(document)


def time_of(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)
