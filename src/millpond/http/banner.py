"""Prints the lines of a server's start: its URL, and a command to try. Called by `server`."""

from __future__ import annotations

import base64
import time

import msgspec

from millpond._version import __version__
from millpond.core import timestamps
from millpond.ingress.push import PUSH_PATH
from millpond.settings import Settings


def shown_host(host: str) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - shown, not bound
    return f"[{host}]" if ":" in host else host


def print_welcome(settings: Settings, url: str, source_welcome: str | None) -> None:
    """Plain lines, with or without a terminal; the command can be pasted into a shell."""
    print(f"Millpond {__version__} serves {url} with {settings.store}", flush=True)  # noqa: T201
    if source_welcome is not None:
        print(source_welcome, flush=True)  # noqa: T201
        return
    if settings.push_audience is not None:
        who = f"{settings.push_service_account} for {settings.push_audience}"
        print(f"Takes pushes at {url}{PUSH_PATH} with a token of {who}", flush=True)  # noqa: T201
        return
    if not settings.has_built_in("ops_services"):
        # The message to try is one of its events.
        print(f"Takes pushes at {url}{PUSH_PATH}", flush=True)  # noqa: T201
        return
    now = time.time_ns() // 1_000
    data = msgspec.json.encode({"service": "hello", "status": "ok", "timestamp": timestamps.to_text(now)})
    body = {
        "message": {
            "data": base64.b64encode(data).decode(),
            "messageId": f"hello-{now}",
            "publishTime": timestamps.to_text(now),
        },
        "subscription": "projects/local/subscriptions/hello",
    }
    text = msgspec.json.encode(body).decode()
    print(f"Try: curl -s {url}{PUSH_PATH} -H 'content-type: application/json' -d '{text}'", flush=True)  # noqa: T201
