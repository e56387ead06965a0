"""A market to draw: bars from a seeded walk, in a store by way of the real view, and a step's context."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from millpond import settings as settings_module
from millpond.charts.bars import Bar
from millpond.charts.step import chart_export
from millpond.charts.times import MINUTE_US
from millpond.core import timestamps
from millpond.core.model import Document, Put, Ref, Snapshot
from millpond.flow.step import StepContext
from millpond.stores.memory import MemoryStore
from tests.common.pond import NOW, Pond, delivery

HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US
# 2026-01-08T14:30:00Z, when New York opens.
OPEN = timestamps.parse("2026-01-08T14:30:00Z", "open")


def walk(
    count: int,
    start: int = OPEN,
    step: int = MINUTE_US,
    price: float = 600.0,
    seed: int = 1,
    decimals: int = 2,
    wobble: float = 0.0006,
) -> list[Bar]:
    """Bars that look like a market's."""
    dice = random.Random(seed)
    bars = []
    for n in range(count):
        prices = [price]
        for _ in range(6):
            prices.append(prices[-1] * (1 + dice.gauss(0, wobble)))
        price = prices[-1]
        opened, high, low, close = (round(p, decimals) for p in (prices[0], max(prices), min(prices), price))
        bars.append(Bar(start + n * step, opened, high, low, close, float(int(dice.lognormvariate(9, 0.6)))))
    return bars


def flat_minutes(starts: Iterable[int]) -> list[Bar]:
    return [Bar(start, 1.0, 2.0, 0.5, 1.5, 10.0) for start in starts]


def documents_of(bars: Sequence[Bar], symbol: str = "SPY", bars_id: str = "natural") -> dict[Ref, Document]:
    """The documents that the bars view makes of these minutes."""
    pond = Pond(BARS_ID=bars_id)
    messages = []
    for bar in bars:
        fields = {k: v for k, v in bar._asdict().items() if k != "start" and v is not None}
        payload = {"topic": "market-bars-1m", "symbol": symbol, "ts": timestamps.to_text(bar.start), **fields}
        messages.append(delivery(payload, f"{symbol}-{bar.start}"))
    pond.send(*messages)
    return {ref: found.data or {} for ref, found in pond.documents.items() if ref.collection.startswith("market_")}


class CountingStore(MemoryStore):
    """The memory store, and how many documents and requests it was asked for."""

    def __init__(self, *some: dict[Ref, Document]) -> None:
        super().__init__()
        self.documents_read = self.requests = 0
        for documents in some:
            self.fill(documents)

    def fill(self, documents: dict[Ref, Document]) -> None:
        asyncio.run(self.commit([Put(ref, None, data) for ref, data in documents.items()]))

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        assert 0 < limit <= 1_000
        found = await super().list_documents(collection, limit, after)
        self.requests += 1
        self.documents_read += len(found)
        return found


@dataclasses.dataclass
class Bench:
    """Runs the step on a store, with its files below `root`."""

    root: Path
    store: MemoryStore
    symbol: Any = "SPY"
    now: int = NOW
    is_lost: Callable[[], bool] = lambda: False
    environment: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.root / "run-1" / "draw"

    def context(self, inputs: Any = None, **step: Any) -> StepContext:
        fields = {"stepType": "CHART_EXPORT", "status": "RUNNING", **step}
        if inputs is not None:
            fields["inputs"] = inputs
        return StepContext(
            run_id="run-1",
            step_id="draw",
            step_type="CHART_EXPORT",
            run={"runId": "run-1", "scope": {"symbol": self.symbol}, "steps": {"draw": fields}},
            step=fields,
            attempt=1,
            token="token",  # noqa: S106 - names a claim
            idempotency_key="run-1+draw",
            artifacts=self.folder,
            documents=self.store,
            settings=settings_module.load({"ARTIFACTS_DIR": str(self.root), **self.environment}).by_name(),
            wall_clock=lambda: self.now,
            is_lost=self.is_lost,
        )

    def export(self, inputs: Any = None, **step: Any) -> dict[str, Any]:
        return asyncio.run(chart_export(self.context(inputs, **step)))
