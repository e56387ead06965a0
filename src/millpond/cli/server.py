"""Finds the running server for a command, and has the token and the retries for its requests.

Called by `backend`, `publish`, `tail` and `load`. Never starts a server.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from millpond.core.errors import SettingsError, Unreachable
from millpond.http_client import Address, Reply
from millpond.settings import Settings
from millpond.stores.sqlite.lock import StoreInUse, find_holder

# Public: Pub/Sub subscriptions are configured with it.
PUSH_PATH = "/pubsub/push"
PATIENCE_S = 60.0
# Long enough for a restart; a server that does not come back within it has ended.
RECONNECT_S = 3.0
# A server takes the lock shortly before it knows its port.
_ANNOUNCE_S = 1.0
_POLL_S = 0.05
_PAUSE_FIRST_S = 0.1
_PAUSE_MAX_S = 5.0
_RETRY_AFTER_MAX_S = 30.0
# A bug in a view: the server asks for a retry because a deploy may fix it, but waiting a minute does not.
_HOPELESS = frozenset({"view_error"})


def find_server(settings: Settings) -> Address | None:
    """The server that holds the store, by the URL in the store's lock; None if no process holds the store.

    Raises StoreInUse if the holder is not a server but another command.
    """
    path = settings.store_path
    if path is None:
        return None
    give_up_at = time.monotonic() + _ANNOUNCE_S
    while holder := find_holder(path):
        if holder.url is not None:
            return Address.parse(holder.url)
        if time.monotonic() > give_up_at:
            raise StoreInUse(path, holder)
        time.sleep(_POLL_S)
    return None


def guess_server(settings: Settings) -> Address:
    """The server to send to: the store's holder, else the one that should listen at HOST and PORT."""
    found = find_server(settings)
    if found is not None:
        return found
    if settings.port == 0:
        raise Unreachable("no server holds the store, and PORT=0 names no port: give --url")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - not bound
    return Address("http", host, settings.port, "")


def push_path(address: Address) -> str:
    """The URL's path, or PUSH_PATH if it has none."""
    return address.path if address.path.strip("/") else PUSH_PATH


def admin_headers(settings: Settings) -> dict[str, str]:
    """The headers of a request to /api: the token, if one is set."""
    token = settings.admin_token
    if token is None:
        return {}
    if not token.isascii() or not token.isprintable():
        raise SettingsError("ADMIN_TOKEN", "(secret)", "must be printable ASCII text to be sent as a header")
    return {"authorization": f"Bearer {token}"}


async def patiently(ask: Callable[[], Awaitable[Reply]]) -> Reply:
    """The first final reply, or the last one after PATIENCE_S. Raises Unreachable.

    429 and 503 are retried, with the pause that the server asks for.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    pause_s = _PAUSE_FIRST_S
    while True:
        waited_s = loop.time() - started
        asked_for_s = 0.0
        try:
            reply = await ask()
        except Unreachable:
            if waited_s >= RECONNECT_S:
                raise
        else:
            transient = reply.status in {429, 503} and reply.answer.get("reason") not in _HOPELESS
            if not transient or waited_s >= PATIENCE_S:
                return reply
            asked_for_s = _retry_after_s(reply)
        # Jitter, so that requests refused together are not sent again together.
        await asyncio.sleep(max(asked_for_s, pause_s) * random.uniform(1.0, 1.5))  # noqa: S311
        pause_s = min(pause_s * 2, _PAUSE_MAX_S)


def _retry_after_s(reply: Reply) -> float:
    text = reply.headers.get("retry-after", "")
    return min(float(text), _RETRY_AFTER_MAX_S) if text.isascii() and text.isdigit() else 0.0
