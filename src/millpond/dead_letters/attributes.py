"""What a published letter says in its attributes, and how the delivery it was is read back from them. Pure.

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
    """The message's own attributes, and beside them what cannot be told from the published message itself."""
    delivery = item.delivery
    told = {
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
    # What the sender may have put under our names would be read back as ours.
    own = _without(delivery.attributes, PREFIX)
    return {**own, **{PREFIX + name: value for name, value in told.items() if value}}


def restore(delivery: Delivery) -> Delivery:
    """What was delivered before it died; a message that is no dead letter stays as it is."""
    attributes = delivery.attributes
    try:
        # Pub/Sub's own first: its copy of a message carries whatever its sender wrote, also under our names.
        if NATIVE_PREFIX + "Subscription" in attributes:
            return _restore_native(delivery)
        if PREFIX + "messageId" in attributes:
            return _restore_ours(delivery)
    except Poison:
        # Attributes nobody of us wrote.
        return delivery
    return delivery


def _restore_ours(delivery: Delivery) -> Delivery:
    told = {
        name.removeprefix(PREFIX): value for name, value in delivery.attributes.items() if name.startswith(PREFIX)
    }
    return msgspec.structs.replace(
        delivery,
        message_id=checked_message_id(told["messageId"]),
        publish_time=_earlier(told.get("publishTime"), delivery),
        subscription=told.get("subscription", ""),
        ordering_key=told.get("orderingKey"),
        data_fault=told.get("dataFault"),
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
