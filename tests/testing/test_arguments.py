"""Wrong arguments of check_view: one clear error each, before any world runs. And what it takes as events."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from millpond import Document, Event, Latest, parse_time
from millpond.core.errors import MillpondError
from millpond.core.model import Delivery
from millpond.testing import CheckError, ViewFault, check_view
from tests.testing.faulty import AddsFloats, CoarseTime, RaisesKeyError
from tests.testing.healthy import ORDERS, Counts, Late, Orders, Refusing, Shaped


class NeedsArguments(Orders):
    def __init__(self, region: str) -> None:
        self.region = region


class NoTopics(Latest):
    collection = "orders"
    key = "orderId"

    def document(self, event: Event) -> Document:
        return event.payload


class NoMethod(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"


@pytest.mark.parametrize(
    ("view", "events", "options", "text"),
    [
        (Orders, [], {}, "events is empty: give at least one payload"),
        (Orders, (), {}, "events is empty"),
        (
            Orders,
            None,
            {},
            "events must be a list of payloads, the path of a file, or a hypothesis strategy, not None",
        ),
        (Orders, {"orderId": 1}, {}, "events must be a list of payloads"),
        (Orders, [ORDERS[0], "text"], {}, "events: number 2 is str, not a payload (a dict) or a Delivery"),
        (Orders, [{"orderId": object()}], {}, "events: number 1 cannot be written as JSON"),
        (Orders, "gone.jsonl", {}, "events: gone.jsonl cannot be read: No such file or directory"),
        (Orders, ORDERS, {"worlds": 0}, "worlds must be a whole number from 1, not 0"),
        (Orders, ORDERS, {"worlds": 2.5}, "worlds must be a whole number from 1, not 2.5"),
        (Orders, ORDERS, {"worlds": True}, "worlds must be a whole number from 1, not True"),
        (Orders, ORDERS, {"seed": "one"}, "seed must be a whole number, not 'one'"),
        (object(), ORDERS, {}, "view: object is no view: give a Latest, a Merge or a Tally"),
        (dict, ORDERS, {}, "view: dict is no view"),
        ("orders", ORDERS, {}, "view: str is no view"),
        (NeedsArguments, ORDERS, {}, "view: NeedsArguments() raised TypeError"),
        (NoTopics, ORDERS, {}, "needs topics"),
        (NoMethod, ORDERS, {}, "view=tests.testing.test_arguments.NoMethod: must define document(self, event)"),
    ],
)
def test_wrong_arguments_are_refused(view: Any, events: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(CheckError) as raised:
        check_view(view, events, **options)
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, MillpondError | ValueError)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], "holds no line"),
        (["", " "], "holds no line"),
        (['{"topic": "orders", "data": {"orderId": "1"}}', "{"], "line 2 of "),
        (['{"orderId": "1"}'], "line 1 of "),
        (['{"topic": "orders", "data": [1]}'], "data must be a JSON object"),
        (['{"topic": "orders", "data": {}, "publish": 1}'], "line 1 of "),
        (['{"topic": "orders", "data": {}, "publishTime": "noon"}'], "publishTime must be an RFC 3339 time"),
        (
            ['{"topic": "parcels", "data": {"id": 1}}'],
            "none of the 1 events is for orders: it takes the topics orders",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, lines: list[str], text: str) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text("\n".join(lines))
    with pytest.raises(CheckError) as raised:
        check_view(Orders, file)
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


def lines_of(topic: str = "orders", **more: Any) -> list[str]:
    return [json.dumps({"topic": topic, "data": order, **more}) for order in ORDERS]


def test_a_file_gives_the_same_as_its_payloads(tmp_path: Path) -> None:
    """Lines without a publish time, as text and as a path; other topics' lines are left out."""
    file = tmp_path / "orders.jsonl"
    file.write_text("\n".join([*lines_of("parcels"), *lines_of()]))
    by_file, by_list = check_view(Refusing, str(file)), check_view(Refusing, ORDERS)
    assert (by_file.applied, by_file.documents) == (by_list.applied, by_list.documents)
    # By their lines.
    assert list(by_file.poison) == [number + len(ORDERS) for number in by_list.poison]
    assert check_view(Orders, file).applied == len(ORDERS)


