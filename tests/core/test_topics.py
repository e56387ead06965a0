"""Which topic a message belongs to: the order names are tried in, what is shown, and what refuses to start."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millpond import settings as settings_module
from millpond.core.errors import SettingsError, UnroutableEvent
from millpond.core.model import Delivery
from millpond.core.route import Router, RouteRules
from millpond.service.rules import route_rules
from millpond.service.views import load_views
from tests.common.pond import Orders, Pond, at, delivery
from tests.producers.cases import Case, check_in_core, load

SUBSCRIPTION = "projects/p/subscriptions/trade-signals"
# In the order the design names them: where the name stands, and how to put it there. Each names another topic, so
# that the document says which of them won. The last two need no name: the subscription's own, and the shape.
FOUND = (
    *("market-ticks", "market-bars-1m", "ingest-heartbeat", "orders"),
    *("a-topic", "b-topic", "c-topic", "d-topic", "e-topic"),
)


class Many(Orders):
    """Feeds on whatever it is asked about, and shows which topic it was."""

    topics: Sequence[str] = FOUND  # type: ignore[assignment]
    event_types = ("e.type",)


def router(**environment: str) -> Router:
    views = [Many()]
    views[0].name = "sales"
    return Router(views, route_rules(settings_module.load(environment)))


def resolved(message: Delivery, **environment: str) -> tuple[str, str]:
    """(the topic the views feed on, the one documents show)."""
    item = router(**environment).route(message, 0)
    assert item.fault is None, item.fault
    assert item.event is not None
    return item.topic, item.targets[0].source["topic"]


# Each way to name a topic, from the first that counts to the last: (settings, attributes, outer payload).
WAYS: list[tuple[dict[str, str], dict[str, str], dict[str, Any]]] = [
    ({"ROUTES": json.dumps({"s": {"kind": "market-ticks", "topic": "market-ticks"}})}, {}, {}),
    ({}, {"topic": "market-bars-1m"}, {}),
    ({}, {"pubsubTopic": "ingest-heartbeat"}, {}),
    ({}, {"sourceTopic": "orders"}, {}),
    ({}, {}, {"topic": "a-topic"}),
    ({}, {}, {"pubsubTopic": "b-topic"}),
    ({}, {}, {"sourceTopic": "c-topic"}),
    ({"SUBSCRIPTION_TOPIC_MAP": json.dumps({"s": "d-topic"})}, {}, {}),
    ({"SOURCE_TOPIC": "e-topic"}, {}, {}),
]


@pytest.mark.parametrize("first", range(len(WAYS)))
@pytest.mark.parametrize("enveloped", [False, True])
def test_the_first_name_that_a_view_feeds_on_decides(first: int, enveloped: bool) -> None:
    """With every later one there as well."""
    environment: dict[str, str] = {}
    attributes: dict[str, str] = {"event_type": "e.type"}
    payload: dict[str, Any] = {}
    for settings, names, fields in WAYS[first:]:
        environment |= settings
        attributes |= names
        payload |= fields
    what = {"day": "d1", "amount": 1}
    body = {**payload, "event_type": "e.type", "payload": what} if enveloped else {**payload, **what}
    assert resolved(delivery(body, attributes=attributes), **environment) == (FOUND[first], FOUND[first])


def test_after_the_names_come_event_types_the_subscription_and_the_shape() -> None:
    """The envelope's type, then the attributes', a subscription that is named after a topic, and the shape."""
    pond = Pond()
    tick = {"symbol": "SPY", "price": 1, "ts": at(0)}
    beat = {"service": "api", "timestamp": at(0)}

    def topic_of(payload: dict[str, Any], **more: Any) -> str:
        item = pond.route(delivery(payload, **more))
        assert item.fault is None, item.fault
        return item.topic

    enveloped = {"event_type": "market.bars.1m", "payload": tick}
    typed: dict[str, Any] = {"attributes": {"event_type": "market.tick"}}
    assert topic_of(enveloped, **typed, subscription=SUBSCRIPTION) == "market-bars-1m"
    assert topic_of({**tick, "event_type": "unheard.of"}, **typed, subscription=SUBSCRIPTION) == "market-ticks"
    assert topic_of({**beat, "action": "buy", "symbol": "S"}, subscription=SUBSCRIPTION) == "trade-signals"
    assert topic_of(beat) == "system.events"


@pytest.mark.parametrize(
    ("settings", "attributes", "payload", "shown"),
    [
        ({}, {"topic": "prod-market-ticks"}, {}, "prod-market-ticks"),
        ({}, {"topic": "projects/p/topics/prod-market-ticks"}, {}, "prod-market-ticks"),
        ({}, {"topic": "  "}, {"sourceTopic": "prod-ticks"}, "prod-ticks"),
        ({"ROUTES": '{"s": {"kind": "orders", "topic": "prod-orders"}}'}, {"topic": "orders"}, {}, "prod-orders"),
        ({"ROUTES": '{"s": {"kind": "orders", "topic": "a-topic"}}'}, {}, {}, "a-topic"),
        ({"ROUTES": '{"s": {"kind": "orders"}}'}, {"topic": "prod-orders"}, {}, "prod-orders"),
        ({"SUBSCRIPTION_TOPIC_MAP": '{"s": "their-name"}'}, {}, {}, "their-name"),
        ({"SOURCE_TOPIC": "their-name"}, {}, {}, "their-name"),
        # No topic's name: neither a type of event nor a sentence is one.
        ({}, {"topic": "e.type"}, {}, "market-ticks"),
        ({}, {"topic": "not a topic, but words"}, {}, "market-ticks"),
        ({}, {}, {"topic": 7}, "market-ticks"),
    ],
)
def test_documents_show_the_topic_s_own_name(
    settings: dict[str, str], attributes: dict[str, str], payload: dict[str, Any], shown: str
) -> None:
    """The first that was given, also where another rule found the views; those go by the topic they feed on."""
    body = {**payload, "event_type": "e.type", "payload": {"day": "d1", "amount": 1}}
    kind = "orders" if "ROUTES" in settings else "market-ticks"
    assert resolved(delivery(body, attributes=attributes), **settings) == (kind, shown)


def test_one_message_routed_in_three_ways_is_counted_once() -> None:
    """Receipts go by the topic the views feed on, whatever name is shown."""
    orders = Orders()
    orders.event_types = ("order",)
    body = {"event_type": "order", "eventId": "o1", "payload": {"day": "d1", "amount": 5, "ts": at(0)}}
    ways: list[tuple[dict[str, str], dict[str, str]]] = [
        ({}, {"topic": "orders"}),
        ({"ROUTES": '{"s": {"kind": "orders", "topic": "prod-orders"}}'}, {}),
        ({}, {"topic": "prod-orders-v2"}),
    ]
    for arrivals in itertools.permutations(ways):
        documents: dict[Any, Any] = {}
        outcomes, shown = [], []
        for settings, attributes in arrivals:
            pond = Pond([orders], **settings)
            pond.documents = documents
            message = delivery(body, "m1", attributes=attributes)
            outcomes.append(str(pond.send(message)[0].outcome))
            shown.append(pond.route(message).targets[0].source["topic"])
            documents = pond.documents
        assert outcomes == ["applied", "duplicate", "duplicate"]
        assert sorted(shown) == ["orders", "prod-orders", "prod-orders-v2"]
        assert {found.data["count"] for ref, found in documents.items() if ref.collection == "sales"} == {1}


@pytest.mark.parametrize("attribute", ["foo", "projects/p/topics/foo"])
def test_of_a_topic_s_path_the_last_part_counts(attribute: str) -> None:
    """Also where a view names itself after the whole path, which no message can mean."""

    def named(name: str, topic: str) -> Orders:
        view = Orders()
        view.name, view.topics = name, (topic,)
        return view

    found = Router([named("long", "projects/p/topics/foo"), named("short", "foo")], RouteRules(env="dev"))
    item = found.route(delivery({"day": "d1", "amount": 1}, attributes={"topic": attribute}), 0)
    assert [target.view.name for target in item.targets] == ["short"]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message of `topics.json`: what its settings, attributes and payload say, and what must follow."""

    name: str
    # The topic it belongs to, and the one its documents show where that is another.
    topic: str = ""
    shown: str = ""
    # Text that must stand in the error of a message without a topic.
    error: str = ""
    settings: dict[str, Any] = {}
    subscription: str = "projects/p/subscriptions/s"
    attributes: dict[str, str] = {}
    # The whole payload; else fields beside those of ANYTHING, and what stands around them.
    data: dict[str, Any] | None = None
    fields: dict[str, Any] = {}
    envelope: dict[str, Any] = {}

    def pond(self) -> Pond:
        texts = {
            name: found if isinstance(found, str) else json.dumps(found) for name, found in self.settings.items()
        }
        return Pond(None, **texts)

    def message(self) -> Delivery:
        payload = {**ANYTHING, **self.fields} if self.data is None else self.data
        body = {**self.envelope, "payload": payload} if self.envelope else payload
        return delivery(body, attributes=self.attributes, subscription=self.subscription)


