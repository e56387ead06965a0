"""A claimed step's work: run the function, renew the lease meanwhile, and return how it ended.

No transaction is open while a step works. Called by `flow/assignment.py`, which writes the ending.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

from millpond.concurrency import in_thread
from millpond.core.document import find_fault
from millpond.core.errors import InternalError, StepFailed, Unavailable
from millpond.core.model import Document
from millpond.flow.lease_keeper import LeaseKeeper
from millpond.flow.step import ClaimLost, StepContext, StepFunction

STEP_ERROR = "STEP_ERROR"
STEP_TIMEOUT = "STEP_TIMEOUT"
INVALID_OUTPUTS = "INVALID_OUTPUTS"


class Succeeded(NamedTuple):
    outputs: Document


class Failed(NamedTuple):
    """`place` is logged instead of the message, which may quote the run."""

    code: str
    message: str
    place: str | None = None


class Lost(NamedTuple):
    """Another worker has the step now, or may have."""

    text: str


class Interrupted(NamedTuple):
    """The process stops before the work is done."""


Ending = Succeeded | Failed | Lost | Interrupted


async def work(
    function: StepFunction, context: StepContext, keeper: LeaseKeeper, max_s: float, stopping: asyncio.Event
) -> Ending:
    """How the work ended. Abandoned work is cancelled; a thread cannot be, so its result is dropped."""
    if stopping.is_set():
        return Interrupted()
    working = asyncio.ensure_future(_run(function, context))
    keeping = asyncio.ensure_future(keeper.keep())
    stop = asyncio.ensure_future(stopping.wait())
    try:
        done, _ = await asyncio.wait({working, keeping, stop}, timeout=max_s, return_when=asyncio.FIRST_COMPLETED)
        if working in done:
            return working.result()
        if keeping in done:
            return Lost(keeping.result())
        if stop in done:
            return Interrupted()
        return Failed(STEP_TIMEOUT, f"the step was not done after {max_s:g} s (FLOW_STEP_MAX_S)")
    finally:
        for task in (working, keeping, stop):
            task.cancel()


async def _run(function: StepFunction, context: StepContext) -> Succeeded | Failed | Lost:
    try:
        return _checked(await _call(function, context))
    except ClaimLost:
        return Lost("the lease is over, and could not be renewed")
    except Unavailable:
        # An outage is not the step's failure. By now its lease is over, too.
        return Lost("the store was away for longer than the lease")
    except StepFailed as failed:
        return Failed(_text(failed.code), _text(failed), str(InternalError(failed)))
    except BaseException as error:  # noqa: BLE001 - sys.exit(), too: none may leave the step RUNNING
        return Failed(STEP_ERROR, f"{type(error).__name__}: {_text(error)}", str(InternalError(error)))


async def _call(function: StepFunction, context: StepContext) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(context)
    outputs = await in_thread(lambda: function(context))
    return await outputs if inspect.isawaitable(outputs) else outputs


def _text(value: object) -> str:
    """What a step raised, as text that any store takes."""
    try:
        return str(value).encode(errors="replace").decode()
    except Exception as error:  # noqa: BLE001 - __str__ is the step's own code
        return f"(no text: {type(error).__name__})"


def _checked(outputs: Any) -> Succeeded | Failed:
    if outputs is None:
        return Succeeded({})
    if not isinstance(outputs, Mapping):
        return Failed(INVALID_OUTPUTS, f"a step returns a map or nothing, not {type(outputs).__name__}")
    document = dict(outputs)
    fault = find_fault(document, depth=3)
    return Failed(INVALID_OUTPUTS, f"the outputs cannot be stored: {fault}") if fault else Succeeded(document)
