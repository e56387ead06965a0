"""The answer: which minutes it is of, how they are scaled, whose operations they are, and what they cost."""

from __future__ import annotations

import math

import pytest

from millpond.core.errors import SettingsError
from millpond.core.view import View
from millpond.cost.answer import Cost, Stored
from millpond.cost.bill import Period, collections_of, make_answer, measured_collections, priced
from millpond.live.minutes import Minutes, Sums
from millpond.live.spending import Hours, HourSpent, Spending
from millpond.service.views import load_views
from millpond.settings import load
from millpond.settings.prices import Prices
from millpond.stores.operations import OTHER, Spent

HOUR = 497_222
# 12:34 of some day.
NOW = HOUR * 60 + 34
PRICES = Prices(currency="EUR", reads=1.0, writes=10.0, deletes=100.0, storage=365.0)
VIEWS: list[View] = load_views(load({"BUILT_IN_VIEWS": "ops_services,market_ticks"}))


def spending(hours: Hours, minutes: Minutes | None = None) -> Spending:
    return Spending(hours, minutes or {}, complete=True, kept=True, read=3)


def hour(since: int, **collections: Spent) -> HourSpent:
    return HourSpent(since, dict(collections))


def answer(known: Spending, stored: dict[str, Stored | None] | None = None) -> Cost:
    period = Period(known, NOW)
    return make_answer(known, period, collections_of(VIEWS, period.spent), stored or {}, 3)


def test_a_whole_day_is_hardly_scaled() -> None:
    """23 hours and the 35 minutes of this one: what is older shows only that it was known."""
    known = {HOUR - 24 + n: hour(0, market_ticks=Spent(reads=60)) for n in range(25)}
    cost = answer(spending(known))
    assert cost.minutes == 23 * 60 + 35
    assert cost.total.counted.reads == 24 * 60
    assert cost.scale == pytest.approx(1_440 / 1_415, rel=1e-4)
    assert cost.total.day.reads == round(24 * 60 * 1_440 / 1_415)


def test_a_part_of_a_day_says_of_how_many_minutes_it_is() -> None:
    """From the first minute that was counted until now."""
    known = {HOUR - 1: hour(50, market_ticks=Spent(writes=10)), HOUR: hour(0, market_ticks=Spent(writes=20))}
    minutes = {NOW - 1: Sums(outcomes={"applied": 8, "poison": 2}), NOW - 50: Sums(outcomes={"applied": 99})}
    cost = answer(spending(known, minutes))
    assert (cost.minutes, cost.messages) == (45, 10)
    assert (cost.total.counted.writes, cost.total.day.writes) == (30, 960)
    assert cost.operations_per_message == 3


def test_minutes_without_an_instance_cost_nothing() -> None:
    """A service that runs two hours a day is not taken for one that runs all day, if the day before is known."""
    known = {HOUR - 26: hour(0, market_ticks=Spent(reads=1)), HOUR - 2: hour(0, market_ticks=Spent(reads=120))}
    cost = answer(spending(known))
    assert (cost.minutes, cost.total.counted.reads) == (1_415, 120)


def test_nothing_is_known_at_first() -> None:
    """No minute, and nothing is divided by it."""
    cost = priced(answer(spending({})), PRICES)
    assert (cost.minutes, cost.scale, cost.total.day.reads, cost.operations_per_message) == (0, 0, 0, None)


def test_a_clock_that_was_ahead_is_not_taken() -> None:
    """Hours after this one are not part of the last day."""
    cost = answer(
        spending({HOUR: hour(0, market_ticks=Spent(reads=1)), HOUR + 3: hour(0, market_ticks=Spent(reads=9))})
    )
    assert cost.total.counted.reads == 1
    # Of this hour it is, and a clock that is three minutes ahead makes no negative time.
    soon = answer(spending({HOUR: hour(37, market_ticks=Spent(reads=1))}))
    assert (soon.minutes, soon.total.day.reads) == (1, 1_440)


def test_what_was_only_looked_at_is_not_measured() -> None:
    """People may open any name in the dashboard. What other programs store is not in our bill."""
    spent = {"looked_at": Spent(reads=9), "of_a_view_that_is_gone": Spent(writes=1)}
    rows = collections_of(VIEWS, spent)
    measured = measured_collections(rows, spent)
    assert "looked_at" in rows["other"]
    assert measured[:2] == ["ops_services", "market_ticks"]
    assert [name for name in measured if name in spent] == ["of_a_view_that_is_gone"]


