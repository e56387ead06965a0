"""The table of routes: finds a request's endpoint, checks access, and turns every error into an answer.

Paths are split before percent-decoding, so that a collection path or an id may contain any character. No route is
ever without an access rule. Called by the ASGI application; `app` lists the routes.
"""

from __future__ import annotations

import enum
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from millpond.core.answers import Failure
from millpond.core.errors import Overloaded, StoreError
from millpond.http.operation import Operation
from millpond.ingress.push import RETRY_AFTER_S, is_own_origin
from millpond.telemetry.log import ERROR_CHARS_MAX, Log

Endpoint = Callable[..., Awaitable[Response | msgspec.Struct]]
PATH_SHOWN_MAX = 200
_API = "/api"
# Answers are for this client and this moment, and browsers must not guess their content type.
_API_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
_encode = msgspec.json.Encoder().encode


class Access(enum.Enum):
    """Which clients may use a route. Each route declares one, so that none is open by oversight."""

    OPEN = "every client that reaches the port"
    PUSH = "the broker: with PUSH_AUDIENCE its token is verified, by the endpoint itself"
    ADMIN = "clients with the ADMIN_TOKEN; if none is set, this machine only"


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


class RequestFault(Exception):
    """A request that is refused: answered with `status`, and logged once."""

    def __init__(self, status: int, reason: str, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.headers = headers


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(_encode(content), status, headers, media_type="application/json")


def failure(status: int, reason: str, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return json_response(Failure(reason, text), status, headers)


class Table:
    """Finds the route of a request, and turns its result or error into an answer."""

    def __init__(self, routes: Sequence[Route], *, admin_token: str | None, exposed: bool, log: Log) -> None:
        self.routes = routes
        self._admin_token = admin_token
        self._exposed = exposed
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
            self._check_caller(request, route)
            return endpoint, values
        raise RequestFault(404, "not_found", "there is nothing at this path; GET /api lists what there is")

    def _check_caller(self, request: Request, route: Route) -> None:
        if route.access is Access.ADMIN:
            self._check_admin(request)
        if request.method in {"GET", "HEAD"}:
            return
        origin = request.headers.get("origin")
        if origin is not None:
            host = request.headers.get("host", "")
            if not is_own_origin(origin.encode("latin-1"), host.encode("latin-1")):
                raise RequestFault(403, "foreign_origin", "this request comes from a page of another site")
        if route.access is Access.ADMIN:
            _check_is_json(request)

    def _check_admin(self, request: Request) -> None:
        if self._admin_token is not None:
            given = request.headers.get("authorization", "")
            if not hmac.compare_digest(given.encode("latin-1"), f"Bearer {self._admin_token}".encode()):
                text = "send Authorization: Bearer with the ADMIN_TOKEN"
                raise RequestFault(401, "unauthorized", text, {"www-authenticate": "Bearer"})
        elif self._exposed:
            text = "others can reach this server: set ADMIN_TOKEN, and send it as Authorization: Bearer"
            raise RequestFault(403, "admin_token_not_set", text)
        elif not _is_loopback(request.headers.get("host", "")):
            # DNS rebinding: a site can make its own name resolve to 127.0.0.1, and then read our answers.
            text = "without ADMIN_TOKEN, ask for localhost or 127.0.0.1 by that name"
            raise RequestFault(403, "foreign_host", text)

    def _note(self, severity: str, request: Request, status: int, reason: str, error: str) -> None:
        known = {"http_status": status, "reason": reason, "method": request.method}
        path, error = request.url.path[:PATH_SHOWN_MAX], error[:ERROR_CHARS_MAX]
        self._log.note(severity, reason, **known, path=path, error=error)


def _check_is_json(request: Request) -> None:
    """Refuse what a page of another site could send without a preflight, even if a proxy drops its Origin.

    A browser sends a POST without a content type, or with that of a form or of plain text, to any site. Before one
    with application/json, and before every DELETE, it sends a preflight request, which we never allow.
    """
    headers = request.headers
    given = headers.getlist("content-type")
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if not given and request.method != "POST" and not has_body:
        return
    if len(given) != 1 or given[0].partition(";")[0].strip().lower() != "application/json":
        text = "send Content-Type: application/json, also with a POST that has no body"
        raise RequestFault(415, "unsupported_media_type", text)


def _is_loopback(host: str) -> bool:
    """Whether a Host header names this machine."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
