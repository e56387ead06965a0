"""Rebuilds in the background of a server: one at a time, each looked at and decided on by whoever began it."""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Callable, Coroutine
from typing import Any

from millpond.errors import MillpondError
from millpond.log import ERROR_CHARS_MAX, Log
from millpond.refold.comparison import Report
from millpond.refold.describe import report_json
from millpond.refold.rebuild import Rebuild


class Phase(enum.StrEnum):
    FOLDING = "folding"
    FOLDED = "folded"
    SWAPPING = "swapping"
    SWAPPED = "swapped"
    FAILED = "failed"


class Job:
    """A rebuild and the task that works on it."""

    def __init__(self, rebuild: Rebuild, log: Log) -> None:
        self.name = rebuild.view.name
        self.phase = Phase.FOLDING
        self._rebuild = rebuild
        self._log = log
        self._report: Report | None = None
        self._written: int | None = None
        self._error: str | None = None
        self._task = self._start(self._fold())

    @property
    def busy(self) -> bool:
        return self.phase in {Phase.FOLDING, Phase.SWAPPING}

    def state(self) -> dict[str, Any]:
        return {
            "view": self.name,
            "phase": self.phase,
            "entries": self._rebuild.entries,
            "report": None if self._report is None else report_json(self._report),
            "written": self._written,
            "error": self._error,
        }

    def swap(self) -> None:
        self.phase = Phase.SWAPPING
        self._task = self._start(self._swap())

    async def drop(self) -> None:
        """Stop, and remove the shadow."""
        await self.stop()
        await self._rebuild.clear()

    async def stop(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._run(work))

    async def _fold(self) -> None:
        self._report = await self._rebuild.fold()
        self.phase = Phase.FOLDED

    async def _swap(self) -> None:
        self._written = await self._rebuild.swap()
        await self._rebuild.clear()
        self.phase = Phase.SWAPPED
        self._log.note("NOTICE", "a view was rebuilt", view=self.name, documents_written=self._written)

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except MillpondError as error:
            self._error, self.phase = str(error), Phase.FAILED
            self._log.note("ERROR", "a rebuild failed", view=self.name, error=str(error)[:ERROR_CHARS_MAX])
        except Exception as bug:  # noqa: BLE001 - whoever asks must learn that it ended, and the log why
            self._error, self.phase = type(bug).__name__, Phase.FAILED
            self._log.unexpected(bug)


class Rebuilds:
    """The one rebuild there may be."""

    def __init__(self, make: Callable[[str], Rebuild | None], log: Log) -> None:
        """`make` gives the rebuild of a view by its name; None where no such view is loaded."""
        self._make = make
        self._log = log
        self.job: Job | None = None

    def begin(self, name: str) -> Job | None:
        """Begin to fold; None where there is no such view. Nothing else may be under way."""
        rebuild = self._make(name)
        if rebuild is None:
            return None
        self.job = Job(rebuild, self._log)
        return self.job

    async def drop(self) -> None:
        if self.job is not None:
            await self.job.drop()
            self.job = None

    async def stop(self) -> None:
        """At the end: what is under way is begun anew some other time, from the log."""
        if self.job is not None:
            await self.job.stop()
