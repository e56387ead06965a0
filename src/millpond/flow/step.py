"""The API steps are written against: `@step`, what a step is given, and how it says that it failed.

    from millpond import step

    @step("GREET")
    def greet(context):
        return {"greeting": f"hello {context.inputs['name']}"}

A step is a function or a coroutine function. What it returns (a map, or nothing) becomes the step's `outputs`; what
it raises makes the step FAILED. A plain function runs in a thread of its own, so it may block.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from millpond.core.errors import StepFailed
from millpond.core.model import Document, Ref, Snapshot

Outputs = Mapping[str, Any] | None
StepFunction = Callable[["StepContext"], Outputs | Awaitable[Outputs]]
F = TypeVar("F", bound=StepFunction)
P = ParamSpec("P")
T = TypeVar("T")

# Attributes that `@step` sets: a function's step types and the modules it needs. `flow/registry.py` reads them.
TYPES_ATTRIBUTE = "__millpond_step_types__"
NEEDS_ATTRIBUTE = "__millpond_step_needs__"


def step(step_type: str, *, needs: str | None = None) -> Callable[[F], F]:
    """Declare that this function does the steps of `step_type`. May be given more than once.

    `needs` is a top-level module, such as `numpy`. If it is not installed, this process leaves the types of
    the function to other workers.
    """

    def declare(function: F) -> F:
        for attribute, value in ((TYPES_ATTRIBUTE, step_type), (NEEDS_ATTRIBUTE, needs)):
            if value is not None:
                setattr(function, attribute, (*getattr(function, attribute, ()), value))
        return function

    return declare


class ClaimLost(BaseException):
    """The step is, or may be, another worker's. No failure: `except Exception` must not catch it."""


class Documents(Protocol):
    """What a step may read: the store's documents. It has no method that writes."""

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        """Every ref, in order."""

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        """Documents by id, those after `after` first."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepContext:
    """One claim of one step: the run, the step, and what the step's function may use.

    Work may be done twice, because a worker that crashed may have done some of it; one result is recorded. Pass
    `idempotency_key` to each service the step calls, so that the service acts once.
    """

    run_id: str
    step_id: str
    step_type: str
    # The run and the step as they were when the step was claimed.
    run: Document
    step: Document
    # 1 for the first claim of the step, one more each time it is taken over from a worker that went silent.
    attempt: int
    token: str
    idempotency_key: str
    # A folder for this step's files. It does not exist until the step creates it.
    artifacts: Path
    documents: Documents
    # The process's settings: `settings["ARTIFACTS_DIR"]` or `settings.artifacts_dir`. Secrets are left out.
    settings: Mapping[str, Any]
    # Our clock, in whole microseconds since 1970.
    wall_clock: Callable[[], int]
    # True if another worker has taken the step over, or may have: our lease is over and was not renewed.
    is_lost: Callable[[], bool]

    @property
    def inputs(self) -> Document:
        """The step's `inputs`; empty if it has none."""
        inputs = self.step.get("inputs")
        if inputs is None:
            return {}
        if not isinstance(inputs, dict):
            raise StepFailed("INVALID_INPUTS", "inputs must be a map")
        return inputs

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `function` returns or raises, from a thread of its own: a coroutine must not block the event loop.

        The thread does not keep the process from ending.
        """
        # Views import this module too, and need no event loop.
        from millpond.concurrency import in_thread  # noqa: PLC0415

        return await in_thread(lambda: function(*args, **kwargs))

    def ensure_claimed(self) -> None:
        """Raise ClaimLost if the step may be another worker's. Call it before each effect that others see."""
        if self.is_lost():
            raise ClaimLost
