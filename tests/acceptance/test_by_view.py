"""One message, two views that disagree: metrics, statistics, alerts and log lines tell them apart."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.event_streams import Reading, reading
from tests.common.server import Server, Start

STALE = 40
LATEST, HISTORY = "market_ticks_latest", "market_ticks"


def ago(seconds: float) -> str:
    return (dt.datetime.now(dt.UTC) - dt.timedelta(seconds=seconds)).isoformat()


@pytest.fixture(scope="module")
def alerted(start: Start) -> Iterator[tuple[Server, Reading]]:
    """A server that took a tick and then 40 older ones of the same symbol, and what an open page was told."""
    server = start(TICK_HISTORY="on", TICKS_MAX_LATE_S="900")
    with reading(server, "/api/live") as page:
        for number in range(STALE + 1):
            tick = {"symbol": "SPY", "price": 600 + number, "ts": ago(10 * number)}
            answer = server.send(tick, message_id=f"t-{number}", published=ago(0), topic="market-ticks")
            # The message is as well off as the best of its views: this is why its outcome alone hides the others.
            assert (answer.status, answer.json["outcome"]) == (200, "applied")
        yield server, page


def test_metrics_count_each_view(alerted: tuple[Server, Reading]) -> None:
    """Every message was applied; the view of the latest tick ignored all but the first."""
    lines = alerted[0].http.get("/metrics").text.splitlines()
    counted = {
        line for line in lines if line.startswith("millpond_view_events_total{") and not line.endswith(" 0.0")
    }
    assert counted == {
        f'millpond_view_events_total{{outcome="stale_ignored",view="{LATEST}"}} {STALE}.0',
        f'millpond_view_events_total{{outcome="applied",view="{LATEST}"}} 1.0',
        f'millpond_view_events_total{{outcome="applied",view="{HISTORY}"}} {STALE + 1}.0',
    }
    messages = [line for line in lines if line.startswith("millpond_messages_total{")]
    assert messages == [
        f'millpond_messages_total{{outcome="applied",reason="applied",topic="market-ticks"}} {STALE + 1}.0'
    ]


def test_stats_agree_with_the_metrics(alerted: tuple[Server, Reading]) -> None:
    """By view since the process began, beside the event log's own counts by topic."""
    stats = alerted[0].get("/api/stats").json
    assert stats["viewsSinceStart"] == {
        LATEST: {"applied": 1, "stale_ignored": STALE},
        HISTORY: {"applied": STALE + 1},
    }
    assert stats["topics"] == {"market-ticks": {"applied": STALE + 1}}


def test_the_alert_fires_for_the_worst_view_and_names_it(alerted: tuple[Server, Reading]) -> None:
    """On the stream that an open page reads, and in the first frames of one that is opened later."""
    server, page = alerted

    def critical(content: Any) -> bool:
        return any(alert["id"] == "stale-events" and alert["state"] == "critical" for alert in content["alerts"])

    page.find("alerts", critical)
    with reading(server, "/api/live") as later:
        (alert,) = (one for one in later.find("alerts")["alerts"] if one["id"] == "stale-events")
        shown = later.find("hello")["history"]["views"]
    assert (alert["state"], alert["view"], alert["value"]) == ("critical", LATEST, 97.561)
    assert alert["text"] == f"97.6 % of the events of {LATEST} were ignored as stale over the last 10 minutes."
    assert {view: {name: sum(minutes) for name, minutes in by.items()} for view, by in shown.items()} == {
        LATEST: {"applied": 1, "stale_ignored": STALE},
        HISTORY: {"applied": STALE + 1},
    }


def test_a_log_line_keeps_the_view_its_document_and_its_outcome_together(alerted: tuple[Server, Reading]) -> None:
    """The line speaks of the view that decided; `docs` has what became of the message in each."""
    lines = {line["messageId"]: line for line in map(json.loads, alerted[0].fence()) if "messageId" in line}
    assert lines.keys() == {f"t-{number}" for number in range(STALE + 1)}
    names = ("handler", "doc_path", "outcome", "write_kind")
    latest = dict(zip(names, (LATEST, f"{LATEST}/SPY", "stale_ignored", "none"), strict=True))
    for number in range(1, STALE + 1):
        line = lines[f"t-{number}"]
        kept = dict(zip(names, (HISTORY, f"{HISTORY}/t-{number}", "applied", "put"), strict=True))
        assert {name: line[name] for name in names} == kept
        assert line["docs"] == [latest, kept]
    first = lines["t-0"]
    assert {name: first[name] for name in names} == first["docs"][0]
    assert [doc["outcome"] for doc in first["docs"]] == ["applied", "applied"]
    assert [doc["write_kind"] for doc in first["docs"]] == ["put", "put"]
