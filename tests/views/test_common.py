"""What the built-in views share: names, times, `data`, and what no payload may do to any of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond import settings as settings_module
from millpond.core.document import encode_document, find_fault
from millpond.core.errors import InvalidEvent, Poison
from millpond.core.model import Delivery, Outcome
from millpond.core.route import Router
from millpond.service.rules import route_rules
from millpond.service.views import load_views
from tests.core.json_values import OBJECTS
from tests.producers.cases import Case, check_in_core, load
from tests.views.examples import T0
from tests.views.support import Viewed

# Stands where a value is wrong; an error that holds it has quoted a payload.
MARKER = "s3cr3t-p4yl0ad"


def test_data_that_no_document_can_hold_is_json_text() -> None:
    """Nested lists, reserved names and deep maps become canonical JSON text, on every store alike."""
    deep: dict[str, Any] = {"leaf": 1}
    for _ in range(25):
        deep = {"in": deep}
    pond = Viewed()
    for extra in ({"grid": [[1, 2], [3]]}, {"__name__": 1}, {"deep": deep}):
        payload = {"symbol": "JSON", "ts": T0, "b": 1, "a": "é", **extra}
        history = pond.sent(payload, topic="market-ticks").views[1].doc
        expected = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert pond.shown(history)["data"] == expected


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        *(("market-ticks", {"symbol": "S", name: MARKER}) for name in ("price", "bid", "ask", "size")),
        *(("market-ticks", {"symbol": wrong}) for wrong in (True, [MARKER], {"a": MARKER})),
        ("market-ticks", {"symbol": "S", "sequence": ""}),
        ("market-bars-1m", {"symbol": "S", "ts": T0, "volume": MARKER}),
        ("system.events", {"service": [MARKER], "timestamp": T0}),
        ("system.events", {"service": "a", "status": {"a": MARKER}, "timestamp": T0}),
        ("ingest-heartbeat", {"pipeline_id": True, "status": MARKER}),
        ("trade-signals", {"signalId": {"a": MARKER}}),
    ],
)
def test_a_field_of_another_type_is_poison(topic: str, payload: dict[str, Any]) -> None:
    """It is refused by name, and its value is not quoted."""
    with pytest.raises(InvalidEvent) as fault:
        Viewed().sent(payload, topic=topic)
    assert fault.value.reason == "invalid_event"
    assert MARKER not in str(fault.value)


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


@pytest.mark.parametrize("case", load("views/common.json"), ids=lambda case: case.name)
def test_a_case(case: Case) -> None:
    """Ids, symbols, times and sequences in several views at once, as producers send them."""
    check_in_core(case)
