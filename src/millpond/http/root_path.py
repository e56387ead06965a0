"""The path under which a host serves the application: taken off the request's path. Called by `embedded`.

ASGI hosts put it into `root_path`. Most leave it in `path` and `raw_path` too, for example Starlette's `Mount`.
Some do not, and a proxy may have removed a part of it. Routes see paths without it; links begin with it.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from millpond.ingress.push import Scope


def without_root(scope: Scope) -> Scope:
    """The scope with paths below the root path; its `root_path` is what every link must begin with."""
    root: str = scope.get("root_path", "").rstrip("/")
    path: str = scope["path"]
    # What `Mount` added to the root path of the server, in case the server's own part is not in `path`.
    mounted = root.removeprefix(scope.get("app_root_path", "").rstrip("/"))
    prefix = next((prefix for prefix in (root, mounted) if _is_below(path, prefix)), "")
    raw: bytes = scope.get("raw_path") or b""
    return {
        **scope,
        "root_path": root,
        # Starlette's `base_url` begins with it, as it is.
        "app_root_path": quote(root),
        "path": path[len(prefix) :],
        "raw_path": _raw_without(raw, prefix),
    }


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


def _raw_without(raw: bytes, prefix: str) -> bytes | None:
    """`raw` without the segments that spell `prefix`; None if there are none, so that `path` is used."""
    end = 0
    while end >= 0:
        end = raw.find(b"/", end + 1)
        head = raw if end < 0 else raw[:end]
        if unquote(head.decode("ascii")) == prefix:
            return raw[len(head) :]
    return raw if not prefix and raw else None
