"""A week of New York sessions as messages, one a line, for `millpond ingest`: what docs/charts.md shows.

.venv/bin/python -m tests.charts.sample > bars.jsonl
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from millpond.charts.bars import Bar
from millpond.core import timestamps
from tests.charts.market import DAY_US, OPEN, walk

# Monday to Friday around the 8th of January 2026.
DAYS = range(-3, 2)
SESSION_MINUTES = 390


def week() -> list[Bar]:
    """Each day opens a little away from where the last one closed."""
    bars: list[Bar] = []
    for day in DAYS:
        price = bars[-1].close * (1 + 0.004 * (-1) ** day) if bars else 600.0
        bars += walk(SESSION_MINUTES, OPEN + day * DAY_US, price=price, seed=day + 40, wobble=0.00022)
    return bars


def lines() -> Iterator[str]:
    for bar in week():
        fields = {k: v for k, v in bar._asdict().items() if k != "start"}
        data = {"symbol": "SPY", "ts": timestamps.to_text(bar.start), **fields}
        yield json.dumps({"topic": "market-bars-1m", "data": data, "publishTime": timestamps.to_text(bar.start)})


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines())
