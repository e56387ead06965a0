"""Finding bars: the right ones, of the right symbol, for as few documents as can be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from millpond.charts import sources
from millpond.charts.bars import Found
from millpond.charts.find import between, find_bars, first, last
from millpond.charts.request import Request
from millpond.charts.sources import open_source
from millpond.charts.times import MINUTE_US
from millpond.core import timestamps
from millpond.core.errors import StepFailed
from millpond.core.ids import encode_id
from millpond.core.model import Ref
from tests.charts.market import DAY_US, HOUR_US, OPEN, CountingStore, documents_of, flat_minutes, walk

KINDS = ["natural", "nested", "event"]
SYMBOLS = ["SPY", "SPYX", "SP", "SPY_", "BRK.B", "BTC/USD", "^GSPC", "__X__", "A__B", "A", "ÅÄÖ"]


def minutes_of(found: Found, since: int = OPEN) -> list[int]:
    return [(bar.start - since) // MINUTE_US for bar in found.bars]


def run(store: CountingStore, kind: str, call: Any, *arguments: Any, symbol: str = "SPY") -> Found:
    async def scenario() -> Found:
        found: Found = await call(open_source(store, kind, symbol), *arguments)
        return found

    return asyncio.run(scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_includes_from_and_not_to(kind: str) -> None:
    """For each way of naming documents."""
    store = CountingStore(documents_of(walk(20), bars_id=kind))
    found = run(store, kind, between, OPEN + 5 * MINUTE_US, OPEN + 9 * MINUTE_US, MINUTE_US)
    assert found == (walk(20)[5:9], 0)


@pytest.mark.parametrize("kind", KINDS)
def test_symbols_that_begin_alike_or_oddly_are_never_mixed(kind: str) -> None:
    """Each has its own price, and each chart shows only that."""
    store = CountingStore(
        *(
            documents_of([b._replace(close=1.0 + n) for b in flat_minutes([OPEN, OPEN + MINUTE_US])], symbol, kind)
            for n, symbol in enumerate(SYMBOLS)
        )
    )
    for n, symbol in enumerate(SYMBOLS):
        for call, arguments in (
            (between, (OPEN - DAY_US, OPEN + DAY_US, MINUTE_US)),
            (first, (OPEN - DAY_US, MINUTE_US, 120)),
            (last, (OPEN + DAY_US, MINUTE_US, 120)),
        ):
            found = run(store, kind, call, *arguments, symbol=symbol)
            assert [(bar.start - OPEN, bar.close) for bar in found.bars] == [(0, 1.0 + n), (MINUTE_US, 1.0 + n)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_over_days_and_pages_is_read_whole(kind: str) -> None:
    """2,500 minutes are more than a page and more than a day."""
    bars = flat_minutes(OPEN + n * MINUTE_US for n in range(2_500))
    store = CountingStore(documents_of(bars, bars_id=kind))
    found = run(store, kind, between, OPEN, OPEN + 2_500 * MINUTE_US, MINUTE_US)
    assert minutes_of(found) == list(range(2_500))


def test_a_window_costs_its_own_documents_and_no_more() -> None:
    """Neither the days before it nor those after it are read."""
    store = CountingStore(documents_of(flat_minutes(OPEN + n * MINUTE_US for n in range(3_000))))
    run(store, "natural", between, OPEN + 1_000 * MINUTE_US, OPEN + 1_120 * MINUTE_US, MINUTE_US)
    assert (store.requests, store.documents_read) == (1, 120)
    run(store, "natural", between, OPEN + 500 * MINUTE_US, OPEN + 2_300 * MINUTE_US, MINUTE_US)
    assert (store.requests, store.documents_read) == (3, 120 + 1_800)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("timeframe_us", "minutes"), [(MINUTE_US, 1), (5 * MINUTE_US, 5), (HOUR_US, 60)])
def test_the_last_bars_are_whole_and_end_with_the_newest(kind: str, timeframe_us: int, minutes: int) -> None:
    """The oldest of them is not cut, whatever the minute is now."""
    step = timeframe_us
    begin = OPEN - OPEN % HOUR_US
    bars = [b._replace(volume=1.0) for b in flat_minutes(begin + n * MINUTE_US for n in range(400))]
    store = CountingStore(documents_of(bars, bars_id=kind))
    now = begin + 399 * MINUTE_US + 17
    request = Request(index=1, timeframe={1: "1m", 5: "5m", 60: "1h"}[minutes], template=None, start=None, end=None)
    found = run(store, kind, find_bars, request, now)
    assert len(found.bars) == min(120, -(-400 // minutes))
    assert found.bars[-1].start == (begin + 399 * MINUTE_US) // step * step
    assert {bar.volume for bar in found.bars[:-1]} == {float(minutes)}


@pytest.mark.parametrize(
    ("gap_minutes", "documents_max", "requests_max"),
    [(0, 121, 2), (17 * 60 + 30, 280, 10), (65 * 60, 310, 14), (30 * 24 * 60, 370, 19), (399 * 24 * 60, 390, 27)],
)
def test_the_last_bars_cost_few_documents_however_long_ago_they_were(
    gap_minutes: int, documents_max: int, requests_max: int
) -> None:
    """After a night, a weekend, a month, a year: about three times as many as are drawn, and not days of them."""
    store = CountingStore(documents_of(flat_minutes(OPEN - n * MINUTE_US for n in range(1, 1_501))))
    found = run(store, "natural", last, OPEN + gap_minutes * MINUTE_US, MINUTE_US, 120)
    assert minutes_of(found) == list(range(-120, 0))
    assert store.documents_read <= documents_max
    assert store.requests <= requests_max


def test_the_last_bars_reach_over_the_gap_between_two_sessions() -> None:
    """Half an hour after the open, most of the last 120 bars are yesterday's."""
    yesterday = flat_minutes(OPEN - DAY_US + n * MINUTE_US for n in range(390))
    today = flat_minutes(OPEN + n * MINUTE_US for n in range(30))
    store = CountingStore(documents_of([*yesterday, *today]))
    found = run(store, "natural", last, OPEN + 30 * MINUTE_US, MINUTE_US, 120)
    assert [bar.start for bar in found.bars] == [bar.start for bar in [*yesterday[-90:], *today]]
    assert store.documents_read < 600


