"""The table of routes: finds a request's endpoint, asks `access`, and turns every error into an answer.

Paths are split before percent-decoding, so that a collection path or an id may contain any character. No route is
ever without an access rule. Called by the ASGI application; `app` lists the routes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from millpond.core.answers import Failure
from millpond.core.errors import Overloaded, StoreError
from millpond.http.access import Access, AccessRules, Exposed, RequestFault
from millpond.http.operation import Operation
from millpond.ingress.push import RETRY_AFTER_S
from millpond.telemetry.log import Log
from millpond.telemetry.message_line import ERROR_CHARS_MAX

S = TypeVar("S", bound=msgspec.Struct)

Endpoint = Callable[..., Awaitable[Response | msgspec.Struct]]
PATH_SHOWN_MAX = 200
_API = "/api"
# Answers are for this client and this moment, and browsers must not guess their content type.
_API_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
_encode = msgspec.json.Encoder().encode


class Route(NamedTuple):
    """`{name}` in the path is one segment, passed to the endpoint. A Struct it returns is answered with 200."""

    path: str
    methods: Mapping[str, Endpoint]
    access: Access
    # Methods that are answered before the table sees the request.
    in_front: Mapping[str, Operation] = {}

    def match(self, segments: Sequence[str]) -> list[str] | None:
        """The values of the path's parameters, or None."""
        pattern = self.path.split("/")[1:]
        if len(pattern) != len(segments):
            return None
        values = []
        for name, segment in zip(pattern, segments, strict=True):
            if name.startswith("{"):
                values.append(segment)
            elif name != segment:
                return None
        return values

    @property
    def allowed(self) -> list[str]:
        return sorted({*self.methods, *(["HEAD"] if "GET" in self.methods else [])})


def decode_body(body: bytes, shape: type[S], expected: str) -> S:
    """The request's body as this Struct; `expected` says in the refusal what to send."""
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestFault(400, "invalid_body", f"send {expected}: {error}") from None


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(_encode(content), status, headers, media_type="application/json")


def failure(status: int, reason: str, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return json_response(Failure(reason, text), status, headers)


class Table:
    """Finds the route of a request, and turns its result or error into an answer."""

    def __init__(self, routes: Sequence[Route], *, admin_token: str | None, exposed: Exposed, log: Log) -> None:
        self.routes = routes
        self._access = AccessRules(admin_token=admin_token, exposed=exposed)
        self._log = log

    async def answer(self, request: Request) -> Response:
        response = await self._answer(request)
        if request.url.path.startswith(_API):
            for name, value in _API_HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    async def _answer(self, request: Request) -> Response:
        try:
            endpoint, values = self._find(request)
            answer = await endpoint(request, *values)
            return answer if isinstance(answer, Response) else json_response(answer)
        except RequestFault as fault:
            self._note("WARNING", request, fault.status, fault.reason, str(fault))
            return failure(fault.status, fault.reason, str(fault), fault.headers)
        except ClientDisconnect:
            # The client is gone. If the connection refused the body, it has already answered and logged that.
            return Response(status_code=400)
        except Overloaded as error:
            return failure(429, error.reason, str(error), {"retry-after": str(RETRY_AFTER_S)})
        except StoreError as error:
            self._note("ERROR", request, 503, "store_unavailable", str(error))
            return failure(503, "store_unavailable", str(error))
        except Exception as bug:  # noqa: BLE001 - every error is answered and logged
            self._note("ERROR", request, 500, "internal_error", type(bug).__name__)
            self._log.unexpected(bug)
            return failure(500, "internal_error", type(bug).__name__)

    def _find(self, request: Request) -> tuple[Endpoint, list[str]]:
        raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
        segments = [unquote(segment) for segment in raw.decode("ascii").split("/")[1:]]
        for route in self.routes:
            values = route.match(segments)
            if values is None:
                continue
            endpoint = route.methods.get("GET" if request.method == "HEAD" else request.method)
            if endpoint is None:
                allow = {"allow": ", ".join(route.allowed)}
                raise RequestFault(405, "method_not_allowed", f"{request.method} is not for this path", allow)
            self._access.check(request, route.access)
            return endpoint, values
        raise RequestFault(404, "not_found", "there is nothing at this path; GET /api lists what there is")

    def _note(self, severity: str, request: Request, status: int, reason: str, error: str) -> None:
        known = {"http_status": status, "reason": reason, "method": request.method}
        path, error = request.url.path[:PATH_SHOWN_MAX], error[:ERROR_CHARS_MAX]
        self._log.note(severity, reason, **known, path=path, error=error)
