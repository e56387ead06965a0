"""Finds the running server for a command, and has the token for its requests.

Called by `backend`, `publish`, `tail` and `load`. Never starts a server.
"""

from __future__ import annotations

import time

from millpond.core.errors import SettingsError, Unreachable
from millpond.http_client import Address
from millpond.settings import Settings
from millpond.stores.sqlite.lock import StoreInUse, find_holder

# Public: Pub/Sub subscriptions are configured with it.
PUSH_PATH = "/pubsub/push"
# A server takes the lock shortly before it knows its port.
_ANNOUNCE_S = 1.0
_POLL_S = 0.05


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
