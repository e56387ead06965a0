"""The endpoints of an API by method and path, as the table of routes finds them."""

from __future__ import annotations

from collections.abc import Iterable

from millpond.http.routing import Endpoint, Route


def endpoint(routes: Iterable[Route], method: str, path: str) -> Endpoint:
    """`path` as the route has it, names of parameters included."""
    (found,) = [route.methods[method] for route in routes if route.path == path]
    return found