ROWS = msgspec.json.decode(Path(__file__).with_name("topics.json").read_bytes(), type=dict[str, list[Row]])
# Good for every view, so that the topic alone decides.
ANYTHING = {
    "symbol": "S",
    "price": 1,
    "close": 1,
    "signalId": "s",
    "action": "BUY",
    "pipeline_id": "p",
    "service": "a",
}
ANYTHING |= {"ts": at(0), "timestamp": at(0), "eventId": "e"}
VIEWS = {
    "market-ticks": ("market_ticks_latest", "market_ticks"),
    "market-bars-1m": ("market_bars_1m",),
    "trade-signals": ("trade_signals",),
    "ingest-heartbeat": ("ingest_pipelines",),
    "system.events": ("ops_services",),
}


@pytest.mark.parametrize("row", ROWS["routed"], ids=lambda row: row.name)
def test_a_message_feeds_the_views_of_its_topic_alone(row: Row) -> None:
    """Names, types and shapes, as producers send them; documents show the topic's own name."""
    pond = row.pond()
    (result,) = pond.send(row.message())
    assert result.outcome == "applied"
    shown = {path.partition("/")[0]: document["source"]["topic"] for path, document in pond.state().items()}
    assert shown == dict.fromkeys(VIEWS[row.topic], row.shown or row.topic)


