"""Where the running server is, and how to speak to it: through the store's lock, which knows its URL."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from millpond.cli.address import Address
from millpond.cli.exits import Unreachable
from millpond.cli.http_client import Client, Reply
from millpond.core.errors import SettingsError
from millpond.settings import Settings
from millpond.stores.sqlite.lock import StoreInUse, find_holder

# Public: Pub/Sub subscriptions are configured with it.
PUSH_PATH = "/pubsub/push"
# A server takes the lock a moment before it knows its port.
_ANNOUNCE_S = 1.0
_POLL_S = 0.05


def find_server(settings: Settings) -> Address | None:
    """The server that holds the store, or None where nobody does.

    Raises StoreInUse where the holder is no server: another command at work.
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
    """The server to send to: the store's holder, else whoever should listen at HOST and PORT."""
    found = find_server(settings)
    if found is not None:
        return found
    if settings.port == 0:
        raise Unreachable("no server holds the store, and PORT=0 names no port: give --url")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - not bound
    return Address("http", host, settings.port, "")


def push_path(address: Address) -> str:
    """The path to push to; a URL that names none means the usual one."""
    return address.path if address.path.strip("/") else PUSH_PATH


def admin_client(settings: Settings, address: Address, *, timeout_s: float) -> Client:
    """A client for /api, with the token where one is set."""
    token = settings.admin_token
    if token is None:
        return Client(address, timeout_s=timeout_s)
    if not token.isascii() or not token.isprintable():
        raise SettingsError("ADMIN_TOKEN", "(secret)", "must be printable ASCII text to be sent as a header")
    return Client(address, timeout_s=timeout_s, headers={"authorization": f"Bearer {token}"})


def answer_of(reply: Reply) -> dict[str, Any]:
    """The server's JSON object; something of that shape where it sent none."""
    try:
        answer = msgspec.json.decode(reply.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        return answer
    return {"reason": f"http_{reply.status}", "error": f"the server answered {reply.status} without JSON"}


def refuse_missing(path: Path | None) -> None:
    """Say it in words where the store's file is not there: SQLite would only say that it cannot open it."""
    if path is not None and not path.exists():
        raise Unreachable(
            f"there is no store at {path} yet: `millpond serve` or `millpond ingest` makes it, "
            "--store sqlite:PATH names another"
        )
