"""Rebuilding a view over HTTP: begin, look how far it is, swap or drop. One rebuild at a time in a process."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from millpond.http.routing import Access, RequestFault, Route, json_response
from millpond.reprocess.jobs import Job, Phase, Rebuilds


class RebuildApi:
    def __init__(self, rebuilds: Rebuilds, *, keeps_log: bool) -> None:
        self._rebuilds = rebuilds
        self._keeps_log = keeps_log

    def routes(self) -> list[Route]:
        one = {"GET": self._look, "POST": self._begin, "DELETE": self._drop}
        return [
            Route("/api/rebuilds/{view}", one, Access.ADMIN),
            Route("/api/rebuilds/{view}/swap", {"POST": self._swap}, Access.ADMIN),
        ]

    async def _begin(self, _: Request, name: str) -> Response:
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
        return json_response(job.state(), 202)

    async def _look(self, _: Request, name: str) -> Response:
        return json_response(self._find(name).state())

    async def _swap(self, _: Request, name: str) -> Response:
        job = self._find(name)
        if job.phase is not Phase.FOLDED:
            raise RequestFault(409, "not_folded", f"the rebuild of {name} is {job.phase}: begin it again")
        job.swap()
        return json_response(job.state(), 202)

    async def _drop(self, _: Request, name: str) -> Response:
        self._find(name)
        await self._rebuilds.drop()
        return json_response({"view": name, "dropped": True})

    def _find(self, name: str) -> Job:
        job = self._rebuilds.job
        if job is None or job.name != name:
            raise RequestFault(404, "not_found", f"no rebuild of {name} was begun here")
        return job
