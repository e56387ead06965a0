"""What a published letter says, and the delivery that is read back from it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.core.errors import InvalidEvent
from millpond.core.item import Item
from millpond.core.model import Delivery
from millpond.dead_letters.pubsub_attributes import NATIVE_PREFIX, PREFIX, describe, restore
from tests.common.pond import NOW

FAULT = InvalidEvent("ts is missing")
TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_categories=["C", "Z"]), min_size=1)
DELIVERIES = st.builds(
    Delivery,
    message_id=TEXT.filter(lambda text: len(text.encode()) <= 256),
    publish_time=st.integers(0, NOW),
    data=st.binary(min_size=1),
    attributes=st.dictionaries(TEXT.filter(lambda t: not t.startswith((PREFIX, NATIVE_PREFIX))), TEXT),
    subscription=st.sampled_from(["", "projects/p/subscriptions/s"]),
    ordering_key=st.none() | TEXT,
    attempt=st.none() | st.integers(1, 100),
    data_fault=st.none() | TEXT,
)


def published(delivery: Delivery) -> Delivery:
    """As it comes back from a subscription of the topic: a new id, time and subscription, and no ordering key."""
    return Delivery(
        message_id="copy",
        publish_time=NOW,
        data=delivery.data,
        attributes=describe(Item(delivery, "t", NOW), FAULT),
        subscription="projects/p/subscriptions/triage",
    )


@given(DELIVERIES)
def test_what_was_published_comes_back(delivery: Delivery) -> None:
    """All of it but the attempt, which was about a delivery that is over."""
    assert restore(published(delivery)) == msgspec.structs.replace(delivery, attempt=None)


def test_a_copy_of_the_broker_keeps_its_own_id() -> None:
    """The original is lost; its subscription and publish time are not."""
    copy = Delivery(
        message_id="new",
        publish_time=NOW,
        data=b"{}",
        subscription="projects/p/subscriptions/triage",
        attempt=3,
        attributes={
            "kept": "yes",
            f"{NATIVE_PREFIX}Subscription": "s",
            f"{NATIVE_PREFIX}SubscriptionProject": "p",
            f"{NATIVE_PREFIX}TopicPublishTime": "2026-01-08T12:00:00.123Z",
            f"{NATIVE_PREFIX}DeliveryCount": "5",
        },
    )
    assert restore(copy) == Delivery(
        message_id="new",
        publish_time=1_767_873_600_123_000,
        data=b"{}",
        subscription="projects/p/subscriptions/s",
        attributes={"kept": "yes"},
    )


def test_names_of_ours_that_a_sender_wrote_are_not_believed() -> None:
    """Neither on a letter of ours nor on Pub/Sub's own copy of the message."""
    forged = {
        f"{PREFIX}messageId": "other",
        f"{PREFIX}publishTime": "2025-01-01T00:00:00Z",
        f"{PREFIX}dataFault": "x",
    }
    sent = Delivery(message_id="m", publish_time=NOW - 1, data=b"{}", attributes=forged)
    assert restore(published(sent)) == msgspec.structs.replace(sent, attributes={})
    native = {
        f"{NATIVE_PREFIX}Subscription": "s",
        f"{NATIVE_PREFIX}TopicPublishTime": "2026-01-08T12:00:00Z",
    }
    copy = Delivery(message_id="copy", publish_time=NOW, data=b"{}", attributes={**forged, **native})
    assert restore(copy).message_id == "copy"
    assert restore(copy).data_fault is None


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"millpond_messageId": "m", "millpond_publishTime": "2199-01-01T00:00:00Z"},
        {"millpond_reason": "x"},
        {"millpond_messageId": "m", "millpond_publishTime": "yesterday"},
        {"millpond_messageId": "m"},
        {"millpond_messageId": "m" * 300, "millpond_publishTime": "2026-01-08T12:00:00Z"},
        {f"{NATIVE_PREFIX}Subscription": "s", f"{NATIVE_PREFIX}TopicPublishTime": ""},
    ],
)
def test_what_is_no_letter_stays_as_it_is(attributes: dict[str, str]) -> None:
    """Any client may publish to a dead-letter topic; what we did not write decides nothing."""
    found = Delivery(message_id="x", publish_time=NOW, data=b"{}", attributes=attributes)
    assert restore(found) == found


def test_an_error_is_cut_to_what_an_attribute_may_hold() -> None:
    """1,024 bytes, and never half a character."""
    item = Item(Delivery(message_id="m", publish_time=NOW, data=b""), "", NOW)
    error = describe(item, InvalidEvent("é" * 2_000))[f"{PREFIX}error"]
    assert len(error.encode()) <= 1_024
    assert set(error) == {"é"}
