"""Rebuilds in the background of a server: one at a time. Swaps nothing before the client that began it asks for it.

Called by the rebuild API.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Awaitable, Callable

from millpond.core.errors import MillpondError
from millpond.engine.pace import Pace
from millpond.reprocess.describe import RebuildReport, rebuild_report
from millpond.reprocess.rebuild import RebuildRun
from millpond.reprocess.report import Report
from millpond.telemetry.log import Log
from millpond.telemetry.message_line import ERROR_CHARS_MAX

Opening = contextlib.AbstractAsyncContextManager[RebuildRun]


class Phase(enum.StrEnum):
    FOLDING = "folding"
    FOLDED = "folded"
    SWAPPING = "swapping"
    SWAPPED = "swapped"
    FAILED = "failed"


class Job:
    """A rebuild and its background task."""

    def __init__(self, name: str, opening: Opening, log: Log) -> None:
        self.name = name
        self.phase = Phase.FOLDING
        self._opening = opening
        # Keeps the scratch store open until the swap is done or the job is stopped.
        self._held = contextlib.AsyncExitStack()
        self._rebuild: RebuildRun | None = None
        self._log = log
        self._report: Report | None = None
        self.written: int | None = None
        self.error: str | None = None
        self._task = self._start(self._fold)

    @property
    def busy(self) -> bool:
        return self.phase in {Phase.FOLDING, Phase.SWAPPING}

    @property
    def entries(self) -> int:
        """How many entries of the event log were read."""
        return 0 if self._rebuild is None else self._rebuild.entries

    @property
    def pace(self) -> Pace | None:
        """The pace of its swap; None on an embedded store."""
        return None if self._rebuild is None else self._rebuild.pace

    @property
    def report(self) -> RebuildReport | None:
        """The differences; None before the fold is complete."""
        return None if self._report is None else rebuild_report(self._report)

    def swap(self) -> None:
        self.phase = Phase.SWAPPING
        self._task = self._start(self._swap)

    async def stop(self) -> None:
        """Stop, and remove the shadow."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._held.aclose()

    def _start(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._run(work))

    async def _fold(self) -> None:
        self._rebuild = await self._held.enter_async_context(self._opening)
        self._report = await self._rebuild.fold()
        self.phase = Phase.FOLDED

    async def _swap(self) -> None:
        assert self._rebuild is not None  # noqa: S101 - it was folded
        self.written = await self._rebuild.swap()
        await self._held.aclose()
        self.phase = Phase.SWAPPED
        self._log.note("NOTICE", "a view was rebuilt", view=self.name, documents_written=self.written)

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            # Called here, so that a job that is dropped before its task starts leaves no coroutine unawaited.
            await work()
        except MillpondError as error:
            self.error, self.phase = str(error), Phase.FAILED
            self._log.note("ERROR", "a rebuild failed", view=self.name, error=str(error)[:ERROR_CHARS_MAX])
        except Exception as bug:  # noqa: BLE001 - the client must see that it ended, and the log says why
            self.error, self.phase = type(bug).__name__, Phase.FAILED
            self._log.unexpected(bug)


class Rebuilds:
    """The one rebuild there may be."""

    def __init__(self, open_rebuild: Callable[[str], Opening | None], log: Log) -> None:
        """`open_rebuild` opens the rebuild of a view by name; it returns None if no such view is loaded."""
        self._open = open_rebuild
        self._log = log
        self.job: Job | None = None

    async def begin(self, name: str) -> Job | None:
        """Begin to fold; None if there is no such view. The caller checks that no other rebuild is busy."""
        opening = self._open(name)
        if opening is None:
            return None
        await self.drop()
        self.job = Job(name, opening, self._log)
        return self.job

    async def drop(self) -> None:
        """Stop the rebuild, if there is one. Also called at shutdown: a later rebuild starts from the log again."""
        job, self.job = self.job, None
        if job is not None:
            await job.stop()