@pytest.mark.parametrize("kind", KINDS)
def test_few_bars_are_better_than_none(kind: str) -> None:
    """Where a symbol has not had so many, all of the last 400 days are given, and nothing older."""
    starts = [OPEN - 401 * DAY_US, OPEN - 390 * DAY_US, OPEN - 3 * DAY_US, OPEN - MINUTE_US]
    store = CountingStore(documents_of(flat_minutes(starts), bars_id=kind))
    assert [bar.start for bar in run(store, kind, last, OPEN, MINUTE_US, 120).bars] == starts[1:]


@pytest.mark.parametrize(("kind", "requests_max"), [("natural", 20), ("nested", 430), ("event", 1)])
def test_a_symbol_nobody_has_seen_costs_little(kind: str, requests_max: int) -> None:
    """And is found to have no bars; what others have is not read."""
    store = CountingStore(documents_of(flat_minutes(OPEN + n * MINUTE_US for n in range(-50, 50)), "SPYX", kind))
    assert run(store, kind, last, OPEN, MINUTE_US, 120) == ([], 0)
    assert store.requests <= requests_max
    assert store.documents_read <= 100


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("minutes", [1, 5])
def test_the_first_bars_from_there_on(kind: str, minutes: int) -> None:
    """However long nothing happens first, and each of them whole."""
    begin = OPEN + 3 * DAY_US - OPEN % HOUR_US
    bars = [b._replace(volume=1.0) for b in flat_minutes(begin + n * MINUTE_US for n in range(1_000))]
    store = CountingStore(documents_of(bars, bars_id=kind))
    found = run(store, kind, first, OPEN, minutes * MINUTE_US, 120)
    assert [bar.start for bar in found.bars] == [begin + n * minutes * MINUTE_US for n in range(120)]
    assert {bar.volume for bar in found.bars} == {float(minutes)}
    if kind == "natural":
        assert store.documents_read == 120 * minutes + 1