def test_each_row_has_its_collections() -> None:
    """A view has what lies below its collection; what belongs to no view and no part of Millpond is the rest."""
    spent = {
        "market_ticks": Spent(reads=1),
        "market_ticks/*/below": Spent(reads=2),
        "ops_dedupe": Spent(reads=4),
        "dead_letters/*/parts": Spent(reads=8),
        "millpond_event_log": Spent(reads=16),
        "millpond_event_segments": Spent(reads=32),
        "ops_history": Spent(reads=64),
        "flow_runs/*/steps": Spent(reads=128),
        "ops_rebuilds": Spent(reads=256),
        "of_a_view_that_is_gone": Spent(reads=512),
        OTHER: Spent(reads=1_024),
    }
    cost = answer(spending({HOUR: HourSpent(0, spent)}))
    assert {row.name: row.counted.reads for row in cost.rows} == {
        "ops_services": 0,
        "market_ticks": 3,
        "receipts": 4,
        "dead letters": 8,
        "event log": 48,
        "history": 64,
        "flow runs": 128,
        "other": 256 + 512 + 1_024,
    }
    assert [row.name for row in cost.rows if row.is_view] == ["ops_services", "market_ticks"]
    assert cost.total.counted.reads == 2_047


def test_prices_make_money_of_it() -> None:
    """Per 100,000 operations; expired documents are deletes; storage by the month, of what was measured."""
    spent = Spent(reads=100_000, writes=100_000, deletes=30_000, expiring=70_000)
    gib = Stored(documents=1, bytes=2**29, index_bytes=2**29, more=False)
    known = spending({HOUR - 23: hour(0, market_ticks=spent)})
    sizes: dict[str, Stored | None] = {name: gib for row in answer(known).rows for name in row.collections}
    scale = Period(known, NOW).scale
    cost = priced(answer(known, sizes), PRICES)
    (ticks,) = [row for row in cost.rows if row.name == "market_ticks"]
    assert ticks.cost == pytest.approx(scale * 111 + 12, rel=1e-4)
    assert cost.total.cost == pytest.approx(sum(row.cost or 0 for row in cost.rows))
    assert (cost.total.stored or gib).documents == len(sizes)
    partly = priced(answer(known, {**sizes, "market_ticks": None}), PRICES)
    assert (cost.unmeasured, partly.unmeasured) == ([], ["market_ticks"])
    assert cost.total.cost is not None
    assert partly.total.cost == pytest.approx(cost.total.cost - 12)
    assert [row.stored for row in partly.rows if row.name == "market_ticks"] == [None]
    assert priced(answer(known), None).total.cost is None


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("{", "must be a JSON object"),
        ("1", "got `int`"),
        ('{"currency": "EUR", "reads": 1}', "missing required field `writes`"),
        ('{"currency": "EUR\\n", "reads": 1, "writes": 1, "deletes": 1, "storage": 1}', "currency"),
        ('{"currency": "euro", "reads": 1, "writes": 1, "deletes": 1, "storage": 1}', "currency"),
        ('{"currency": "EUR", "reads": -1, "writes": 1, "deletes": 1, "storage": 1}', "reads"),
        ('{"currency": "EUR", "reads": "1", "writes": 1, "deletes": 1, "storage": 1}', "reads"),
        ('{"currency": "EUR", "reads": 1e999, "writes": 1, "deletes": 1, "storage": 1}', "reads"),
        (
            '{"currency": "EUR", "reads": 1, "writes": 1, "deletes": 1, "storage": 1, "log": 1}',
            "unknown field `log`",
        ),
    ],
)
def test_wrong_prices_are_refused(value: str, fault: str) -> None:
    """With what is wrong, and what the form is."""
    with pytest.raises(SettingsError, match=fault) as refused:
        load({"FIRESTORE_PRICES": value})
    assert "per GiB and month" in str(refused.value)


def test_there_is_no_price_by_default() -> None:
    """None is invented."""
    assert load({}).firestore_prices is None
    given = load({"FIRESTORE_PRICES": '{"currency":"EUR","reads":1,"writes":2.5,"deletes":0,"storage":1}'})
    assert given.firestore_prices == Prices(currency="EUR", reads=1, writes=2.5, deletes=0, storage=1)
    assert not math.isnan(given.firestore_prices.reads)
