"""The attributes of a published letter: written by `pubsub`, read back for a replay. Pure.

A dead-letter subscription holds two kinds of messages: letters that Millpond published, which keep the message id,
and copies that Pub/Sub made by a dead-letter policy, which have a new one. Both keep the original publish time. So
a replay has the same stamp as the message, and can never undo newer state.
"""

from __future__ import annotations

import msgspec

from millpond.core import timestamps
from millpond.core.decode import checked_message_id
from millpond.core.errors import Fault, InvalidEvent, Poison, trace_of
from millpond.core.item import Item
from millpond.core.model import Delivery
from millpond.dead_letters.describe import bounded_error, classification_of

PREFIX = "millpond_"
NATIVE_PREFIX = "CloudPubSubDeadLetterSource"
# Pub/Sub's limit on one value.
VALUE_BYTES_MAX = 1_024


def describe(item: Item, fault: Fault) -> dict[str, str]:
    """The message's own attributes, and those of Millpond: the fields of its delivery and why it was buried."""
    delivery = item.delivery
    ours = {
        "messageId": delivery.message_id,
        "publishTime": timestamps.to_text(delivery.publish_time),
        "subscription": delivery.subscription,
        "topic": item.topic,
        "reason": fault.reason,
        "classification": classification_of(fault),
        "errorType": type(fault).__name__,
        "error": _cut(bounded_error(fault)),
        "trace": _cut(trace_of(fault) or ""),
        "orderingKey": delivery.ordering_key,
        "deliveryAttempt": None if delivery.attempt is None else str(delivery.attempt),
        "dataFault": delivery.data_fault,
        # Message attributes hold text only. Names of views contain no comma.
        "views": ",".join(fault.view for fault in item.faults if fault.view is not None),
    }
    # Attributes of the sender with our prefix would be read back as ours, so they are left out.
    own = _without(delivery.attributes, PREFIX)
    return {**own, **{PREFIX + name: value for name, value in ours.items() if value}}


def restore(delivery: Delivery) -> Delivery:
    """The original delivery of a dead letter; any other message is returned unchanged."""
    attributes = delivery.attributes
    try:
        # Pub/Sub's own first: its copies keep all attributes of the sender, also those with our prefix.
        if NATIVE_PREFIX + "Subscription" in attributes:
            return _restore_native(delivery)
        if PREFIX + "messageId" in attributes:
            return _restore_ours(delivery)
    except Poison:
        # Neither Millpond nor Pub/Sub wrote these attributes.
        return delivery
    return delivery


def refusing_views(delivery: Delivery) -> frozenset[str] | None:
    """The views that refused a published letter's message; None if it is none of ours, or about all views."""
    attributes = delivery.attributes
    if NATIVE_PREFIX + "Subscription" in attributes or PREFIX + "messageId" not in attributes:
        return None
    return frozenset(filter(None, attributes.get(PREFIX + "views", "").split(","))) or None


def _restore_ours(delivery: Delivery) -> Delivery:
    ours = {
        name.removeprefix(PREFIX): value for name, value in delivery.attributes.items() if name.startswith(PREFIX)
    }
    return msgspec.structs.replace(
        delivery,
        message_id=checked_message_id(ours["messageId"]),
        publish_time=_earlier(ours.get("publishTime"), delivery),
        subscription=ours.get("subscription", ""),
        ordering_key=ours.get("orderingKey"),
        data_fault=ours.get("dataFault"),
        attempt=None,
        attributes=_without(delivery.attributes, PREFIX),
    )


def _restore_native(delivery: Delivery) -> Delivery:
    attributes = delivery.attributes
    project = attributes.get(NATIVE_PREFIX + "SubscriptionProject", "")
    name = attributes[NATIVE_PREFIX + "Subscription"]
    return msgspec.structs.replace(
        delivery,
        publish_time=_earlier(attributes.get(NATIVE_PREFIX + "TopicPublishTime"), delivery),
        subscription=f"projects/{project}/subscriptions/{name}" if project else name,
        attempt=None,
        attributes=_without(attributes, NATIVE_PREFIX),
    )


def _earlier(text: str | None, delivery: Delivery) -> int:
    """The original publish time. Neither Millpond nor Pub/Sub writes a time after that of the letter."""
    at = timestamps.parse(text, "publishTime")
    if at > delivery.publish_time:
        raise InvalidEvent("published after its own letter")
    return at


def _without(attributes: dict[str, str], prefix: str) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if not name.startswith(prefix)}


def _cut(text: str) -> str:
    return text.encode(errors="replace")[:VALUE_BYTES_MAX].decode(errors="ignore")
