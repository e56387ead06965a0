"""A flow-run worker on any store, with a clock that stands still, and everything it did to the store and said."""

from __future__ import annotations

import asyncio
import contextvars
import io
import itertools
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from millpond import settings as settings_module
from millpond.core.collections import FLOW_RUNS
from millpond.core.model import Committed, Conflict, Document, LogEntry, Patch, Put, Ref, Snapshot, Write
from millpond.core.ports import StoreWithCatalog
from millpond.flow.results import FlowResult
from millpond.flow.service import Flow
from millpond.flow.step import StepContext, StepFunction
from millpond.ingress.cloudevent import decode_http
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics
from tests.common.eventarc import UPDATED, as_protobuf, attributes, binary, full_name
from tests.common.faulty_store import StoreAround, raise_next
from tests.common.pond import NOW

LEASE_S = 60
# There the events of a run are Eventarc's, not ours.
ON_FIRESTORE = {
    "STORE": "firestore",
    "GCP_PROJECT": "p",
    "ENV": "dev",
    "SYSTEM_EVENTS_TOPIC": "t",
    "DEFAULT_REGION": "r",
}
T = TypeVar("T")
_tokens = itertools.count(1)


class WatchedStore(StoreAround):
    """A store, and what was asked of it. Every call may be interrupted before it and after it."""

    def __init__(self, inner: StoreWithCatalog) -> None:
        super().__init__(inner)
        self.calls = 0
        # What fails next, before or after it was done; None does not.
        self.before: list[BaseException | None] = []
        self.after: list[BaseException | None] = []
        self.reads_failing: list[BaseException | None] = []
        # (run, step, new status) of every committed change of a status, oldest first.
        self.moves: list[tuple[str, str, str]] = []

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        self.calls += 1
        raise_next(self.reads_failing)
        return await _served(lambda: self.inner.read(refs))

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        self.calls += 1
        raise_next(self.before)
        committed = await _served(lambda: self.pass_on(writes, log))
        raise_next(self.after)
        return committed

    async def pass_on(self, writes: Sequence[Write], log: Sequence[LogEntry]) -> Committed | Conflict:
        committed = await self.inner.commit(writes, log)
        if isinstance(committed, Committed):
            self._note(writes)
        return committed

    def _note(self, writes: Sequence[Write]) -> None:
        for write in writes:
            if isinstance(write, Patch) and write.ref.collection == FLOW_RUNS:
                self.moves += [
                    (write.ref.id, path[1], str(value))
                    for path, value in write.fields.items()
                    if len(path) == 3 and path[0] == "steps" and path[2] == "status"
                ]

    def finalises(self, run_id: str, step_id: str) -> list[str]:
        return [
            status
            for run, step, status in self.moves
            if (run, step) == (run_id, step_id) and status in {"SUCCEEDED", "FAILED"}
        ]

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        self.calls += 1
        return await self.inner.list_documents(collection, limit, after)


async def _served(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """As by a store that is a process of its own: what was asked for is done, even if the caller is gone."""
    await asyncio.sleep(0)
    task = asyncio.get_running_loop().create_task(call(), context=contextvars.Context())
    answer = await asyncio.shield(task)
    await asyncio.sleep(0)
    return answer


class FlowBench:
    """One worker process: its steps, its log, its clock. Several may share a store."""

    def __init__(
        self,
        store: WatchedStore,
        steps: Mapping[str, StepFunction] | None = None,
        **environment: str,
    ) -> None:
        quick = {
            "STORE": "memory",
            "FLOW_LEASE_S": str(LEASE_S),
            "FIRESTORE_RETRY_INITIAL_BACKOFF_S": "0.001",
            "FIRESTORE_RETRY_MAX_BACKOFF_S": "0.01",
            "FIRESTORE_RETRY_MAX_TOTAL_S": "5",
        }
        self.now = NOW
        self.store = store
        self.output = io.BytesIO()
        self.worked: list[tuple[str, str]] = []
        self.settings = settings_module.load({**quick, **environment})
        self.metrics = Metrics()
        self.log = Log(self.output, env=self.settings.env, metrics=self.metrics)
        # Its thread is not needed, and hundreds of them would slow down every test that follows.
        self.log.close()
        self.flow = Flow(
            self.settings,
            store,
            self.log,
            self.metrics,
            lambda: self.now,
            steps={"CHART_EXPORT": self.note_work} if steps is None else steps,
            new_token=lambda: f"token-{next(_tokens)}",
        )

    async def note_work(self, context: StepContext) -> Document:
        """The usual step: says that it was done."""
        self.worked.append((context.run_id, context.step_id))
        return {"by": context.token}

    async def put(self, run_id: str, run: Document) -> None:
        created = await self.store.inner.commit([Put(Ref(FLOW_RUNS, run_id), None, run)])
        assert isinstance(created, Committed)

    async def patch(self, run_id: str, fields: Mapping[tuple[str, ...], Any]) -> None:
        """Another program changes the run."""
        (found,) = await self.store.inner.read([Ref(FLOW_RUNS, run_id)])
        assert found.version is not None
        changed = await self.store.inner.commit([Patch(Ref(FLOW_RUNS, run_id), found.version, fields)])
        assert isinstance(changed, Committed)

    async def run_of(self, run_id: str) -> Document:
        (found,) = await self.store.inner.read([Ref(FLOW_RUNS, run_id)])
        assert found.data is not None
        return found.data

    async def step_of(self, run_id: str, step_id: str) -> Document:
        step = (await self.run_of(run_id))["steps"][step_id]
        assert isinstance(step, dict)
        return step

    async def send(
        self, run_id: str, run: Document | None, *, event_type: str = UPDATED, event_id: str = "e-1"
    ) -> FlowResult:
        """An event as Eventarc sends it, protobuf and all, that shows the run as `run`."""
        about = {"subject": f"documents/flow_runs/{run_id}", "document": f"flow_runs/{run_id}"}
        body = b"" if run is None else as_protobuf(run, full_name(run_id))
        sent = binary(body, "application/protobuf", attributes(id=event_id, type=event_type, **about))
        given, load = decode_http(sent.raw_headers, sent.body)
        return await self.flow.handle(self.flow.filter.read(given, load))

    async def send_current(self, run_id: str) -> FlowResult:
        """An event that shows the run as it is now."""
        return await self.send(run_id, await self.run_of(run_id))

    def lines(self) -> list[dict[str, Any]]:
        """Every line the worker has logged."""
        self.log.flush()
        return [json.loads(line) for line in self.output.getvalue().splitlines()]

    def reasons(self) -> list[str]:
        return [line["reason"] for line in self.lines()]


async def one_step(store: WatchedStore, work: StepFunction | None = None, **environment: str) -> FlowBench:
    """A worker that does `work`, or notes that it worked, and the run `r`, whose only step `a` is READY."""
    bench = FlowBench(store, None if work is None else {"CHART_EXPORT": work}, **environment)
    await bench.put("r", flow_run(a=step()))
    return bench


def step(status: str = "READY", step_type: str = "CHART_EXPORT", **more: Any) -> Document:
    return {"stepType": step_type, "status": status, **more}


def flow_run(**steps: Any) -> Document:
    """A run with these steps; `__` in a name stands for a dot."""
    return {
        "flowKey": "daily-charts",
        "scope": {"symbol": "SPY"},
        "steps": {name.replace("__", "."): value for name, value in steps.items()},
    }
