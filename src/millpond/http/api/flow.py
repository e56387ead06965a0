"""Flow runs over HTTP: submit one, and look after those that were left."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from millpond.core.errors import InvalidRun, RunExists
from millpond.flow.service import Flow
from millpond.http.routing import Access, RequestFault, Route, json_response


class FlowApi:
    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def routes(self) -> list[Route]:
        return [
            Route("/api/flow-runs", {"POST": self._submit}, Access.ADMIN),
            Route("/api/flow-runs/sweep", {"POST": self._sweep}, Access.ADMIN),
        ]

    async def _submit(self, request: Request) -> Response:
        """A flow run as a JSON object. Sending the very same run again is answered 200 and changes nothing."""
        run = _decoded(await request.body())
        try:
            submitted = await self._flow.submit(run, request.query_params.get("runId"))
        except InvalidRun as error:
            status = 409 if isinstance(error, RunExists) else 400
            raise RequestFault(status, error.reason, str(error)) from None
        answer = {"runId": submitted.run_id, "created": submitted.created, "notOurs": self._flow.not_ours(run)}
        return json_response(answer, 201 if submitted.created else 200)

    async def _sweep(self, _: Request) -> Response:
        return json_response(await self._flow.sweep())


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise RequestFault(400, InvalidRun.reason, "the body is not JSON") from None
