"""Whatever bytes arrive, decoding ends in a value or in one of our own errors; nothing else escapes."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.core.decode import decode_payload, decode_push, decode_unwrapped
from millpond.core.errors import InvalidEvent, MalformedEnvelope
from millpond.core.model import Delivery
from tests.core.json_values import OBJECTS, PUBLISHED, VALUES


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | OBJECTS.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_a_delivery_or_a_malformed_envelope(body: bytes) -> None:
    """No bytes make the decoder of push bodies raise anything but MalformedEnvelope."""
    with contextlib.suppress(MalformedEnvelope):
        assert decode_push(body).message_id


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_data_is_a_payload_or_an_invalid_event(data: bytes) -> None:
    """No bytes make the decoder of data raise anything but InvalidEvent."""
    with contextlib.suppress(InvalidEvent):
        assert isinstance(decode_payload(Delivery(message_id="m", publish_time=0, data=data)).payload, dict)


@pytest.mark.parametrize("missing", ["x-goog-pubsub-message-id", "x-goog-pubsub-publish-time"])
def test_an_unwrapped_push_needs_its_metadata(missing: str) -> None:
    """Without id or publish time nothing could be ordered or recognised: the error says which setting helps."""
    headers = {"x-goog-pubsub-message-id": "m", "x-goog-pubsub-publish-time": PUBLISHED}
    del headers[missing]
    with pytest.raises(MalformedEnvelope, match="write_metadata") as refusal:
        decode_unwrapped(headers, b"{}")
    assert refusal.value.reason == "missing_metadata"
