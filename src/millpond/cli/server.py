"""Chooses the server of a command, and has the token for its requests, and the text if the server refuses it.

If the user named a store, a command never goes to whatever listens at HOST and PORT. Never starts a server. Called
by `backend`, `reading`, `publish`, `tail` and `load`.
"""

from __future__ import annotations

import shlex
import time
from typing import NamedTuple

from millpond.cli.exit_codes import WrongUsage
from millpond.core.errors import MillpondError, SettingsError, Unreachable
from millpond.http_client import Address, fetch
from millpond.settings import Settings
from millpond.stores.sqlite.lock import StoreInUse, find_holder

# Public: Pub/Sub subscriptions are configured with it.
PUSH_PATH = "/pubsub/push"
# A server takes the lock shortly before it knows its port.
_ANNOUNCE_S = 1.0
_POLL_S = 0.05
_PROBE_S = 1.0


class ChosenServer(NamedTuple):
    address: Address
    # Whether the server was found by the lock of the store.
    holds_store: bool
    # The options that make another command ask about the same documents, with a space before them.
    options: str


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


def choose_server(settings: Settings, url: Address | None) -> ChosenServer:
    """The server to send to: `url`, else the store's holder, else the one at HOST and PORT if no store was named.

    Raises Unreachable if no server holds the store that was named, and WrongUsage if that store has no lock.
    """
    if url is not None:
        return ChosenServer(url, holds_store=False, options=same_documents(settings, url))
    found = find_server(settings)
    if found is not None:
        return ChosenServer(found, holds_store=True, options=same_documents(settings, None))
    address = listening_address(settings)
    if settings.origins["STORE"] != "default":
        raise _no_holder(settings, address)
    if address is None:
        raise Unreachable("no server holds the store, and PORT=0 names no port: give --url")
    return ChosenServer(address, holds_store=False, options=same_documents(settings, address))


def same_documents(settings: Settings, url: Address | None) -> str:
    """The options for a hint: with them another command asks about the same documents as this one."""
    if url is not None:
        return f" --url {shlex.quote(url.base + api_prefix(url))}"
    return f" --store {shlex.quote(settings.store)}" if settings.origins["STORE"] == "command line" else ""


async def find_other_server(settings: Settings) -> Address | None:
    """The Millpond at HOST and PORT, if no store was named and no process holds the default one.

    Its store is another one: `millpond demo` has its own. Sends no token.
    """
    path, address = settings.store_path, listening_address(settings)
    if address is None or path is None or settings.origins["STORE"] != "default" or find_holder(path):
        return None
    try:
        reply = await fetch(address._replace(path="/api"), timeout_s=_PROBE_S, reply_bytes_max=1024 * 1024)
    except OSError:
        return None
    return address if reply.status == 200 and reply.answer.get("service") == "millpond" else None


async def is_paced(settings: Settings, address: Address) -> bool:
    """Whether bulk work to this address keeps to a pace: by BULK_PACE, else as the server says. Sends no token."""
    if settings.bulk_pace != "auto":
        return settings.bulk_pace == "on"
    try:
        reply = await fetch(
            address._replace(path=f"{api_prefix(address)}/api"), timeout_s=_PROBE_S, reply_bytes_max=1024 * 1024
        )
    except OSError:
        return True
    # A server that does not say so may be on Firestore.
    return not (reply.status == 200 and reply.answer.get("paced") is False)


def listening_address(settings: Settings) -> Address | None:
    """Where a server with these settings listens; None if the system chooses its port."""
    if settings.port == 0:
        return None
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - not bound
    return Address("http", host, settings.port, "")


def push_path(address: Address) -> str:
    """The URL's path, or PUSH_PATH if it has none."""
    return address.path if address.path.strip("/") else PUSH_PATH


def api_prefix(address: Address) -> str:
    """The path below which a server has /api: empty, unless an application mounts Millpond under a path."""
    return address.path.partition("?")[0].rstrip("/").removesuffix(PUSH_PATH)


def admin_headers(settings: Settings) -> dict[str, str]:
    """The headers of a request to /api: the token, if one is set."""
    token = settings.admin_token
    if token is None:
        return {}
    if not token.isascii() or not token.isprintable():
        raise SettingsError("ADMIN_TOKEN", "(secret)", "must be printable ASCII text to be sent as a header")
    return {"authorization": f"Bearer {token}"}


def token_refused(settings: Settings, server: str) -> MillpondError:
    """The error of a request to /api that was answered 401."""
    if settings.admin_token is None:
        return WrongUsage(f"ADMIN_TOKEN is missing: {server} asks for it; set it to the one that server has")
    return SettingsError("ADMIN_TOKEN", "(secret)", f"was refused by {server}: set it to the one that server has")


def _no_holder(settings: Settings, address: Address | None) -> MillpondError:
    if settings.store_path is None:
        shown = "http://127.0.0.1:8080" if address is None else address.base
        return WrongUsage(
            f"STORE={settings.store} does not say which server to use: give its URL, such as --url {shown}"
        )
    return Unreachable(
        f"no server holds {settings.store}: start one with `millpond serve --store {shlex.quote(settings.store)}`, "
        "or name another server with --url"
    )
