"""Flow runs in the simulated world: submissions, their events, the steps' work, and checks.

Every change of a run raises an event that shows the run as it was then. The event arrives late, twice or not at
all. The workers, their claims and their sweep are the real ones. Owned by `world.py`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from millpond.core.collections import FLOW_RUNS
from millpond.core.errors import StepFailed, StoreError
from millpond.core.model import Document, Put, Ref, Snapshot, Version
from millpond.flow.event_filter import UPDATED_TYPE, FlowEvent
from millpond.flow.results import FlowOutcome, FlowResult
from millpond.flow.step import StepContext
from millpond.flow.sweep import SweepReport
from millpond.sim.flow_checks import DONE, StepChecks
from millpond.sim.instance import STEP_TYPE, Instance
from millpond.sim.rules import Broken, Rules
from millpond.sim.store import Storehouse
from millpond.sim.virtual_time import WORLD, VirtualLoop

# The time until an unanswered event is redelivered; longer than any step.
_ANSWER_S = 120.0
_SWEEP_EVERY_S = 20.0


class FlowWorld:
    def __init__(
        self,
        seed: int,
        house: Storehouse,
        rules: Rules,
        seen: Counter[str],
        pick: Callable[[random.Random], Instance | None],
        tell: Callable[[str], None],
    ) -> None:
        self._seed = seed
        self._swarm = house.swarm
        self._loop: VirtualLoop = house.loop
        self._house = house
        self._rules = rules
        self._seen = seen
        self._pick = pick
        self._dice = random.Random(f"{seed}/flow")  # noqa: S311 - repeatable on purpose
        self._steps = StepChecks(house, rules, seen)
        self._events = 0
        self._finished: dict[str, bool] = {}
        self._begun: set[str] = set()
        self.faulty = True
        self._tell = tell

    def open(self) -> None:
        for number in range(self._swarm.runs):
            at_s = self._dice.random() * self._swarm.publishing_s / 2
            self._loop.call_at(at_s, self._submit, f"run-{number}", context=WORLD)
        if self._swarm.runs:
            self._loop.call_later(_SWEEP_EVERY_S, self._sweep, context=WORLD)

    @property
    def finished(self) -> bool:
        """Whether no step of any run can go on."""
        return len(self._finished) == self._swarm.runs and all(self._finished.values())

    async def step(self, context: StepContext) -> Document:
        """The work of a step: it waits, and sometimes fails."""
        if context.token in self._begun:
            self._object("each claim is worked on once", f"{context.run_id}/{context.step_id} by {context.token}")
        self._begun.add(context.token)
        dice = random.Random(f"{self._seed}/{context.token}")  # noqa: S311 - as above
        left_s = dice.expovariate(1 / self._swarm.step_s)
        while left_s > 0:
            await asyncio.sleep(min(left_s, 1.0))
            left_s -= 1.0
            self._check_held(context)
        if dice.random() < self._swarm.step_failed:
            raise StepFailed("SIMULATED", context.token)
        return {"by": context.token}

    def _check_held(self, context: StepContext) -> None:
        """If clocks agree, a worker whose claim is not reported lost must still hold it."""
        if self._rules.skew_max or context.is_lost():
            return
        run = self._house.get(Ref(FLOW_RUNS, context.run_id)).data or {}
        claim = run["steps"][context.step_id].get("claim") or {}
        if claim.get("token") != context.token:
            self._object("a worker knows when its claim is lost", f"{context.run_id}/{context.step_id} is {claim}")

    def _object(self, checker: str, text: str) -> None:
        """Report it to the world. Raised in a step, it would only make the step FAILED."""
        self._loop.call_exception_handler({"message": "broken", "exception": Broken(checker, text)})

    def changed(self, old: Snapshot, new: Snapshot) -> None:
        """Called by the store with every change of a run."""
        steps, before = (new.data or {})["steps"], (old.data or {}).get("steps", {})
        for step_id, step in steps.items():
            self._steps.changed(f"{new.ref.id}/{step_id}", before.get(step_id), step, before)
            if step != before.get(step_id):
                self._tell(f"{new.ref.id}/{step_id} is {step['status']} {step.get('claim', {}).get('owner', '')}")
        self._finished[new.ref.id] = _is_finished(steps)
        copies = 1 + self._happens("flow event delivered twice", self._swarm.duplicated)
        if self._happens("flow event lost", self._swarm.event_lost):
            copies = 0
        for _ in range(copies):
            self._events += 1
            event = FlowEvent(run_id=new.ref.id, id=f"event-{self._events}", type=UPDATED_TYPE, document=new.data)
            self._deliver_later(event, self._dice.expovariate(1 / self._swarm.delay_s), new.version)

    def _submit(self, run_id: str) -> None:
        count = self._dice.randint(1, 4)
        steps: Document = {}
        for number in range(count):
            needs = [name for name in steps if self._dice.random() < 0.4]
            steps[f"step-{number}"] = {"stepType": STEP_TYPE, "status": "READY", "dependsOn": needs}
        self._house.commit([Put(Ref(FLOW_RUNS, run_id), None, {"flowKey": "simulated", "steps": steps})])

    def _deliver_later(self, event: FlowEvent, delay_s: float, version: Version | None) -> None:
        self._loop.call_later(delay_s, self._deliver, event, version, context=WORLD)

    def _deliver(self, event: FlowEvent, version: Version | None) -> None:
        instance = self._pick(self._dice)
        if instance is None:
            self._deliver_later(event, 0.5, version)
            return
        overdue = self._loop.call_later(_ANSWER_S, self._deliver, event, version, context=WORLD)
        handled = instance.start(instance.flow.handle(event))
        self._tell(f"{event.id} about {event.run_id} → {instance.name}")

        def answered(task: asyncio.Task[FlowResult]) -> None:
            overdue.cancel()
            self._tell(f"{event.id} ← {task.result().reason}")
            if task.result().outcome is FlowOutcome.RETRY:
                self._deliver_later(event, self._dice.uniform(0.5, 5.0), version)
                return
            run = self._house.get(Ref(FLOW_RUNS, event.run_id))
            if run.version == version and _is_waiting((run.data or {})["steps"]):
                self._object("no event is forgotten while a step waits", f"{event.id} ← {task.result().reason}")

        handled.add_done_callback(answered)

    def _sweep(self) -> None:
        self._loop.call_later(_SWEEP_EVERY_S, self._sweep, context=WORLD)
        instance = self._pick(self._dice)
        if instance is not None:
            instance.start(self._sweep_by(instance.flow))

    async def _sweep_by(self, flow: Sweeping) -> None:
        try:
            report = await flow.sweep()
        except StoreError:
            return
        self._seen["step reclaimed by the sweep"] += report.reclaimed
        self._seen["lost flow event announced again"] += report.announced

    def _happens(self, fault: str, rate: float) -> bool:
        if not self.faulty or self._dice.random() >= rate:
            return False
        self._seen[fault] += 1
        return True


class Sweeping(Protocol):
    async def sweep(self) -> SweepReport: ...


def _is_waiting(steps: dict[str, Any]) -> bool:
    """Whether a worker could begin a step now."""
    done = {name for name, step in steps.items() if step["status"] == "SUCCEEDED"}
    return any(step["status"] == "READY" and done.issuperset(step["dependsOn"]) for step in steps.values())


def _is_finished(steps: dict[str, Any]) -> bool:
    """Every step has ended, or waits for ever behind one that failed."""
    ended = {name for name, step in steps.items() if step["status"] in DONE}
    failed = {name for name in ended if steps[name]["status"] == "FAILED"}
    blocked: set[str] = set()
    for name, step in steps.items():
        if name not in ended and (failed | blocked) & set(step["dependsOn"]):
            blocked.add(name)
    return ended | blocked == set(steps)
