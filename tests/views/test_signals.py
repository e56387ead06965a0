"""Trade signals → `trade_signals`: one document per signal, merged field by field over its lifecycle."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from tests.producers.cases import Case, check_in_core, load
from tests.views.examples import SIGNAL, T0, T1, T3
from tests.views.support import Viewed, check_adopted, check_example, check_order_times

TOPIC = "trade-signals"


def hashed(pond: Viewed, **fields: Any) -> str:
    """The path of a signal that names no id."""
    defining = {"strategyId": "s", "symbol": "SPY", "timeframe": "1m", "side": "buy", "decisionAt": T0}
    return pond.sent({**defining, **fields}, topic=TOPIC).views[0].doc


def test_every_field() -> None:
    """Identity, decision, lifecycle and provenance, all of them."""
    check_example(SIGNAL)


def test_ids() -> None:
    """The first of these names that is not blank; else a hash of what defines the signal."""
    pond = Viewed()
    names = ("signalId", "signal_id", "id", "dedupeKey", "fingerprint", "eventId")
    for first, blank in itertools.product(range(len(names)), (None, "", " ")):
        payload = {**dict.fromkeys(names, blank), **{name: f"{name}-value" for name in names[first:]}}
        assert pond.sent(payload, topic=TOPIC).views[0].doc == f"trade_signals/{names[first]}-value"
    path = hashed(pond)
    assert re.fullmatch(r"trade_signals/[A-Z2-7]{52}", path)
    assert hashed(pond, state="executed", price=5, modelVersion="2", git_sha="f00") == path
    assert hashed(pond, decisionAt="2026-01-08T13:00:00+01:00") == path
    changed = [hashed(pond, **{name: "other"}) for name in ("strategyId", "symbol", "timeframe", "side")]
    assert len({path, *changed, hashed(pond, decisionAt=T1)}) == 6


def test_ids_by_event() -> None:
    """SIGNALS_ID=event: eventId, else messageId."""
    pond = Viewed(SIGNALS_ID="event")
    signal = {"signalId": "s", "symbol": "SPY", "eventId": "e-1"}
    assert pond.applied(signal, message_id="sig-1", topic=TOPIC) == ["trade_signals/e-1"]
    assert pond.applied({"signalId": "s"}, message_id="sig-2", topic=TOPIC) == ["trade_signals/sig-2"]


def test_ids_by_version() -> None:
    """SIGNALS_DISTINCT_BY_VERSION: distinct versions make distinct signals."""
    pond = Viewed(SIGNALS_DISTINCT_BY_VERSION="on")
    versions: list[dict[str, str]] = [{}, {"modelVersion": "1"}, {"modelVersion": "2"}, {"git_sha": "f00"}]
    paths = [hashed(pond, **version) for version in versions]
    assert len(set(paths)) == 4
    assert hashed(pond, modelVersion="2", state="new") == paths[2]


def test_order_times() -> None:
    """updatedAt, decisionAt, producedAt, publishedAt, the envelope's ts, timestamp, ts, time."""
    names = ("updatedAt", "decisionAt", "producedAt", "publishedAt", "envelope", "timestamp", "ts", "time")
    check_order_times(names, TOPIC, {"signalId": "ord"}, "updatedAt")


def test_a_sequence_comes_first() -> None:
    """A sequence outranks time, and an update without one sorts below every update that has one."""
    pond = Viewed()

    def update(state: str, **more: Any) -> tuple[str, str]:
        outcome = pond.sent({"signalId": "seq", "state": state, **more}, topic=TOPIC).outcome
        return str(outcome), pond.shown("trade_signals/seq")["state"]

    assert update("second", sequence=2, updatedAt=T0) == ("applied", "second")
    assert update("first", sequence=1, updatedAt=T3)[1] == "second"
    assert update("none", updatedAt=T3)[1] == "second"
    assert update("third", version=3, updatedAt=T0) == ("applied", "third")
    assert pond.shown("trade_signals/seq")["sequence"] == 3


@pytest.mark.parametrize("time", ["updatedAt", "eventTime", "producedAt", "publishedAt"])
def test_adoption(time: str) -> None:
    """By the latest time it shows. Under SIGNALS_ID=event: test_event_time_order.py."""
    signal = {"topic": TOPIC, "signalId": "s", "state": "new"}
    # An older event adds what the document does not have; this one names nothing new.
    has = dict.fromkeys(("docId", "signalId", "state", "data", "updatedAt", "eventTime"), T0)
    check_adopted(
        {**has, time: "2026-01-08T12:20:00Z", "source": {}},
        "trade_signals/s",
        {**signal, "updatedAt": "2026-01-08T12:19:59Z"},
        {**signal, "updatedAt": "2026-01-08T12:20:01Z"},
    )


def test_an_adopted_sequence_counts() -> None:
    """It comes first, as in an update."""
    has = dict.fromkeys(("docId", "signalId", "state", "data", "updatedAt", "eventTime"), T0)
    signal = {"topic": TOPIC, "signalId": "s", "state": "new", "updatedAt": "2026-01-08T12:19:00Z"}
    check_adopted(
        {**has, "sequence": 5, "source": {}}, "trade_signals/s", {**signal, "sequence": 4}, {**signal, "version": 6}
    )


@pytest.mark.parametrize("case", load("views/signals.json"), ids=lambda case: case.name)
def test_a_case(case: Case) -> None:
    """Ids, times, counters and copies, as producers send them."""
    check_in_core(case)
