"""Those who look on: what each is told, what it keeps, and how little that costs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from millpond.core.ack import Answered, settle_push
from millpond.core.model import Delivery, Event, Outcome, Result, ViewResult
from millpond.live.changes import CHANGED_MAX, Changes
from millpond.live.mailbox import Mailbox, frame
from millpond.live.sparklines import POINTS_MAX, SILENT_S, SYMBOLS_MAX, PriceHistory
from millpond.live.tails import TAIL_PER_S_MAX, Tail, Tails, Wanted

SECOND = 1_000_000
NOW = 1_767_876_000 * SECOND
DELIVERY = Delivery(message_id="m", publish_time=NOW, data=b"{}")


def result(*docs: str, outcome: Outcome = Outcome.APPLIED, reason: str = "applied", **more: Any) -> Result:
    wrote = more.pop("wrote", outcome is Outcome.APPLIED)
    views = [ViewResult(doc.partition("/")[0], doc, outcome, reason, wrote=wrote) for doc in docs]
    return Result(outcome, reason, more.pop("topic", "t"), views, **more)


def tick(symbol: str, price: Any, outcome: Outcome = Outcome.APPLIED) -> Result:
    event = Event(message_id="m", publish_time=NOW, topic="market-ticks", payload={"price": price})
    return result(f"market_ticks_latest/{symbol}", outcome=outcome, topic="market-ticks", event=event)


def answered(said: Result, at: int = NOW, delivery: Delivery | None = DELIVERY) -> Answered:
    return Answered(delivery, said, settle_push(said), 0.25, at, counts=True)


# --- changes -----------------------------------------------------------------------------------------------------


def test_changes_are_what_was_written() -> None:
    """Applied, and a republished copy that took over; each once; nothing of what changed nothing."""
    changes = Changes()
    assert changes.take() is None
    for told in (
        result("a/1", "b/1"),
        result("a/1"),
        result("a/2", outcome=Outcome.DUPLICATE, reason="duplicate_event_noop", wrote=True),
        result("a/3", outcome=Outcome.DUPLICATE, reason="duplicate_event_noop"),
        result("a/4", outcome=Outcome.STALE, reason="stale_event_ignored"),
        result("a/5", outcome=Outcome.TOO_OLD, reason="too_old_ignored"),
    ):
        changes.on_outcome(answered(told))
    assert changes.take() == {"docs": ["a/1", "b/1", "a/2"], "more": False, "letters": False}
    assert changes.take() is None
    changes.on_outcome(answered(result(outcome=Outcome.POISON, reason="invalid_event", buried=True)))
    assert changes.take() == {"docs": [], "more": False, "letters": True}
    changes.on_outcome(answered(result(outcome=Outcome.POISON, reason="invalid_event")))
    assert changes.take() is None


def test_changes_are_bounded() -> None:
    """By number and by size, and they say so."""
    changes = Changes()

    def taken(documents: Iterable[str]) -> Mapping[str, Any]:
        for document in documents:
            changes.on_outcome(answered(result(document)))
        found = changes.take()
        assert found is not None
        return found

    full = taken(f"a/{number}" for number in range(CHANGED_MAX))
    assert (len(full["docs"]), full["more"]) == (CHANGED_MAX, False)
    over = taken(f"a/{number}" for number in range(CHANGED_MAX + 1))
    assert (len(over["docs"]), over["more"]) == (CHANGED_MAX, True)
    large = taken(f"a/{number:01500d}" for number in range(CHANGED_MAX))
    assert large["more"]
    assert len(json.dumps(large)) < 100_000


def test_changes_are_bounded_each_time_anew() -> None:
    """What was taken away takes no more room: pages are told which documents changed all day."""
    changes = Changes()
    for number in range(200):
        changes.on_outcome(answered(result(f"a/{number:01000d}")))
        assert changes.take() == {"docs": [f"a/{number:01000d}"], "more": False, "letters": False}


# --- tails -------------------------------------------------------------------------------------------------------


def test_a_tail_shows_so_many_a_second_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the next second it shows again; what was left out is told once."""
    clock = [100.0]
    monkeypatch.setattr("millpond.live.tails.Tail", lambda wanted: Tail(wanted, lambda: clock[0]))
    tails = Tails()
    tail = tails.open(Wanted())

    def shown() -> int:
        return (asyncio.run(tail.mailbox.take(0.01)) or b"").count(b"event: outcome\n")

    for _ in range(TAIL_PER_S_MAX + 70):
        tails.on_outcome(answered(result("a/1")))
    assert (shown(), tail.take_skipped()) == (TAIL_PER_S_MAX, frame("skipped", {"n": 70}))
    assert tail.take_skipped() == b""
    clock[0] += 1
    tails.on_outcome(answered(result("a/1")))
    assert (shown(), tail.take_skipped()) == (1, b"")


