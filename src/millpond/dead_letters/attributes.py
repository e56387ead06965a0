"""The attributes of a published letter: how they are written, and how its delivery is read back from them. Pure.

Two kinds come back from a dead-letter subscription: letters of our own, which keep the message id, and copies
Pub/Sub made by a dead-letter policy, which have a new one. Both keep the original publish time, so a replay has the
place in the order the message always had, and can never undo newer state.
"""

from __future__ import annotations

import msgspec

from millpond.core import timestamps
from millpond.core.decode import checked_message_id
from millpond.core.errors import InvalidEvent, Poison
from millpond.core.model import Delivery
from millpond.core.route import Fault, Item
from millpond.dead_letters.describe import bounded_error, classification_of

PREFIX = "millpond_"
NATIVE_PREFIX = "CloudPubSubDeadLetterSource"
# Pub/Sub's limit on one value.
VALUE_BYTES_MAX = 1_024


def describe(item: Item, fault: Fault) -> dict[str, str]:
    """The message's own attributes, and beside them what the published message itself does not show."""
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
        "orderingKey": delivery.ordering_key,
        "deliveryAttempt": None if delivery.attempt is None else str(delivery.attempt),
        "dataFault": delivery.data_fault,
    }
    # Attributes that the sender put under our names would be read back as ours.
    own = _without(delivery.attributes, PREFIX)
    return {**own, **{PREFIX + name: value for name, value in ours.items() if value}}


def restore(delivery: Delivery) -> Delivery:
    """The original delivery of a dead letter; any other message is returned as it is."""
    attributes = delivery.attributes
    try:
        # Pub/Sub's own first: its copy keeps all attributes of the sender, also those under our names.
        if NATIVE_PREFIX + "Subscription" in attributes:
            return _restore_native(delivery)
        if PREFIX + "messageId" in attributes:
            return _restore_ours(delivery)
    except Poison:
        # Neither Millpond nor Pub/Sub wrote these attributes.
        return delivery
    return delivery


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
    """When it was first published. A time after its letter's own was not written by us, nor by Pub/Sub."""
    at = timestamps.parse(text, "publishTime")
    if at > delivery.publish_time:
        raise InvalidEvent("published after its own letter")
    return at


def _without(attributes: dict[str, str], prefix: str) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if not name.startswith(prefix)}


def _cut(text: str) -> str:
    return text.encode(errors="replace")[:VALUE_BYTES_MAX].decode(errors="ignore")
