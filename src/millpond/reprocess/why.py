"""`why ID`: what became of a message or event in each view, both stamps, and which message won.

Reads the store, never writes. Called by the API and the CLI.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from millpond.core import timestamps
from millpond.core.answers import Count, Reason, TimeText
from millpond.core.model import LogEntry, Outcome, Ref
from millpond.core.ports import StoreWithCatalog
from millpond.core.stamp import decode_stamp
from millpond.dead_letters import store as in_store


class Order(msgspec.Struct, rename="camel"):
    """A stamp's parts, the first that differs decides; a sequence first if the view says so."""

    event_time: TimeText
    sequence: Count | None
    publish_time: TimeText
    message_id: str


class Winner(msgspec.Struct, rename="camel"):
    """The stamp that stands in the document now, and whose it is."""

    stamp: str | None
    message_id: str | None
    order: Order | None


class ExplainedView(msgspec.Struct):
    """The message's stamp, and the one that stands in the document now."""

    view: str
    doc: str
    outcome: Outcome
    reason: Reason
    stamp: str | None
    order: Order | None
    winner: Winner
    won: bool
    corrected: Annotated[bool, Meta(description="It was asked with the payload that an operator corrected.")]


class ExplainedMessage(msgspec.Struct, rename="camel", kw_only=True):
    """What became of a message."""

    message_id: str
    event_id: str | None
    topic: str
    subscription: str
    publish_time: TimeText
    arrived_at: TimeText
    outcome: Outcome
    reason: Reason
    views: list[ExplainedView]
    letter: Annotated[str | None, Meta(description="The id of its letter, if it is poison.")]


class Why(msgspec.Struct):
    """Everything known of an id."""

    id: str
    messages: list[ExplainedMessage]


async def explain(store: StoreWithCatalog, any_id: str) -> Why | None:
    """Everything known of a message id or event id; None if that is nothing."""
    entries = await store.find_events(any_id)
    messages = [await _explain_message(store, entry) for entry in entries]
    return Why(any_id, messages) if messages else None


async def _explain_message(store: StoreWithCatalog, entry: LogEntry) -> ExplainedMessage:
    delivery, result = entry.delivery, entry.result
    refs = [_ref(view.doc) for view in result.views if view.doc]
    documents = {snapshot.ref.path: snapshot.data for snapshot in await store.read(refs)}
    views = []
    for view in result.views:
        source = (documents.get(view.doc) or {}).get("source")
        source = source if isinstance(source, dict) else {}
        stamp, order, standing = view.stamp, _order(view.stamp), source.get("stamp")
        winner = Winner(standing, source.get("messageId"), _order(standing))
        won = stamp is not None and stamp == standing
        corrected = view.view in entry.corrected
        views.append(
            ExplainedView(view.view, view.doc, view.outcome, view.reason, stamp, order, winner, won, corrected)
        )
    return ExplainedMessage(
        message_id=delivery.message_id,
        event_id=entry.event_id,
        topic=entry.topic,
        subscription=delivery.subscription,
        publish_time=timestamps.to_text(delivery.publish_time),
        arrived_at=timestamps.to_text(entry.arrived_at),
        outcome=result.outcome,
        reason=result.reason,
        views=views,
        letter=in_store.letter_ref(delivery).id if result.outcome == "poison" else None,
    )


def _order(stamp: Any) -> Order | None:
    """A stamp's parts, readable; None if there is no stamp, or the document holds another value in its place."""
    try:
        parts = decode_stamp(stamp)
        event_time, publish_time = timestamps.to_text(parts.event_time), timestamps.to_text(parts.publish_time)
        return Order(event_time, parts.sequence, publish_time, parts.message_id)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None


def _ref(path: str) -> Ref:
    collection, _, key = path.rpartition("/")
    return Ref(collection, key)