def test_a_tail_that_is_full_counts_what_did_not_fit() -> None:
    """And takes again once it was read."""
    tails = Tails()
    tail = tails.open(Wanted())
    tail.mailbox = Mailbox(bytes_max=1_500)
    for _ in range(20):
        tails.on_outcome(answered(result("a/1")))
    taken = asyncio.run(tail.mailbox.take(1))
    assert taken is not None
    shown = taken.count(b"event: outcome\n")
    assert 0 < shown < 20
    assert tail.take_skipped() == frame("skipped", {"n": 20 - shown})
    tails.on_outcome(answered(result("a/1")))
    assert tail.take_skipped() == b""


def test_what_a_tail_does_not_want_costs_it_nothing() -> None:
    """However much of it comes: what is wanted is shown, and nothing is said to be left out."""
    tails = Tails()
    tail = tails.open(Wanted(topics=frozenset({"rare"})))
    for _ in range(TAIL_PER_S_MAX + 1):
        tails.on_outcome(answered(result("a/1", topic="busy")))
    tails.on_outcome(answered(result("a/1", topic="rare")))
    assert tail.take_skipped() == b""
    assert (asyncio.run(tail.mailbox.take(0.01)) or b"").count(b"event: outcome\n") == 1


def test_tails_that_are_closed_are_told_nothing() -> None:
    tails = Tails()
    first, second = tails.open(Wanted()), tails.open(Wanted(topics=frozenset({"x"})))
    tails.close(first)
    assert tails.any
    tails.on_outcome(answered(result("a/1", topic="x")))
    assert asyncio.run(first.mailbox.take(0.01)) == b""
    assert asyncio.run(second.mailbox.take(0.01)) != b""
    tails.close(second)
    assert not tails.any


def test_a_mailbox_ends() -> None:
    """A reader that waits is told at once, and what still lies there is forgotten."""

    async def scenario() -> list[bytes | None]:
        mailbox = Mailbox()
        waiting = asyncio.create_task(mailbox.take(60))
        await asyncio.sleep(0)
        mailbox.put(b"x")
        found = [await waiting]
        mailbox.put(b"y")
        mailbox.end()
        return [*found, await mailbox.take(60), await mailbox.take(60)]

    assert asyncio.run(scenario()) == [b"x", None, None]


def test_a_frame_is_one_event_to_every_reader() -> None:
    """Line breaks of all kinds are escaped, also those that only some readers take for one."""
    content = {"text": "a\r\nb\u2028c\u0085d\x0b"}
    name, text, *rest = frame("x", content).decode().splitlines()
    assert (name, rest) == ("event: x", [""])
    assert json.loads(text.removeprefix("data: ")) == content


# --- sparklines --------------------------------------------------------------------------------------------------


def test_a_second_is_one_point() -> None:
    """The last price of it; at most sixty; what lost, has no price or is no tick draws nothing."""
    sparklines = PriceHistory()
    for second in range(POINTS_MAX + 5):
        for price in (second, f"{second}.5"):
            sparklines.on_outcome(answered(tick("SPY", price), NOW + second * SECOND))
    sparklines.on_outcome(answered(tick("SPY", 9e9, Outcome.STALE), NOW + 99 * SECOND))
    sparklines.on_outcome(answered(tick("NONE", None)))
    sparklines.on_outcome(answered(result("market_ticks/SPY")))
    sparklines.on_outcome(answered(Result(Outcome.POISON, "malformed_envelope"), delivery=None))
    began = NOW // SECOND
    wanted = [[began + second, second + 0.5] for second in range(5, POINTS_MAX + 5)]
    assert sparklines.shown() == {"market_ticks_latest": {"SPY": wanted}}


def test_symbols_are_bounded() -> None:
    """A place is given to another only by a symbol that fell silent, the longest silent first."""
    sparklines = PriceHistory()
    for number in range(SYMBOLS_MAX + 50):
        sparklines.on_outcome(answered(tick(f"S{number}", 1)))
    assert set(sparklines.shown()["market_ticks_latest"]) == {f"S{number}" for number in range(SYMBOLS_MAX)}
    later = NOW + SILENT_S * SECOND
    sparklines.on_outcome(answered(tick("S0", 2), later - SECOND))
    sparklines.on_outcome(answered(tick("NEW", 2), later))
    shown = sparklines.shown()["market_ticks_latest"]
    assert len(shown) == SYMBOLS_MAX
    assert {"S0", "NEW"} <= shown.keys()
    assert "S1" not in shown


@pytest.mark.parametrize(
    ("told", "most_us"), [(result("ops_services/dev__api"), 2.0), (tick("SPY", 512.3), 5.0)], ids=["other", "tick"]
)
def test_sparklines_cost_nearly_nothing(told: Result, most_us: float) -> None:
    """They are told of every message. Processor time is measured, because a busy machine takes turns.

    The bounds are far above what is measured.
    """
    sparklines = PriceHistory()
    best = min(_seconds(sparklines, told) for _ in range(5))
    assert best * 1e6 < most_us


def _seconds(sparklines: PriceHistory, told: Result, times: int = 5_000) -> float:
    began = time.thread_time()
    for number in range(times):
        sparklines.on_outcome(answered(told, NOW + number * 100))
    return (time.thread_time() - began) / times
