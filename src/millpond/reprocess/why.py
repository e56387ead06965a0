"""`why ID`: what became of a message or event in each view, both stamps, and who won."""

from __future__ import annotations

from typing import Any

from millpond.core import timestamps
from millpond.core.model import LogEntry, Ref
from millpond.core.ports import StoreWithCatalog
from millpond.core.stamp import decode_stamp
from millpond.dead_letters import store as in_store


async def explain(store: StoreWithCatalog, any_id: str) -> dict[str, Any] | None:
    """Everything known of a message id or event id; None if that is nothing."""
    entries = await store.find_events(any_id)
    messages = [await _explain_message(store, entry) for entry in entries]
    return {"id": any_id, "messages": messages} if messages else None


async def _explain_message(store: StoreWithCatalog, entry: LogEntry) -> dict[str, Any]:
    delivery, result = entry.delivery, entry.result
    refs = [_ref(view.doc) for view in result.views if view.doc]
    documents = {snapshot.ref.path: snapshot.data for snapshot in await store.read(refs)}
    views = []
    for view in result.views:
        source = (documents.get(view.doc) or {}).get("source")
        source = source if isinstance(source, dict) else {}
        views.append(
            {
                "view": view.view,
                "doc": view.doc,
                "outcome": view.outcome,
                "reason": view.reason,
                "stamp": view.stamp,
                "order": _order(view.stamp),
                "winner": {
                    "stamp": source.get("stamp"),
                    "messageId": source.get("messageId"),
                    "order": _order(source.get("stamp")),
                },
                "won": view.stamp is not None and view.stamp == source.get("stamp"),
            }
        )
    return {
        "messageId": delivery.message_id,
        "eventId": entry.event_id,
        "topic": entry.topic,
        "subscription": delivery.subscription,
        "publishTime": timestamps.to_text(delivery.publish_time),
        "arrivedAt": timestamps.to_text(entry.arrived_at),
        "outcome": result.outcome,
        "reason": result.reason,
        "views": views,
        "letter": in_store.letter_ref(delivery).id if result.outcome == "poison" else None,
    }


def _order(stamp: Any) -> dict[str, Any] | None:
    """A stamp's parts, for people; None where there is none, or a document holds something else in its place."""
    try:
        parts = decode_stamp(stamp)
        return {
            "eventTime": timestamps.to_text(parts.event_time),
            "sequence": parts.sequence,
            "publishTime": timestamps.to_text(parts.publish_time),
            "messageId": parts.message_id,
        }
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None


def _ref(path: str) -> Ref:
    collection, _, key = path.rpartition("/")
    return Ref(collection, key)
