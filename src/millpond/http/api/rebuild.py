"""Rebuilds a view over HTTP: begin, read its progress, swap or drop. One rebuild at a time in a process."""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from millpond.core.answers import AlwaysTrue, Count
from millpond.http.access import Access, RequestFault
from millpond.http.operation import NOT_FOUND, Answers, Shape, fails, in_path, operation
from millpond.http.routing import Endpoint, Route, json_response
from millpond.reprocess.describe import RebuildReport
from millpond.reprocess.jobs import Job, Phase, Rebuilds

_VIEW = [in_path("view", "The view's name.", "ops_services")]


class Rebuild(msgspec.Struct):
    """How far a rebuild is. `report` once it is folded, `written` once it is swapped, `error` if it failed.

    `rate` and `reason` on Firestore only, while this process does bulk work.
    """

    view: str
    phase: Phase
    entries: Annotated[int, msgspec.Meta(ge=0, description="How much of the event log was read.")]
    report: RebuildReport | None
    written: Count | None
    error: str | None
    rate: Annotated[float | None, msgspec.Meta(description="Writes a second of this process, now.")]
    reason: Annotated[str | None, msgspec.Meta(description="Why bulk work is not faster.")]


class RebuildDropped(msgspec.Struct):
    """Its shadow is gone."""

    view: str
    dropped: AlwaysTrue = True


_BEGUN: Answers = {202: [Shape(Rebuild)]}


class RebuildApi:
    def __init__(self, rebuilds: Rebuilds, *, keeps_log: bool) -> None:
        self._rebuilds = rebuilds
        self._keeps_log = keeps_log

    def routes(self) -> list[Route]:
        one: dict[str, Endpoint] = {"POST": self._begin, "GET": self._progress, "DELETE": self._drop}
        return [
            Route("/api/rebuilds/{view}", one, Access.ADMIN),
            Route("/api/rebuilds/{view}/swap", {"POST": self._swap}, Access.ADMIN),
        ]

    @operation("rebuild", _BEGUN, fails(409, "no_event_log", "rebuild_under_way"), NOT_FOUND, parameters=_VIEW)
    async def _begin(self, _: Request, name: str) -> Response:
        """Fold the event log into a shadow of one view's documents.

        Nothing of the view changes before it is swapped. One rebuild at a time.
        """
        if not self._keeps_log:
            raise RequestFault(409, "no_event_log", "there is no event log to fold: EVENT_LOG is off")
        under_way = self._rebuilds.job
        if under_way is not None and under_way.busy:
            text = f"{under_way.name} is being rebuilt: wait until that is done, or drop it"
            raise RequestFault(409, "rebuild_under_way", text)
        job = await self._rebuilds.begin(name)
        if job is None:
            text = f"no view {name} is loaded in this server: `millpond views` lists them, VIEWS names your own"
            raise RequestFault(404, "not_found", text)
        return json_response(_state(job), 202)

    @operation("rebuildState", NOT_FOUND, parameters=_VIEW)
    async def _progress(self, _: Request, name: str) -> Rebuild:
        """How far the rebuild is, and what differs."""
        return _state(self._find(name))

    @operation("swapRebuild", _BEGUN, fails(409, "not_folded"), NOT_FOUND, parameters=_VIEW)
    async def _swap(self, _: Request, name: str) -> Response:
        """Replace the documents that differ with the fold's.

        Live traffic goes on. Documents that the log did not decide are left as they are.
        """
        job = self._find(name)
        if job.phase is not Phase.FOLDED:
            raise RequestFault(409, "not_folded", f"the rebuild of {name} is {job.phase}: begin it again")
        job.swap()
        return json_response(_state(job), 202)

    @operation("dropRebuild", NOT_FOUND, parameters=_VIEW)
    async def _drop(self, _: Request, name: str) -> RebuildDropped:
        """Stop the rebuild and remove its shadow."""
        self._find(name)
        await self._rebuilds.drop()
        return RebuildDropped(name)

    def _find(self, name: str) -> Job:
        job = self._rebuilds.job
        if job is None or job.name != name:
            raise RequestFault(404, "not_found", f"no rebuild of {name} was begun here")
        return job


def _state(job: Job) -> Rebuild:
    rate, reason = (None, None) if job.pace is None else (job.pace.rate, job.pace.reason)
    return Rebuild(job.name, job.phase, job.entries, job.report, job.written, job.error, rate, reason)
