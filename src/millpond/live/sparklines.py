"""The last prices of each symbol in this process, for the sparklines on pages. The monitor subscribes it.

It is always on, so its limits are tight: one point a second, 60 points, 200 symbols. A message that is no tick
costs almost nothing.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from millpond.core import timestamps
from millpond.core.ack import Answered
from millpond.core.model import Outcome

COLLECTION = "market_ticks_latest"
SYMBOLS_MAX = 200
POINTS_MAX = 60
# A symbol without a price for so long may be replaced by another.
SILENT_S = 60


class PriceHistory:
    def __init__(self) -> None:
        # By document id; the one with the oldest last point is first.
        self._points: OrderedDict[str, deque[list[float]]] = OrderedDict()

    def on_outcome(self, answered: Answered) -> None:
        result = answered.result
        for view in result.views:
            if view.view == COLLECTION and view.outcome is Outcome.APPLIED:
                event = result.event
                price = event.get("price", event.get("last")) if event is not None else None
                if price is not None:
                    self._add(view.doc[len(COLLECTION) + 1 :], answered.at // timestamps.SECOND_US, float(price))

    def _add(self, symbol: str, second: int, price: float) -> None:
        points = self._points.get(symbol)
        if points is None:
            if len(self._points) >= SYMBOLS_MAX and not self._make_room(second):
                return
            points = self._points[symbol] = deque(maxlen=POINTS_MAX)
        elif points[-1][0] == second:
            points[-1][1] = price
            return
        points.append([second, price])
        self._points.move_to_end(symbol)

    def _make_room(self, second: int) -> bool:
        symbol, points = next(iter(self._points.items()))
        if second - points[-1][0] < SILENT_S:
            return False
        del self._points[symbol]
        return True

    def shown(self) -> dict[str, dict[str, list[list[float]]]]:
        return {COLLECTION: {symbol: list(points) for symbol, points in sorted(self._points.items())}}
