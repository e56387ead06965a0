"""Servers for the acceptance tests."""

from __future__ import annotations

import pytest

from tests.common.server import Server, Start


@pytest.fixture(scope="module")
def by_event(start: Start) -> Server:
    """Every id strategy of 002 and 000, and what else can be switched."""
    return start(
        ENV="prod",
        DEFAULT_REGION="eu-west1",
        SYSTEM_EVENTS_TOPIC="ops-events",
        OPS_SERVICE_ID="env_service_region",
        BARS_ID="event",
        SIGNALS_ID="event",
        RECEIPTS="message",
        TICK_HISTORY="off",
        TICKS_MAX_LATE_S="0",
        BARS_MAX_BACKFILL_DAYS="7",
        MAX_FUTURE_SKEW_S="0",
    )


@pytest.fixture(scope="module")
def by_nature(start: Start) -> Server:
    """The remaining id strategies."""
    return start(
        OPS_SERVICE_ID="service",
        BARS_ID="nested",
        SIGNALS_DISTINCT_BY_VERSION="on",
        TICKS_MAX_LATE_S="60",
        TICK_HISTORY_TTL_DAYS="0.5",
        RECEIPT_TTL_DAYS="2",
        MAX_FUTURE_SKEW_S="10",
    )
