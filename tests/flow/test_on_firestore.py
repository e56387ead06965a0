"""What only Firestore has: types of others, a prefix, runs that must be touched to be an event."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from google.api_core.datetime_helpers import DatetimeWithNanoseconds
from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore
from google.cloud.firestore_v1.vector import Vector

from millpond.core.errors import Unavailable
from millpond.flow.event_filter import EventData
from millpond.flow.results import FlowOutcome
from millpond.flow.step import StepContext
from tests.common.stores import Run, open_store
from tests.flow.bench import ON_FIRESTORE, FlowBench, WatchedStore, flow_run, step


@pytest.fixture
def pond(request: pytest.FixtureRequest, run: Run) -> Any:
    opened = WatchedStore(open_store("firestore", request))
    yield opened
    run(opened.inner.close())


@pytest.fixture
def client(pond: WatchedStore, project: str) -> firestore.Client:
    """Another program that works on the run, with the ordinary client."""
    del pond
    return firestore.Client(project, AnonymousCredentials())  # type: ignore[no-untyped-call]


async def test_what_others_own_keeps_its_firestore_type(pond: WatchedStore, client: firestore.Client) -> None:
    """Places, references, vectors and nanoseconds, in the run, in the step and beside it, before and during it."""
    place, other = firestore.GeoPoint(52.5, 13.4), client.document("flow_runs", "other")
    at = DatetimeWithNanoseconds(2026, 1, 8, nanosecond=123_456_789, tzinfo=dt.UTC)  # type: ignore[no-untyped-call]
    theirs = {"where": place, "next": other, "vector": Vector([1.0, 2.5]), "at": at, "list": [place, other]}
    reference = client.document("flow_runs", "r")
    reference.set({**theirs, "steps": {"a.b": {**step(), **theirs}, "c/d": {**step("PENDING"), **theirs}}})

    async def work(_: StepContext) -> None:
        reference.update({"during": place, "`steps`.`c/d`.`during`": other})

    bench = FlowBench(pond, {"CHART_EXPORT": work})
    assert (await bench.send("r", None)).outcome is FlowOutcome.SUCCEEDED
    after = reference.get().to_dict() or {}
    steps = after.pop("steps")
    assert after == {**theirs, "during": place}
    assert steps["c/d"] == {**step("PENDING"), **theirs, "during": other}
    assert steps["a.b"].items() >= theirs.items()
    assert steps["a.b"]["status"] == "SUCCEEDED"


async def test_a_submitted_run_is_touched_because_only_updates_are_events(
    pond: WatchedStore, client: firestore.Client
) -> None:
    """Created, then changed; again, it is left alone; and what a crash left between the two is mended."""
    bench = FlowBench(pond, None, **ON_FIRESTORE)
    assert (await bench.flow.submit(flow_run(a=step()), "r")).created
    found = client.document("flow_runs", "r").get()
    assert found.update_time > found.create_time
    assert not (await bench.flow.submit(flow_run(a=step()), "r")).created
    assert client.document("flow_runs", "r").get().update_time == found.update_time
    pond.before = [None, Unavailable("away")]
    with pytest.raises(Unavailable):
        await bench.flow.submit(flow_run(a=step()), "half")
    assert "triggeredAt" not in (await bench.run_of("half"))["millpond"]
    assert not (await bench.flow.submit(flow_run(a=step()), "half")).created
    assert "triggeredAt" in (await bench.run_of("half"))["millpond"]


async def test_the_prefix_is_part_of_the_collection(request: pytest.FixtureRequest) -> None:
    """Events about `flow_runs` are another installation's; ours are about the prefixed collection."""
    prefixed = WatchedStore(open_store("firestore with a prefix", request))
    bench = FlowBench(prefixed, None, **ON_FIRESTORE, FIRESTORE_COLLECTION_PREFIX="pre.")
    await bench.flow.submit(flow_run(a=step()), "r")
    assert (await bench.send("r", None)).reason == "event_filtered"
    event = {"id": "1", "type": "google.cloud.firestore.document.v1.updated", "document": "pre.flow_runs/r"}
    found = bench.flow.filter.read(event, lambda: EventData(None, None))
    assert (await bench.flow.handle(found)).outcome is FlowOutcome.SUCCEEDED
    await prefixed.inner.close()
