"""Limits the number of connections, and chooses which of them to close for new ones. Called by `server`.

At the limit, a new connection replaces the least useful ones: first those that were refused and linger, then those
whose requests take longer than a second to arrive, the slowest first, then the longest idle. Never closes a busy
connection: if all others are busy, the new one is refused. So clients that open many connections and send little
displace each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Callable
from typing import Any

from millpond.http.limits import BoundedProtocol
from millpond.telemetry.log import Log

# File descriptors for everything else: the store's files, calls to other services, the log.
_OTHER_DESCRIPTORS = 100
# Ranking reads every connection, so each time 1/50 of the limit is closed together.
_SHARE_CLOSED_AT_ONCE = 50
_LINE_EVERY_S = 10.0


class Connections:
    """The limit. `connected` is called for every new connection; `open_ones` holds all of them."""

    def __init__(self, limit: int, log: Log, open_ones: set[Any]) -> None:
        self.limit = limit
        self._log = log
        self._open_ones = open_ones
        self._closed = self._refused = 0
        self._line_due = float("-inf")

    def __len__(self) -> int:
        return len(self._open_ones)

    def connected(self, newcomer: BoundedProtocol) -> None:
        """Make room for a connection that was just accepted, if the limit is exceeded."""
        if len(self) <= self.limit:
            return
        now = asyncio.get_running_loop().time()
        least_useful = self._least_useful(newcomer, now)
        for connection in least_useful:
            connection.make_way(f"there are more than {self.limit} connections, and this one was slow")
        if not least_useful:
            newcomer.make_way(f"there are {self.limit} connections, and all of them are at work")
            self._refused += 1
        self._closed += len(least_useful)
        self._note(now)

    def _least_useful(self, newcomer: BoundedProtocol, now: float) -> list[BoundedProtocol]:
        found = [
            (rank, connection)
            for connection in self._open_ones
            if connection is not newcomer
            and isinstance(connection, BoundedProtocol)
            and (rank := connection.useless_s(now)) is not None
        ]
        found.sort(key=lambda ranked: ranked[0], reverse=True)
        return [connection for _, connection in found[: max(1, self.limit // _SHARE_CLOSED_AT_ONCE)]]

    def _note(self, now: float) -> None:
        if now < self._line_due:
            return
        self._line_due = now + _LINE_EVERY_S
        text = (
            f"the limit of {self.limit} connections is met; closed because they were slow or idle: {self._closed}, "
            f"refused: {self._refused}. If these are good clients, raise HTTP_CONNECTIONS_MAX, and the descriptors "
            "of the process (ulimit -n) with it"
        )
        self._log.note("WARNING", text, reason="too_many_connections", closed=self._closed, refused=self._refused)
        self._closed = self._refused = 0


def connections_allowed(wanted: int, log: Log) -> int:
    """The limit that the process's file descriptors allow, after raising their own limit as far as possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = max(soft - _OTHER_DESCRIPTORS, soft // 2)
    log.note(
        "WARNING",
        f"HTTP_CONNECTIONS_MAX={wanted} needs {needed} descriptors and there are {soft} (ulimit -n): "
        f"at most {allowed} connections",
    )
    return allowed


async def watch_connections(connections: Callable[[], list[Any]]) -> None:
    """Once a second, refuse requests that take too long to arrive, and close connections idle for too long."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(1)
        now = loop.time()
        for connection in connections():
            if isinstance(connection, BoundedProtocol):
                with contextlib.suppress(OSError, RuntimeError):
                    # An error of one connection must not end the check of the others.
                    connection.close_if_overdue(now)