def test_deliveries_are_taken_as_they_are() -> None:
    """With attributes, publish time and data of their own; what is no JSON object is poison."""
    deliveries = [
        Delivery(message_id="7", publish_time=1_767_571_200_000_000, data=b'{"orderId": "o-1", "status": "new"}'),
        Delivery(message_id="8", publish_time=1_767_571_201_000_000, data=b"[]", attributes={"topic": "orders"}),
    ]
    report = check_view(Shaped, deliveries)
    assert (report.applied, report.events) == (1, 2)
    assert report.poison == {2: "the data must be a JSON object, not a list"}


def test_publish_times_of_a_file_order_what_has_one_time(tmp_path: Path) -> None:
    """In a list of payloads nothing orders them; in a file the publish time does, unless that is equal, too."""
    with pytest.raises(ViewFault, match="have one stamp"):
        check_view(CoarseTime, ORDERS)
    file = tmp_path / "orders.jsonl"
    file.write_text("\n".join(lines_of(publishTime="2026-01-08T13:00:00Z")))
    with pytest.raises(ViewFault, match="have one stamp"):
        check_view(CoarseTime, file)
    lines = [json.loads(line) for line in lines_of()]
    for at, line in enumerate(lines):
        line["publishTime"] = f"2026-01-08T13:00:0{at}Z"
    file.write_text("\n".join(map(json.dumps, lines)))
    assert check_view(CoarseTime, file).applied == len(ORDERS)


def test_an_event_is_published_after_the_one_before_it_and_after_its_own_time() -> None:
    """So that no list of payloads is late or from the future by itself, and a list out of order may be late."""
    in_order = sorted(ORDERS, key=lambda order: str(order["at"]))
    assert check_view(Late, in_order[:3]).too_old == 0
    assert check_view(Late, [in_order[-1], in_order[0]]).too_old == 1


def test_a_clock_from_the_future_is_clamped() -> None:
    """Far ahead of its publish time, an event counts as published then; and so it does in the reference."""

    def order(at: str, published: str, status: str) -> Delivery:
        data = json.dumps({"orderId": "o-1", "at": at, "status": status}).encode()
        publish_time = parse_time(published, "published")
        return Delivery(message_id=status, publish_time=publish_time, data=data, attributes={"topic": "orders"})

    ahead = order("2026-01-08T14:00:00Z", "2026-01-08T12:00:00Z", "ahead")
    later = order("2026-01-08T12:30:00Z", "2026-01-08T12:30:00Z", "later")
    assert check_view(Orders, [ahead, later], worlds=20).applied == 2


_payloads = st.fixed_dictionaries(
    {
        "orderId": st.sampled_from(["a", "b"]),
        "at": st.integers(1_767_571_200, 1_767_571_300),
        "price": st.floats(0, 100),
        "cents": st.integers(0, 9),
    },
    optional={"status": st.text(max_size=3), "coupon": st.just("x")},
)


def test_a_strategy_of_payloads() -> None:
    """Events that nothing orders are left out: a strategy does not say which of them occur together."""
    report = check_view(Orders, _payloads)
    assert (report.view, report.poison) == ("orders", {})
    assert report.worlds >= 190
    assert report.applied == report.events > 100
    assert check_view(Counts, _payloads, worlds=30).worlds <= 30


def test_a_strategy_finds_a_fault_and_shrinks_its_payloads() -> None:
    with pytest.raises(ViewFault) as raised:
        check_view(RaisesKeyError, _payloads)
    (event,) = raised.value.events
    assert (event["orderId"], event["cents"], "coupon" in event) == ("a", 0, False)
    with pytest.raises(ViewFault) as raised:
        check_view(AddsFloats, _payloads)
    assert raised.value.cause == "rounds_floats"
    assert len(raised.value.events) == 3


def test_a_strategy_of_nothing_that_is_applied_is_refused() -> None:
    with pytest.raises(ViewFault, match="no event was applied"):
        check_view(Orders, st.just({"status": "new"}), worlds=5)
    with pytest.raises(CheckError, match="events: number 1 is int"):
        check_view(Orders, st.just(1), worlds=5)  # type: ignore[arg-type]


def test_without_hypothesis_a_strategy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(CheckError, match="a strategy needs hypothesis: pip install hypothesis"):
        check_view(Orders, _payloads)
    assert check_view(Orders, ORDERS, worlds=1).applied == len(ORDERS)