@pytest.mark.parametrize("row", ROWS["unroutable"], ids=lambda row: row.name)
def test_a_message_without_a_topic_is_poison(row: Row) -> None:
    """What looks like a topic's name, or like the shape of a system event, and is none."""
    fault = row.pond().route(row.message()).fault
    assert isinstance(fault, UnroutableEvent)
    assert fault.reason == "unroutable_payload"
    assert row.error in str(fault)


@pytest.mark.parametrize("case", load("core/envelopes.json"), ids=lambda case: case.name)
def test_an_envelope(case: Case) -> None:
    """What is opened, and what only looks like an envelope."""
    check_in_core(case)


# --- what cannot be routed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "payload", "text"),
    [
        (
            {"topic": "market-tick"},
            {},
            (
                'no view feeds on "market-tick" (from the attribute topic); did you mean "market-ticks"? '
                "known topics: ingest-heartbeat, market-bars-1m, market-ticks, system.events, trade-signals"
            ),
        ),
        (
            {},
            {"sourceTopic": "projects/p/topics/trade-signal", "event_type": "x.y"},
            (
                'no view feeds on "trade-signal" (from the field sourceTopic) or "x.y" (from event_type); '
                'did you mean "trade-signals"?'
            ),
        ),
        (
            {"topic": "zebra"},
            {},
            (
                'no view feeds on "zebra" (from the attribute topic); known topics: ingest-heartbeat, '
                "market-bars-1m, market-ticks, system.events, trade-signals"
            ),
        ),
        (
            {"topic": "Dear Sir, my password is hunter2"},
            {},
            "no view feeds on text that is no topic's name (from the attribute topic); known topics:",
        ),
        ({}, {}, "no topic could be found for the message: set the attribute `topic`, or ROUTES"),
    ],
)
def test_what_cannot_be_routed_says_what_was_tried(
    attributes: dict[str, str], payload: dict[str, Any], text: str
) -> None:
    """And what may have been meant. Text that is no name is not quoted: errors are logged."""
    item = Pond().route(delivery({"what": 1, **payload}, attributes=attributes))
    assert isinstance(item.fault, UnroutableEvent)
    assert str(item.fault).startswith(text)


