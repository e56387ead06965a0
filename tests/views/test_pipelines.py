"""Ingest heartbeats → `ingest_pipelines`: when each pipeline was last heard of."""

from __future__ import annotations

import pytest

from millpond import InvalidEvent
from tests.producers.cases import Case, check_in_core, load
from tests.views.examples import PIPELINE, PUBLISHED, T0, T1, source
from tests.views.support import Viewed, check_adopted, check_example, check_order_times


def test_every_field() -> None:
    """The heartbeat's envelope gives time and producer; `data` is the inner payload."""
    check_example(PIPELINE)


def test_the_least_payload() -> None:
    """No tenant, an unknown status, and the publish time."""
    pond = Viewed()
    (path,) = pond.applied({"pipeline": "least"}, message_id="m", topic="ingest-heartbeat")
    assert pond.plain(path) == {
        "pipelineId": "least",
        "env": "dev",
        "tenantId": None,
        "status": "unknown",
        "lastHeartbeatAt": PUBLISHED,
        "updatedAt": PUBLISHED,
        "data": {"pipeline": "least"},
        "source": source("ingest-heartbeat", "m"),
    }


def test_order_times() -> None:
    """The envelope's ts, then ts and timestamp of the payload."""
    names = ("envelope", "ts", "timestamp")
    check_order_times(names, "ingest-heartbeat", {"pipeline": "ord"}, "lastHeartbeatAt")


@pytest.mark.parametrize("time", ["lastHeartbeatAt", "updatedAt"])
def test_adoption(time: str) -> None:
    """A document from before is ordered by the later of its two times."""
    beat = {"event_type": "ingest.heartbeat", "payload": {"pipeline": "p"}}
    check_adopted(
        {"status": "ok", "lastHeartbeatAt": T0, "updatedAt": T0, time: "2026-01-08T12:20:00Z", "source": {}},
        "ingest_pipelines/p",
        {**beat, "ts": T1},
        {**beat, "ts": "2026-01-08T12:20:01Z"},
    )


def test_no_name_is_poison() -> None:
    """Nothing else says which document it is about."""
    with pytest.raises(InvalidEvent, match="agent_name are all missing"):
        Viewed().sent({"status": "ok"}, topic="ingest-heartbeat")


@pytest.mark.parametrize("case", load("views/pipelines.json"), ids=lambda case: case.name)
def test_a_case(case: Case) -> None:
    """Names, tenants, times and copies, as producers send them."""
    check_in_core(case)
