"""How many small worlds `check_view` runs in a second of one core: a `Latest` with five events of two documents.

    .venv/bin/python -m benchmarks.check_view

Prints each of five runs, and their median. Processor time is measured, so other programs disturb it little.
"""

from __future__ import annotations

import statistics
import time

from millpond import Document, Event, Latest
from millpond.testing import check_view

WORLDS = 2_000
RUNS = 5


class Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"
    time = "at"

    def document(self, event: Event) -> Document:
        return {"orderId": event.require("orderId"), "status": event.get("status")}


EVENTS = [
    {"orderId": f"o-{number % 2}", "at": f"2026-01-08T12:00:0{number}Z", "status": f"s{number}"}
    for number in range(5)
]


def worlds_per_second(seed: int) -> float:
    began = time.process_time()
    check_view(Orders(), EVENTS, worlds=WORLDS, seed=seed)
    return WORLDS / (time.process_time() - began)


def main() -> None:
    check_view(Orders(), EVENTS, worlds=50)
    rates = [worlds_per_second(seed) for seed in range(RUNS)]
    for rate in rates:
        print(f"{rate:8.0f} worlds a second")
    print(f"{statistics.median(rates):8.0f} worlds a second, median of {RUNS} runs of {WORLDS} worlds")


if __name__ == "__main__":
    main()