@pytest.mark.parametrize("subscription", ["projects/p/subscriptions/", "x/", " ", "", "/"])
def test_a_subscription_without_a_name_is_no_bug_of_ours(subscription: str) -> None:
    """What was tried is said all the same."""
    named = Pond().route(delivery({"what": 1}, attributes={"topic": "my-own-topic"}, subscription=subscription))
    assert str(named.fault).startswith('no view feeds on "my-own-topic" (from the attribute topic)')
    bare = Pond().route(delivery({"what": 1}, subscription=subscription))
    assert str(bare.fault).startswith("no topic could be found")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"ROUTES": '{"s": {"kind": "market-tick", "topic": "t"}}'},
            (
                'ROUTES=s: market-tick: no view feeds on "market-tick"; did you mean "market-ticks"? known topics: '
                "ingest-heartbeat, market-bars-1m, market-ticks, system.events, trade-signals"
            ),
        ),
        (
            {"ROUTES": '{"a": {"kind": "market-ticks"}, "s": {"kind": "zebra"}}'},
            'ROUTES=s: zebra: no view feeds on "z',
        ),
        (
            {"SUBSCRIPTION_TOPIC_MAP": '{"s": "market-tick"}'},
            'SUBSCRIPTION_TOPIC_MAP=s: market-tick: no view feeds on "market-tick"; did you mean "market-ticks"?',
        ),
    ],
)
def test_settings_that_name_what_no_view_feeds_on_refuse_to_start(settings: dict[str, str], text: str) -> None:
    """Naming it, what may have been meant, and what there is."""
    with pytest.raises(SettingsError) as refused:
        checked(**settings)
    assert str(refused.value).startswith(text)


@pytest.mark.parametrize(
    "settings",
    [
        {"ROUTES": '{"s": {"kind": "market-ticks", "topic": "anything"}}'},
        {"ROUTES": '{"s": {"kind": "market.tick"}}'},
        # Routed by a later rule, or by what its messages say themselves.
        {"SUBSCRIPTION_TOPIC_MAP": '{"s": "projects/p/topics/prod-Market-Ticks-v2"}'},
        {"SUBSCRIPTION_TOPIC_MAP": '{"s": "market-ticks2", "t": "their-feed"}'},
        {"SUBSCRIPTION_TOPIC_MAP": '{"s": "market-tick"}', "SOURCE_TOPIC": "market-ticks"},
        {"SUBSCRIPTION_TOPIC_MAP": '{"market-ticks": "market-tick"}'},
        {"SUBSCRIPTION_TOPIC_MAP": '{"s": "market.tick"}'},
    ],
)
def test_other_names_start(settings: dict[str, str]) -> None:
    """A name of the team's own is fine where something else tells the topic."""
    checked(**settings)


def test_a_map_value_that_nothing_could_resolve_refuses_to_start() -> None:
    """Views that know no types of events leave only names, and this is none."""
    views = [Orders()]
    settings = settings_module.load({"SUBSCRIPTION_TOPIC_MAP": '{"s": "prod-orders"}'})
    with pytest.raises(SettingsError, match='no view feeds on "prod-orders"; known topics: orders'):
        Router(views, route_rules(settings)).topics.check()


def checked(**environment: str) -> None:
    settings = settings_module.load(environment)
    Router(load_views(settings), route_rules(settings)).topics.check()
