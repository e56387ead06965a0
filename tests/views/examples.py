"""One message for each built-in view that names every field, and the document it makes under default settings.

The tests of the views ask the pure core, the acceptance tests a real server. Nothing here imports the product.
"""

from __future__ import annotations

from typing import Any, NamedTuple

PUBLISHED = "2026-01-08T12:00:00Z"
T0, T1, T2, T3 = (f"2026-01-08T12:00:0{second}Z" for second in range(4))
ENVELOPE = {"agent_name": "feed", "git_sha": "abc123", "trace_id": "t-1"}


def source(topic: str, message_id: str, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "messageId": message_id, "publishedAt": PUBLISHED, **more}


class Example(NamedTuple):
    """`documents` holds everything but `ingestedAt`, the stamps and the event's key, by path."""

    message_id: str
    payload: dict[str, Any]
    documents: dict[str, dict[str, Any]]


SERVICE = Example(
    "ops-full",
    {
        "service": "full",
        "status": "degraded",
        "version": "1.2.3",
        "region": "eu-west1",
        "producedAt": "2026-01-08T11:59:57Z",
        "publishedAt": "2026-01-08T11:59:58Z",
        "timestamp": "2026-01-08T11:59:59Z",
        "ignored": True,
    },
    {
        "ops_services/dev__full": {
            "serviceId": "full",
            "env": "dev",
            "status": "degraded",
            "lastHeartbeatAt": "2026-01-08T11:59:57Z",
            "version": "1.2.3",
            "region": "eu-west1",
            "updatedAt": "2026-01-08T11:59:57Z",
            "source": source("system.events", "ops-full"),
        }
    },
)
_BEAT = {"pipeline_id": "bars-1m", "status": "running", "tenant_id": "t1", "ts": T0, "lag": {"seconds": 3}}
PIPELINE = Example(
    "beat",
    {"event_type": "ingest.heartbeat", "ts": T1, "payload": _BEAT, **ENVELOPE},
    {
        "ingest_pipelines/bars-1m": {
            "pipelineId": "bars-1m",
            "env": "dev",
            "tenantId": "t1",
            "status": "running",
            "lastHeartbeatAt": T1,
            "updatedAt": T1,
            "data": _BEAT,
            "source": source("ingest-heartbeat", "beat", producer=ENVELOPE),
        }
    },
)
_TICK = {
    "symbol": " brk.b ",
    "ts": T1,
    "price": 10.5,
    "bid": "10.40",
    "ask": 10.6,
    "size": 3,
    "producedAt": T2,
    "publishedAt": T3,
    "venue": {"name": "X", "lots": [1, 2]},
}
TICK = Example(
    "tick-m",
    {
        "eventType": "market.tick",
        "eventId": "tick-1",
        "ts": T0,
        "payload": _TICK,
        "agentName": "feed",
        "gitSha": "abc123",
        "traceId": "t-1",
    },
    {
        "market_ticks_latest/BRK.B": {
            "symbol": "BRK.B",
            "lastTickAt": T1,
            "price": 10.5,
            "bid": "10.40",
            "ask": 10.6,
            "size": 3,
            "source": source("market-ticks", "tick-m", producer=ENVELOPE),
        },
        "market_ticks/tick-1": {
            "docId": "tick-1",
            "eventId": "tick-1",
            "symbol": "BRK.B",
            "eventTime": T2,
            "producedAt": T2,
            "publishedAt": T3,
            "data": _TICK,
            "expireAt": "2026-01-15T12:00:00Z",
            "source": source("market-ticks", "tick-m", order="eventTime", producer=ENVELOPE),
        },
    },
)
_BAR = {
    "symbol": "spy",
    "ts": "2026-01-08T14:32:59.999Z",
    "open": 1,
    "high": 4,
    "low": 0.5,
    "close": "2.25",
    "volume": 1000,
    "start": "2026-01-08T14:32:00Z",
    "end": "2026-01-08T15:33:00+01:00",
    "producedAt": T1,
}
BAR = Example(
    "bar-m",
    {"event_type": "market.bars.1m", "ts": T3, "payload": _BAR, **ENVELOPE},
    {
        "market_bars_1m/SPY__2026-01-08T14:32:00Z": {
            "docId": "SPY__2026-01-08T14:32:00Z",
            "symbol": "SPY",
            "timeframe": "1m",
            "ts": "2026-01-08T14:32:00Z",
            "start": "2026-01-08T14:32:00Z",
            "end": "2026-01-08T14:33:00Z",
            "open": 1,
            "high": 4,
            "low": 0.5,
            "close": "2.25",
            "volume": 1000,
            "eventTime": T1,
            "producedAt": T1,
            "data": _BAR,
            "source": source("market-bars-1m", "bar-m", producer=ENVELOPE, revisionAt=T1),
        }
    },
)
_LISTED = {
    "signalId": "sig-full",
    "strategyId": "momentum",
    "strategy": "Momentum",
    "symbol": "SPY",
    "timeframe": "5m",
    "action": "BUY",
    "side": "long",
    "confidence": 0.75,
    "reason": "breakout",
    "price": 10,
    "targets": [11, 12],
    "risk": {"stop": 9},
    "state": "new",
    "createdAt": T0,
    "decisionAt": T0,
    "updatedAt": T1,
    "sequence": 7,
}
_SIGNAL = {**_LISTED, "unlisted": "kept in data"}
SIGNAL = Example(
    "sig-m",
    {"event_type": "trade.signal", "event_id": "ev-1", "ts": T3, "payload": _SIGNAL, **ENVELOPE},
    {
        "trade_signals/sig-full": {
            **_LISTED,
            "docId": "sig-full",
            "eventId": "ev-1",
            "eventTime": T3,
            "data": _SIGNAL,
            "source": source("trade-signals", "sig-m", producer=ENVELOPE),
        }
    },
)
