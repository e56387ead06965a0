"""What the built-in views share: names, times, `data`, and what no payload may do to any of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

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
from tests.common.push import MARKER
from tests.core.json_values import OBJECTS
from tests.producers.cases import Case, check_in_core, load
from tests.views.examples import T0, T1, T2
from tests.views.support import Viewed


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


class Stream(NamedTuple):
    """Events of one document: its path, what each of them says, its time's name, and a field that changes."""

    topic: str
    path: str
    payload: dict[str, Any]
    time: str
    field: str
    settings: Mapping[str, str] = {}


STREAMS = {
    "a service": Stream("system.events", "ops_services/dev__x", {"service": "x"}, "timestamp", "status"),
    "a pipeline": Stream("ingest-heartbeat", "ingest_pipelines/x", {"pipeline_id": "x"}, "ts", "status"),
    "the latest tick": Stream("market-ticks", "market_ticks_latest/X", {"symbol": "x"}, "ts", "price"),
    "a tick": Stream("market-ticks", "market_ticks/e", {}, "ts", "price"),
    "a bar": Stream("market-bars-1m", f"market_bars_1m/X__{T0}", {"symbol": "x", "ts": T0}, "producedAt", "close"),
    "a bar by its event": Stream("market-bars-1m", "market_bars_1m/e", {}, "ts", "close", {"BARS_ID": "event"}),
    "a signal": Stream("trade-signals", "trade_signals/x", {"signalId": "x"}, "updatedAt", "state"),
    "a signal by its event": Stream("trade-signals", "trade_signals/e", {}, "ts", "state", {"SIGNALS_ID": "event"}),
}


class Sender:
    """Sends events of a stream, and looks at its document."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._pond = Viewed(**stream.settings)

    def sent(self, value: str, time: str | None, message_id: str, second: int) -> str:
        """What became of it in the stream's document."""
        payload = {**self._stream.payload, "eventId": "e", self._stream.field: value, self._stream.time: time}
        published = f"2026-01-08T12:00:{second:02d}Z"
        result = self._pond.sent(payload, message_id, published, self._stream.topic)
        (reason,) = (view.reason for view in result.views if view.doc == self._stream.path)
        return reason

    def shown(self) -> tuple[str, str]:
        """The value of the field, and the message that the document names."""
        document = self._pond.shown(self._stream.path)
        value = document.get(self._stream.field) or document["data"][self._stream.field]
        return value, document["source"]["messageId"]


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_every_outcome_of_every_view(stream: Stream) -> None:
    """Applied, redelivered, republished, changed, stale and newer: each has the specification's word for it."""
    sender = Sender(stream)
    assert sender.sent("1", T1, "m1", 11) == "applied"
    assert sender.sent("1", T1, "m1", 11) == "duplicate_message_noop"
    assert (sender.sent("1", T1, "m2", 12), sender.shown()) == ("duplicate_event_noop", ("1", "m2"))
    assert (sender.sent("2", T1, "m3", 13), sender.shown()) == ("applied", ("2", "m3"))
    assert sender.sent("2", T1, "m4", 14) == "duplicate_event_noop"
    assert sender.sent("0", T0, "m5", 15) == "stale_event_ignored"
    lesser, again = sender.sent("3", T1, "m0", 10), sender.sent("0", T0, "m5", 15)
    # Receipts are off for ticks: nothing remembers a copy that lost, or a message that has come before.
    if stream.topic == "market-ticks":
        assert (lesser, again) == ("stale_event_ignored", "stale_event_ignored")
    else:
        assert (lesser, again) == ("duplicate_event_noop", "duplicate_message_noop")
    assert sender.shown() == ("2", "m4")
    # Newer by its own time, although it was published before all of them.
    assert (sender.sent("4", T2, "m6", 9), sender.shown()) == ("applied", ("4", "m6"))


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_copies_without_a_time_of_their_own(stream: Stream) -> None:
    """Each has a publish time of its own, which is no change; other content is."""
    sender = Sender(stream)
    assert sender.sent("1", None, "m1", 1) == "applied"
    assert sender.sent("1", None, "m2", 30) == "duplicate_event_noop"
    assert (sender.sent("2", None, "m3", 40), sender.shown()) == ("applied", ("2", "m3"))


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
