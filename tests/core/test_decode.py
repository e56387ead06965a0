"""Whatever bytes arrive, decoding and routing end in a value or in one of our own errors; nothing else escapes."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond import settings as settings_module
from millpond.core.decode import decode_payload, decode_push, decode_unwrapped
from millpond.core.document import encode_document, find_fault
from millpond.core.errors import InvalidEvent, MalformedEnvelope, Poison
from millpond.core.model import Delivery, Outcome
from millpond.core.route import Router
from millpond.service.rules import route_rules
from millpond.service.views import load_views

PUBLISHED = "2026-01-08T12:00:00Z"
NAMES = (
    *("symbol", "price", "bid", "ask", "size", "open", "close", "volume", "sequence", "seq", "version"),
    *(
        "ts",
        "timestamp",
        "time",
        "start",
        "end",
        "producedAt",
        "publishedAt",
        "updatedAt",
        "decisionAt",
        "createdAt",
    ),
    *("eventId", "event_id", "signalId", "id", "dedupeKey", "strategyId", "state", "action", "side", "targets"),
    *("service", "status", "region", "pipeline_id", "pipeline", "tenant_id", "schemaVersion", "modelVersion"),
    *("topic", "pubsubTopic", "sourceTopic", "event_type", "eventType", "payload", "agent_name", "git_sha"),
    *("", "__x__", "a.b", "é", "\x00", "x" * 1_600),
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(0, 4_000_000_000_000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(
        ("", " ", ".", "..", "__x__", "a/b", "1", "-1", "1e999", "nan", PUBLISHED, "2026-01-08", "x" * 1_600)
    )
    | st.sampled_from((0, -1, 2**63, -(2**63), 2**64, 1e308, 1767873600, 1767873600000))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=8)
TOPICS = ("system.events", "ingest-heartbeat", "market-ticks", "market-bars-1m", "trade-signals")


def router(**environment: str) -> Router:
    found = settings_module.load(environment)
    return Router(load_views(found), route_rules(found))


ROUTERS = [
    router(),
    router(OPS_SERVICE_ID="env_service_region", BARS_ID="event", SIGNALS_ID="event", RECEIPTS="message"),
    router(
        OPS_SERVICE_ID="service", BARS_ID="nested", SIGNALS_DISTINCT_BY_VERSION="on", BARS_MAX_BACKFILL_DAYS="1"
    ),
]


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


@settings(max_examples=400, deadline=None)
@given(OBJECTS, st.sampled_from((*TOPICS, None)), st.sampled_from(ROUTERS), st.booleans())
def test_no_payload_is_a_bug_in_a_built_in_view(
    payload: dict[str, Any], topic: str | None, chosen: Router, wrapped: bool
) -> None:
    """Whatever JSON arrives, a built-in view makes a document that any store can hold, or calls it poison."""
    outer = {"event_type": "x", "payload": payload, "ts": payload.get("ts")} if wrapped else payload
    delivery = Delivery(
        message_id="m",
        publish_time=1_767_873_600_000_000,
        data=json.dumps(outer).encode(),
        attributes={} if topic is None else {"topic": topic},
    )
    item = chosen.route(delivery, 0)
    assert item.fault is None or isinstance(item.fault, Poison), item.fault
    for target in item.targets:
        if target.content is None:
            # A tick of no symbol is the history's alone.
            assert (target.view.name, target.settled) == ("market_ticks_latest", Outcome.FILTERED)
            continue
        assert find_fault(target.content) is None
        encode_document(target.ref, target.content)


@settings(max_examples=200, deadline=None)
@given(
    st.binary(min_size=1, max_size=300),
    st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=60),
    st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3),
)
def test_a_delivery_is_what_was_sent(data: bytes, message_id: str, attributes: dict[str, str]) -> None:
    """Data, id and attributes come out of a push body as they went in."""
    message = {
        "data": base64.b64encode(data).decode(),
        "messageId": message_id,
        "message_id": message_id,
        "publishTime": PUBLISHED,
        "attributes": attributes,
        "orderingKey": "k",
    }
    found = decode_push(json.dumps({"message": message, "subscription": "s", "deliveryAttempt": 3}).encode())
    assert (found.data, found.message_id, found.attributes) == (data, message_id, attributes)
    assert (found.subscription, found.ordering_key, found.attempt) == ("s", "k", 3)
    assert (found.publish_time, found.data_fault) == (1_767_873_600_000_000, None)


@pytest.mark.parametrize("missing", ["x-goog-pubsub-message-id", "x-goog-pubsub-publish-time"])
def test_an_unwrapped_push_needs_its_metadata(missing: str) -> None:
    """Without id or publish time nothing could be ordered or recognised: the error says which setting helps."""
    headers = {"x-goog-pubsub-message-id": "m", "x-goog-pubsub-publish-time": PUBLISHED}
    del headers[missing]
    with pytest.raises(MalformedEnvelope, match="write_metadata") as refusal:
        decode_unwrapped(headers, b"{}")
    assert refusal.value.reason == "missing_metadata"
