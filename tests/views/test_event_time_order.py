"""The order by event time: `eventTime` decides, and never goes back, whatever the order of arrival.

The oracle here is written from docs/ordering.md, and shares nothing with the views.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.core import timestamps
from millpond.core.model import Delivery
from tests.common.pond import NOW, SECOND, Pond, delivery
from tests.common.properties import examples
from tests.producers.cases import Case, check_in_core

TOPICS = {"market-ticks": "market_ticks", "market-bars-1m": "market_bars_1m", "trade-signals": "trade_signals"}
# What a case of `event_time_order.json` leaves open: an event type and a field of the view, and what becomes of
# an older event that names a field which the document does not have. A merge takes it.
OPEN = {
    "market-ticks": {"event_type": "market.tick", "field": "price", "older": "stale_ignored"},
    "market-bars-1m": {"event_type": "market.bars.1m", "field": "close", "older": "stale_ignored"},
    "trade-signals": {"event_type": "trade.signal", "field": "state", "older": "applied"},
}
SETTINGS = {"BARS_ID": "event", "SIGNALS_ID": "event"}
SKEW_S = 300
_IN_PAYLOAD = ("producedAt", "publishedAt", "timestamp", "ts", "time", "at")
_IN_ENVELOPE = ("ts", "timestamp", "producedAt")
# Seconds from NOW, or text that is no time at all. 301 is believed of a message published at 1, and not at 0.
_TIMES = st.sampled_from((-90, 0, 1, 5, 301, 90_000, "n/a", "", None))
_FIELDS = st.dictionaries(st.sampled_from(_IN_PAYLOAD), _TIMES, max_size=3)


class Sent(NamedTuple):
    payload: dict[str, Any]
    # None where the message has no envelope.
    envelope: dict[str, Any] | None
    sequence: int | None
    published: int


def sent() -> st.SearchStrategy[Sent]:
    envelopes = st.none() | st.dictionaries(st.sampled_from(_IN_ENVELOPE), _TIMES, max_size=2)
    return st.builds(Sent, _FIELDS, envelopes, st.sampled_from((None, 0, 2, 10)), st.sampled_from((0, 1, 2, 400)))


def as_sent(value: Any) -> Any:
    return timestamps.to_text(NOW + value * SECOND) if isinstance(value, int) else value


def message(topic: str, number: int, what: Sent) -> Delivery:
    """No symbol: such a tick is the history's alone, which is the view that goes by event time."""
    payload: dict[str, Any] = {name: as_sent(value) for name, value in what.payload.items()}
    payload |= {"eventId": "e", "n": number}
    if what.sequence is not None:
        payload["sequence"] = what.sequence
    outer: Any = payload
    if what.envelope is not None:
        around = {name: as_sent(value) for name, value in what.envelope.items()}
        outer = {"event_type": "x", **around, "payload": payload}
    return delivery(outer, f"m{number}", what.published, attributes={"topic": topic})


def order_s(what: Sent) -> int:
    """`producedAt` → `publishedAt` → `timestamp` → …: the first that is a time, clamped; else publish time."""
    envelope = what.envelope or {}
    named = [what.payload.get(name) for name in _IN_PAYLOAD] + [envelope.get(name) for name in _IN_ENVELOPE]
    own = next((value for value in named if isinstance(value, int)), what.published)
    return what.published if own > what.published + SKEW_S else own


def rank(number: int, what: Sent) -> tuple[int, int, int, str]:
    return order_s(what), -1 if what.sequence is None else what.sequence, what.published, f"m{number}"


def to_datetime(seconds: int) -> dt.datetime:
    return timestamps.to_datetime(NOW + seconds * SECOND)


def cases() -> list[Case]:
    """Each case for each view."""
    template = Template(Path(__file__).with_name("event_time_order.json").read_text(encoding="utf-8"))
    return [
        msgspec.structs.replace(case, name=f"{topic}: {case.name}", settings=SETTINGS)
        for topic, given_values in OPEN.items()
        for case in msgspec.json.decode(
            template.substitute(topic=topic, collection=TOPICS[topic], **given_values), type=list[Case]
        )
    ]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_case(case: Case) -> None:
    """Times, sequences, clocks that are ahead and what is no time, as producers send them."""
    check_in_core(case)


@pytest.mark.parametrize("topic", TOPICS)
@examples(250)
@given(st.lists(sent(), min_size=1, max_size=5), st.data())
def test_event_time_never_goes_back(topic: str, history: list[Sent], data: st.DataObject) -> None:
    """In any order and any batching: it only grows, and ends at the greatest, whose payload the document holds."""
    arrivals = data.draw(st.permutations(list(enumerate(history))))
    pond = Pond(None, **SETTINGS)
    path = f"{TOPICS[topic]}/e"
    before = None
    while arrivals:
        size = data.draw(st.integers(1, len(arrivals)))
        pond.send(*(message(topic, number, what) for number, what in arrivals[:size]))
        arrivals = arrivals[size:]
        event_time = pond.get(path)["eventTime"]
        assert before is None or event_time >= before
        before = event_time
    winner, what = max(enumerate(history), key=lambda pair: rank(*pair))
    document = pond.get(path)
    assert document["eventTime"] == to_datetime(order_s(what))
    assert document["data"]["n"] == winner
    assert document["source"]["messageId"] == f"m{winner}"
    assert document["source"]["order"] == "eventTime"


