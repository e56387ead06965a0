"""Reading answers and documents, and the names the push tests share."""

from __future__ import annotations

import itertools
from typing import Any

from tests.common.server import Answer, Server

# A topic, and the first view it feeds.
SYSTEM = ("system.events", "ops_services")
TICKS = ("market-ticks", "market_ticks_latest")
BARS = ("market-bars-1m", "market_bars_1m")
SIGNALS = ("trade-signals", "trade_signals")

T0, T1, T2, T3 = (f"2026-01-08T12:00:0{second}Z" for second in range(4))
_ids = itertools.count(1)


def fresh(prefix: str = "m") -> str:
    """A message id that no test has used yet."""
    return f"{prefix}-{next(_ids)}"


def applied(answer: Answer) -> list[str]:
    """The documents of an answer that was applied in every view."""
    assert answer.status == 200, answer
    assert {view["outcome"] for view in answer.json["views"]} == {"applied"}, answer
    return [view["doc"] for view in answer.json["views"]]


def by_view(answer: Answer) -> dict[str, tuple[str, str]]:
    assert answer.status == 200, answer
    return {view["view"]: (view["outcome"], view["reason"]) for view in answer.json["views"]}


def read(server: Server, path: str) -> dict[str, Any]:
    document = server.document(path)
    assert document is not None, path
    return document


def content(document: dict[str, Any]) -> dict[str, Any]:
    """What a document says, without where that came from."""
    return {name: value for name, value in document.items() if name not in {"ingestedAt", "source"}}


def without_bookkeeping(document: dict[str, Any]) -> dict[str, Any]:
    """A document without what no table lists in full: our clock and the stamps."""
    kept = content(document)
    kept["source"] = {
        name: value for name, value in document["source"].items() if name not in {"stamp", "stamps", "key"}
    }
    return kept