def test_the_last_of_the_first_bars_is_whole_also_where_a_page_ends_in_it() -> None:
    """Where five bad minutes leave no bar, the page ends after one minute of the last; the rest of it is read."""
    bars = [b._replace(volume=1.0) for b in flat_minutes(OPEN + n * MINUTE_US for n in range(1_000))]
    documents = documents_of(bars)
    for ref in sorted(documents)[:5]:
        documents[ref]["close"] = None
    found = run(CountingStore(documents), "natural", first, OPEN, 5 * MINUTE_US, 120)
    assert (len(found.bars), found.skipped) == (120, 5)
    assert found.bars[-1].volume == 5.0


def test_bad_minutes_are_counted_and_do_not_break_a_bar() -> None:
    """The rest of the five minutes is still there; where there is no ts, the id says which minute it is."""
    documents = documents_of(walk(10))
    refs = sorted(documents)
    del documents[refs[1]]["close"]
    documents[refs[2]]["high"] = "n/a"
    del documents[refs[3]]["ts"]
    found = run(CountingStore(documents), "natural", between, OPEN, OPEN + DAY_US, 5 * MINUTE_US)
    bars = walk(10)
    assert found.skipped == 2
    assert found.bars[0].volume == sum(bars[n].volume or 0 for n in (0, 3, 4))


def test_the_time_in_a_document_is_right_where_its_id_differs() -> None:
    """An earlier consumer's ids may be rounded otherwise; what lies outside the window stays outside."""
    documents = documents_of(flat_minutes([OPEN, OPEN + MINUTE_US]))
    documents[min(documents)]["ts"] = timestamps.to_datetime(OPEN - DAY_US)
    found = run(CountingStore(documents), "natural", between, OPEN, OPEN + HOUR_US, MINUTE_US)
    assert minutes_of(found) == [1]


def test_with_event_ids_the_newest_revision_of_a_minute_counts() -> None:
    """Every revision is a document there, and its id says nothing."""
    documents = {
        Ref("market_bars_1m", f"event-{n}"): {
            "symbol": "spy " if n == 1 else "SPY",
            "ts": timestamps.to_datetime(OPEN),
            "open": 1,
            "high": 9,
            "low": 1,
            "close": close,
            "source": {"stamp": stamp},
        }
        for n, (stamp, close) in enumerate([("b", 2), ("c", 3), ("a", 4)])
    }
    found = run(CountingStore(documents), "event", between, OPEN, OPEN + HOUR_US, MINUTE_US)
    assert [bar.close for bar in found.bars] == [3.0]


def test_with_event_ids_there_is_an_end_to_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step fails and says which setting helps; up to there, one scan serves every request."""
    monkeypatch.setattr(sources, "PAGE_DOCUMENTS", 10)
    monkeypatch.setattr(sources, "SCAN_DOCUMENTS_MAX", 40)
    store = CountingStore(documents_of(flat_minutes(OPEN + n * MINUTE_US for n in range(39)), bars_id="event"))

    async def twice() -> list[Found]:
        source = open_source(store, "event", "SPY")
        return [await last(source, OPEN + HOUR_US, MINUTE_US, 120) for _ in range(2)]

    one, other = asyncio.run(twice())
    assert one == other
    assert len(one.bars) == store.documents_read == 39
    store.fill(documents_of(flat_minutes([OPEN + 50 * MINUTE_US]), "OTHER", "event"))
    with pytest.raises(StepFailed, match="set BARS_ID=natural") as failed:
        run(store, "event", last, OPEN, MINUTE_US, 120)
    assert failed.value.code == "TOO_MANY_DOCUMENTS"


def test_ids_are_those_of_the_view() -> None:
    """The range of ids rests on how the view names its documents."""
    (ref,) = documents_of(flat_minutes([OPEN]), "BTC/USD")
    assert ref == ("market_bars_1m", encode_id("BTC/USD", "2026-01-08T14:30:00Z"))
    (ref,) = documents_of(flat_minutes([OPEN]), "BTC/USD", "nested")
    assert ref == ("market_bars_1m_by_symbol/BTC%2FUSD/days/20260108/minutes", "1430")
