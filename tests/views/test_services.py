"""System events → `ops_services`: the current health of each service."""

from __future__ import annotations

import pytest

from tests.producers.cases import Case, check_in_core, load
from tests.views.examples import PUBLISHED, SERVICE, T0, T1, source
from tests.views.support import Viewed, check_adopted, check_example, check_order_times


def test_every_field() -> None:
    """Of the documented table, and nothing else."""
    check_example(SERVICE)


def test_the_least_payload() -> None:
    """Missing strings are "unknown", a missing region the default one, a missing time the publish time."""
    pond = Viewed()
    (path,) = pond.applied({"service": "least"}, message_id="m", topic="system.events")
    assert pond.plain(path) == {
        "serviceId": "least",
        "env": "dev",
        "status": "unknown",
        "lastHeartbeatAt": PUBLISHED,
        "version": "unknown",
        "region": "local",
        "updatedAt": PUBLISHED,
        "source": source("system.events", "m"),
    }


@pytest.mark.parametrize(
    ("strategy", "path"),
    [
        ("env_service", "ops_services/dev__a%2Fb"),
        ("env_service_region", "ops_services/dev__a%2Fb__us"),
        ("service", "ops_services/a%2Fb"),
    ],
)
def test_ids(strategy: str, path: str) -> None:
    """OPS_SERVICE_ID: with the environment, with the region too, or bare."""
    pond = Viewed(OPS_SERVICE_ID=strategy)
    assert pond.applied({"service": "a/b", "region": "us", "timestamp": T0}) == [path]


def test_ids_by_default() -> None:
    """The environment and the service; a region that is not given is the default one also in an id."""
    assert Viewed().applied({"service": "c", "timestamp": T0}) == ["ops_services/dev__c"]
    settings = {"ENV": "prod", "DEFAULT_REGION": "eu-west1", "SYSTEM_EVENTS_TOPIC": "ops-events"}
    pond = Viewed(OPS_SERVICE_ID="env_service_region", **settings)
    (path,) = pond.applied({"service": "c"}, topic="ops-events")
    assert path == "ops_services/prod__c__eu-west1"
    document = pond.plain(path)
    assert (document["env"], document["region"], document["source"]["topic"]) == ("prod", "eu-west1", "ops-events")


def test_order_times() -> None:
    """producedAt, publishedAt, then timestamp."""
    names = ("producedAt", "publishedAt", "timestamp")
    check_order_times(names, "system.events", {"service": "order"}, "lastHeartbeatAt")


@pytest.mark.parametrize("time", ["lastHeartbeatAt", "updatedAt"])
def test_adoption(time: str) -> None:
    """A document from before is ordered by the later of its two times."""
    check_adopted(
        {"status": "ok", "lastHeartbeatAt": T0, "updatedAt": T0, time: "2026-01-08T12:20:00Z", "source": {}},
        "ops_services/dev__api",
        {"service": "api", "timestamp": T1},
        {"service": "api", "timestamp": "2026-01-08T12:20:01Z"},
    )


@pytest.mark.parametrize("case", load("views/services.json"), ids=lambda case: case.name)
def test_a_case(case: Case) -> None:
    """Severity, version, names, times and copies, as producers send them."""
    check_in_core(case)
