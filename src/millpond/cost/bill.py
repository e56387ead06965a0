"""From what was counted, measured and priced to the answer. Pure; `examine` calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millpond.core.collections import (
    EVENT_LOG,
    EVENT_SEGMENTS,
    FLOW_RUNS,
    HISTORY,
    LETTERS,
    RECEIPTS,
    root_of,
)
from millpond.core.view import View
from millpond.cost.answer import Cost, CostRow, Figures, Stored
from millpond.live.minutes import DAY_MINUTES, HOUR_MINUTES, hour_of
from millpond.live.spending import Spending
from millpond.settings.prices import Prices
from millpond.stores.operations import OTHER, Spent, SpentByCollection, add_spent

_OPERATIONS_PRICED = 100_000
_GIB = 1024**3
_MONTHS_A_DAY = 12 / 365
_REST = "other"
OWN_ROWS = {
    "receipts": (RECEIPTS,),
    "dead letters": (LETTERS,),
    "event log": (EVENT_SEGMENTS, EVENT_LOG),
    "history": (HISTORY,),
    "flow runs": (FLOW_RUNS,),
}


class Period:
    """The part of the last 24 hours that is known, to the hour."""

    def __init__(self, spending: Spending, minute_now: int) -> None:
        first = (hour_of(minute_now) - 23) * HOUR_MINUTES
        known = [hour * HOUR_MINUTES + spent.since for hour, spent in spending.hours.items()]
        # An instance that ran before these 24 hours shows that minutes without one cost nothing.
        # The clock of another instance may be ahead.
        begins = max(first, min(minute_now, *known)) if known else minute_now + 1
        hours = {
            hour: spent for hour, spent in spending.hours.items() if hour_of(first) <= hour <= hour_of(minute_now)
        }
        self.spent: SpentByCollection = {}
        for spent in hours.values():
            add_spent(self.spent, spent.collections)
        self.minutes = minute_now + 1 - begins
        self.scale = DAY_MINUTES / self.minutes if self.minutes else 0.0
        counted = [sums for minute, sums in spending.minutes.items() if begins <= minute <= minute_now]
        self.messages = sum(sum(sums.outcomes.values()) for sums in counted)


def collections_of(views: Sequence[View], spent: Mapping[str, Spent]) -> dict[str, list[str]]:
    """The collections of each row, by its name; those that are known, and those that were seen below them."""
    rows = {view.name: [view.collection] for view in views} | {name: list(own) for name, own in OWN_ROWS.items()}
    roots = {root_of(collection): name for name, found in rows.items() for collection in found}
    rows[_REST] = []
    for collection in sorted(spent):
        row = rows[roots.get(root_of(collection), _REST)]
        if collection != OTHER and collection not in row:
            row.append(collection)
    return rows


def measured_collections(rows: Mapping[str, Sequence[str]], spent: Mapping[str, Spent]) -> list[str]:
    """The collections whose storage is in the bill: of other programs', those that were written to."""
    return [
        collection
        for name, found in rows.items()
        for collection in found
        if name != _REST or spent[collection].writes > 0
    ]


def make_answer(
    spending: Spending,
    period: Period,
    rows: Mapping[str, Sequence[str]],
    stored: Mapping[str, Stored | None],
    reads_for_this: int,
) -> Cost:
    """Without prices; `priced` adds them. A collection whose size in `stored` is None could not be measured."""
    answers = [_row(name, found, period, stored) for name, found in rows.items()]
    total = _total(answers, period)
    operations = sum((total.counted.reads, total.counted.writes, total.counted.deletes, total.counted.expiring))
    return Cost(
        minutes=period.minutes,
        scale=round(period.scale, 4),
        messages=period.messages,
        operations_per_message=round(operations / period.messages, 3) if period.messages else None,
        rows=answers,
        total=total,
        unanswered_reads=sum(spent.unanswered_reads for spent in period.spent.values()),
        unanswered_writes=sum(spent.unanswered_writes for spent in period.spent.values()),
        complete=spending.complete,
        kept=spending.kept,
        reads_for_this=reads_for_this,
        unmeasured=sorted(collection for collection, size in stored.items() if size is None),
        prices=None,
    )


def priced(cost: Cost, prices: Prices | None) -> Cost:
    """The same with these prices; as it is if there are none."""
    if prices is None:
        return cost
    cost.prices = prices
    for row in (*cost.rows, cost.total):
        day, stored = row.day, row.stored
        operations = day.reads * prices.reads + day.writes * prices.writes
        operations += (day.deletes + day.expiring) * prices.deletes
        # Of a collection that was not measured it is not in the cost: `unmeasured` names it.
        size = 0 if stored is None else stored.bytes + stored.index_bytes
        row.cost = operations / _OPERATIONS_PRICED + size / _GIB * prices.storage * _MONTHS_A_DAY
    return cost


def _row(name: str, found: Sequence[str], period: Period, stored: Mapping[str, Stored | None]) -> CostRow:
    spent = Spent()
    for collection in (*found, *([OTHER] if name == _REST else [])):
        spent.add(period.spent.get(collection, Spent()))
    counted = Figures(
        reads=spent.reads,
        writes=spent.writes,
        deletes=spent.deletes,
        expiring=spent.expiring,
        bytes_written=spent.bytes,
    )
    measured = [stored.get(collection) for collection in found]
    return CostRow(
        name=name,
        is_view=name not in OWN_ROWS and name != _REST,
        collections=list(found),
        counted=counted,
        day=_scaled(counted, period.scale),
        stored=_sum(measured),
        cost=None,
    )


def _total(rows: Sequence[CostRow], period: Period) -> CostRow:
    names = Figures.__struct_fields__
    counted = Figures(**{name: sum(getattr(row.counted, name) for row in rows) for name in names})
    return CostRow(
        name="total",
        is_view=False,
        collections=[],
        counted=counted,
        day=_scaled(counted, period.scale),
        stored=_sum([row.stored for row in rows]),
        cost=None,
    )


def _scaled(counted: Figures, scale: float) -> Figures:
    return Figures(**{name: round(getattr(counted, name) * scale) for name in Figures.__struct_fields__})


def _sum(measured: Sequence[Stored | None]) -> Stored | None:
    """Of those that were measured; None if none was. `unmeasured` names the others."""
    known = [one for one in measured if one is not None]
    if not known:
        return None
    return Stored(
        documents=sum(one.documents for one in known),
        bytes=sum(one.bytes for one in known),
        index_bytes=sum(one.index_bytes for one in known),
        more=any(one.more for one in known),
    )
