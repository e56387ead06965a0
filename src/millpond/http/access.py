"""Which clients may use a route: the admin token, Host and Origin, and JSON only for what changes something.

Called by the table of routes before an endpoint. Push tokens are verified by `ingress.oidc`, not here.
"""

from __future__ import annotations

import enum
import hmac
import ipaddress
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from starlette.requests import Request

from millpond.ingress.push import Scope, is_own_origin

_FORWARDED = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"})


class Access(enum.Enum):
    """Which clients may use a route. Each route declares one, so that none is open by oversight."""

    OPEN = "every client that reaches the port"
    PUSH = "the broker: with PUSH_AUDIENCE its token is verified, by the endpoint itself"
    ADMIN = "clients with the ADMIN_TOKEN; if none is set, this machine only"


class RequestFault(Exception):
    """A request that is refused: answered with `status`, and logged once."""

    def __init__(self, status: int, reason: str, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.headers = headers


# Whether other machines may have sent a request.
Exposed = Callable[[Scope], bool]


def may_be_remote(scope: Scope) -> bool:
    """Whether another machine may have sent this request, on a server that is not ours.

    The address such a server is bound to is not known. So the client's own address decides, and it counts only if
    no proxy says that it forwards the request: a proxy on this machine has a loopback address itself.
    """
    client = scope.get("client")
    if not client or not _is_own_address(client[0]):
        return True
    return any(name in _FORWARDED for name, _ in scope["headers"])


class AccessRules:
    def __init__(self, *, admin_token: str | None, exposed: Exposed) -> None:
        self._admin_token = admin_token
        self._exposed = exposed

    def check(self, request: Request, access: Access) -> None:
        """Raises RequestFault if this client may not send this request."""
        if access is Access.ADMIN:
            self._check_admin(request)
        if request.method in {"GET", "HEAD"}:
            return
        origin = request.headers.get("origin")
        if origin is not None and not self._is_trusted(origin, request.headers.get("host", ""), access):
            raise RequestFault(403, "foreign_origin", "this request comes from a page of another site")
        if access is Access.ADMIN:
            _check_is_json(request)

    def _is_trusted(self, origin: str, host: str, access: Access) -> bool:
        """Whether a page at this origin may send what changes something.

        A proxy on the reader's machine (`gcloud run services proxy`) serves our page from localhost and puts the
        server's name into Host. The token, which was checked before, shows that the page is ours: a page of
        another site does not have it.
        """
        if is_own_origin(origin.encode("latin-1"), host.encode("latin-1")):
            return True
        has_token = access is Access.ADMIN and self._admin_token is not None
        return has_token and _is_loopback(origin.partition("://")[2])

    def _check_admin(self, request: Request) -> None:
        if self._admin_token is not None:
            given = request.headers.get("authorization", "")
            if not hmac.compare_digest(given.encode("latin-1"), f"Bearer {self._admin_token}".encode()):
                text = "send Authorization: Bearer with the ADMIN_TOKEN"
                raise RequestFault(401, "unauthorized", text, {"www-authenticate": "Bearer"})
        elif self._exposed(request.scope):
            text = "others can reach this server: set ADMIN_TOKEN, and send it as Authorization: Bearer"
            raise RequestFault(403, "admin_token_not_set", text)
        elif not _is_loopback(request.headers.get("host", "")):
            # DNS rebinding: a site can make its own name resolve to 127.0.0.1, and then read our answers.
            text = "without ADMIN_TOKEN, ask for localhost or 127.0.0.1 by that name"
            raise RequestFault(403, "foreign_host", text)


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


def _is_own_address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    # A socket for both families shows an IPv4 client so.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
