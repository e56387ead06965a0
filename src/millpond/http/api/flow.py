"""Flow runs over HTTP: submits a run, and sweeps steps that no worker works on. Never works on a step itself."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from millpond.core.collections import FLOW_RUNS
from millpond.core.errors import InvalidRun, RunExists
from millpond.flow.service import Flow
from millpond.flow.sweep import SweepReport
from millpond.http.access import Access, RequestFault
from millpond.http.operation import Body, Shape, fails, operation, parameter
from millpond.http.routing import Route, json_response

_EXAMPLE = {"runId": "example-1", "steps": {"a": {"stepType": "ADD_UP", "status": "READY"}}}


class Submitted(msgspec.Struct, rename="camel"):
    """`notOurs` are step types this server does not do."""

    run_id: str
    created: bool
    not_ours: list[str]


class FlowApi:
    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def routes(self) -> list[Route]:
        return [
            Route("/api/flow-runs", {"POST": self._submit}, Access.ADMIN),
            Route("/api/flow-runs/sweep", {"POST": self._sweep}, Access.ADMIN),
        ]

    @operation(
        "submitRun",
        {200: [Shape(Submitted)], 201: [Shape(Submitted)]},
        fails(400, InvalidRun.reason),
        fails(409, RunExists.reason),
        parameters=[parameter("query", "runId", "Names a run that does not name itself.")],
        bodies=[Body("FlowRun", _EXAMPLE)],
        leads_to={"document": {"collection": FLOW_RUNS, "id": "$response.body#/runId"}},
    )
    async def _submit(self, request: Request) -> Response:
        """Store a flow run and have it worked on.

        201 for a new run, 200 if the very same was submitted before.
        """
        run = _decoded(await request.body())
        try:
            submitted = await self._flow.submit(run, request.query_params.get("runId"))
        except InvalidRun as error:
            status = 409 if isinstance(error, RunExists) else 400
            raise RequestFault(status, error.reason, str(error)) from None
        answer = Submitted(submitted.run_id, submitted.created, self._flow.not_ours(run))
        return json_response(answer, 201 if submitted.created else 200)

    @operation("sweepRuns")
    async def _sweep(self, _: Request) -> SweepReport:
        """Recover steps that no worker works on."""
        return await self._flow.sweep()


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise RequestFault(400, InvalidRun.reason, "the body is not JSON") from None