@pytest.mark.parametrize("topic", TOPICS)
@examples(150)
@given(st.lists(sent(), min_size=1, max_size=4), st.integers(-100, 100), st.integers(0, 2), st.data())
def test_a_document_from_before_is_adopted_by_event_time_alone(
    topic: str, history: list[Sent], stored_s: int, published: int, data: st.DataObject
) -> None:
    """Whatever else it holds: other times that are later, or a stamp by another rule, freeze nothing."""
    later = to_datetime(9_000)
    source: dict[str, Any] = {"messageId": "m-before", "publishedAt": to_datetime(published)}
    if data.draw(st.booleans()):
        source |= {"stamp": "99999999999999999.x", "key": "K", "revisionAt": later, "stamps": []}
    before = {"eventTime": to_datetime(stored_s), "publishedAt": later, "updatedAt": later, "data": {"n": -1}}
    pond = Pond(None, **SETTINGS)
    path = f"{TOPICS[topic]}/e"
    pond.put(path, {**before, "source": source})
    pond.send(
        *(message(topic, number, what) for number, what in data.draw(st.permutations(list(enumerate(history)))))
    )
    adopted = stored_s, -1, published, "m-before"
    winner = max([adopted, *(rank(number, what) for number, what in enumerate(history))])
    document = pond.get(path)
    assert document["eventTime"] == to_datetime(winner[0])
    assert document["data"]["n"] == (-1 if winner is adopted else int(winner[3][1:]))


@examples(200)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(("state", "reason", None))), min_size=1, max_size=5),
    st.booleans(),
    st.data(),
)
def test_each_field_of_an_adopted_signal_is_the_newest_that_names_it(
    history: list[tuple[int, str | None]], stamped: bool, data: st.DataObject
) -> None:
    """Also where an older event is the first to name one: from then on all stamps are by this rule."""
    source: dict[str, Any] = {"messageId": "before", "publishedAt": to_datetime(0)}
    if stamped:
        # As the build before wrote it: by sequence first, and by the time of the update.
        source |= {"stamp": f"{0:020d}.{NOW:017d}.{NOW:017d}.before", "key": "K"}
        source["stamps"] = [{"stamp": source["stamp"], "key": "K", "fields": ["eventTime", "state", "data"]}]
    pond = Pond(None, **SETTINGS)
    pond.put("trade_signals/e", {"eventTime": to_datetime(0), "state": "before", "data": {}, "source": source})
    arrivals = data.draw(st.permutations(list(enumerate(history))))
    while arrivals:
        size = data.draw(st.integers(1, len(arrivals)))
        batch = []
        for number, (second, name) in arrivals[:size]:
            payload = {"eventId": "e", "ts": as_sent(second), **({name: f"m{number}"} if name else {})}
            batch.append(delivery(payload, f"m{number}", 10, attributes={"topic": "trade-signals"}))
        pond.send(*batch)
        arrivals = arrivals[size:]
    document = pond.get("trade_signals/e")
    ranks = [(second, 10, f"m{number}", name) for number, (second, name) in enumerate(history)]
    for field, held in (("state", [(0, 0, "before", "state")]), ("reason", [])):
        winner = max([*held, *(rank for rank in ranks if rank[3] == field)], default=None)
        assert document.get(field) == (winner[2] if winner else None)
    assert document["eventTime"] == to_datetime(max(0, *(second for second, _ in history)))
    assert document["source"]["order"] == "eventTime"


@pytest.mark.parametrize("topic", ["market-ticks", "market-bars-1m"])
@pytest.mark.parametrize("stamped", [True, False])
def test_a_sequence_breaks_ties_with_a_document_from_before(topic: str, stamped: bool) -> None:
    """An earlier build has it in its stamp, an earlier consumer in its data."""
    source: dict[str, Any] = {"messageId": "before", "publishedAt": to_datetime(0)}
    if stamped:
        source["stamp"] = f"{NOW:017d}.{8:020d}.{NOW:017d}.before"
    data = {"eventId": "e"} if stamped else {"eventId": "e", "seq": "7"}
    pond = Pond(None, **SETTINGS)
    pond.put(f"{TOPICS[topic]}/e", {"eventTime": to_datetime(0), "data": data, "source": source})

    def outcome(message_id: str, publish_s: int, sequence: int) -> str:
        payload = {"eventId": "e", "ts": as_sent(0), "seq": sequence}
        (result,) = pond.send(delivery(payload, message_id, publish_s, attributes={"topic": topic}))
        return str(result.views[-1].outcome)

    assert outcome("before", 0, 7) == "duplicate"
    assert outcome("lower", 9, 3) == "stale_ignored"
    assert outcome("greater", 1, 8) == "applied"


def test_a_natural_id_goes_by_its_own_rule_again() -> None:
    """A signal stored in the order by event time is adopted by `updatedAt`, where the setting is changed back."""
    pond = Pond(None, **SETTINGS)
    what = {"eventId": "e", "ts": timestamps.to_text(NOW), "updatedAt": timestamps.to_text(NOW + 9 * SECOND)}
    pond.send(delivery({**what, "state": "new"}, "m1", 10, attributes={"topic": "trade-signals"}))
    natural = Pond()
    natural.documents = pond.documents
    older = {**what, "updatedAt": timestamps.to_text(NOW + 8 * SECOND), "state": "older"}
    newer = {**what, "updatedAt": timestamps.to_text(NOW + 10 * SECOND), "state": "newer"}
    assert (
        natural.send(delivery(older, "m2", 20, attributes={"topic": "trade-signals"}))[0].outcome == "stale_ignored"
    )
    assert natural.get("trade_signals/e")["state"] == "new"
    assert natural.send(delivery(newer, "m3", 20, attributes={"topic": "trade-signals"}))[0].outcome == "applied"
    assert natural.get("trade_signals/e")["state"] == "newer"
    assert "order" not in natural.get("trade_signals/e")["source"]
