"""Runs the server: lock the store, bind, run until SIGTERM, drain, and end within eight seconds.

Owns the process: signals, the event loop, uvicorn, memory and GC settings. Called by `millpond serve`, `pull` and
`demo`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, BinaryIO, Protocol

import uvicorn
import uvloop

from millpond.core.errors import SettingsError, StoreError
from millpond.core.ports import StoreWithCatalog
from millpond.http.app import App, build_app
from millpond.http.banner import print_welcome, shown_host
from millpond.http.bodies import Bodies
from millpond.http.connections import Connections, connections_allowed, watch_connections
from millpond.http.fast_push import DirectProtocol
from millpond.http.refusal import publish_refusal
from millpond.ingress.oidc import PushGuard, build_guard
from millpond.ingress.push import PUSH_PATH, Headers, PushEndpoint, Respond
from millpond.service.service import Service
from millpond.service.stores import lock_store, open_store
from millpond.settings import Settings
from millpond.settings.checks import check_exposure
from millpond.telemetry.log import ToLog
from millpond.telemetry.metrics import Metrics

KEEP_ALIVE_S = 75
GRACEFUL_S = 7
# The process ends this long after a signal, even if something hangs; and this long after everything is closed, even
# if a thread is left, such as a step that cannot be stopped.
END_S = 7.8
LEAVE_S = 0.5
_BACKLOG = 2_048
MIB = 1024 * 1024
# From malloc.h.
_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK_BYTES = 256 * 1024
# How long the store's thread waits for the GIL while the event loop is busy. A commit takes the GIL with each
# statement. With Python's 5 ms a flood of requests, even refused ones, would delay the commits that free the queue.
SWITCH_S = 0.0005


# Runs beside a service; called with the service and its URL.
Beside = Callable[[Service, str], Coroutine[Any, Any, None]]


class PullSource(Protocol):
    """The source of messages in place of push requests. Its methods are called on the event loop."""

    failed: bool

    @property
    def welcome(self) -> str: ...

    def start(self, on_failure: Callable[[], None]) -> None:
        """Begin. `on_failure` ends the service as a signal does, with a failure as its exit code."""

    def stop(self) -> None:
        """Take no more messages; the engine drains at the same time."""

    async def closed(self) -> None:
        """Return when every message taken was acknowledged or given back."""


def serve(
    settings: Settings,
    *,
    open_source: Callable[[Service], PullSource] | None = None,
    open_store: Callable[[Settings], StoreWithCatalog] = open_store,
    build_app: Callable[[Service, PushEndpoint], App] = build_app,
    beside: Beside | None = None,
    log_stream: BinaryIO | None = None,
) -> bool:
    """Run until a signal. Raises MillpondError with a message of one line if it cannot start.

    With `open_source` there is no push endpoint, and False means that the source has failed. Benchmarks replace the
    store or the application, and measure everything else unchanged. `beside` runs from when the service is ready
    until it ends. Log lines go to standard output, unless `log_stream` is given.
    """
    if open_source is None:
        check_exposure(settings)
    lock = lock_store(settings)
    try:
        listener = _bind(settings)
        url = f"http://{shown_host(settings.host)}:{listener.getsockname()[1]}"
        if lock is not None:
            lock.announce(url)
        try:
            store = open_store(settings)
        except StoreError as error:
            raise SettingsError("STORE", settings.store, f"cannot be opened: {error}") from None
        service = Service(settings, store, log_stream or sys.stdout.buffer)
        source = open_source(service) if open_source is not None else None
        guard = build_guard(settings, service.log)
        push = PushEndpoint(service.engine, service.outcomes, guard) if source is None else _NoPush(service, guard)
        print_welcome(settings, url, None if source is None else source.welcome)
        last_resort = _LastResort(lambda: 0 if _is_fine(source) else 1)
        try:
            company = None if beside is None else partial(beside, service, url)
            uvloop.run(_serve(service, listener, build_app(service, push), push, source, last_resort, company))
        finally:
            last_resort.cancel()
        fine = _is_fine(source)
    finally:
        if lock is not None:
            lock.release()
    return fine


class _LastResort:
    """Ends the process after a deadline, if it has not ended by itself."""

    def __init__(self, code: Callable[[], int]) -> None:
        self._code = code
        self._timers: list[threading.Timer] = []

    def leave_after(self, seconds: float) -> None:
        timer = threading.Timer(seconds, lambda: os._exit(self._code()))
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def cancel(self) -> None:
        for timer in self._timers:
            timer.cancel()


def _is_fine(source: PullSource | None) -> bool:
    return source is None or not source.failed


async def _serve(
    service: Service,
    listener: socket.socket,
    app: App,
    push: PushEndpoint,
    source: PullSource | None,
    last_resort: _LastResort,
    company: Callable[[], Coroutine[Any, Any, None]] | None,
) -> None:
    _log_through(service)
    loop = asyncio.get_running_loop()
    open_ones: set[Any] = set()
    bodies = Bodies(service.settings.http_bodies_mib * MIB, loop.time)
    connections = Connections(
        connections_allowed(service.settings.http_connections_max, service.log), service.log, open_ones
    )
    watch_http(service.metrics, open_ones, bodies)
    config = uvicorn.Config(
        app,
        http=_protocol(service, push, bodies, connections),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACEFUL_S,
        backlog=_BACKLOG,
    )
    server = _Server(config)
    server.server_state.connections = open_ones
    # Tasks that end with the signal.
    first: list[asyncio.Task[None]] = []
    stop = partial(_stop, service, server, source, last_resort, first)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    # Ends only when all accepted messages are finished.
    watching = loop.create_task(watch_connections(lambda: list(open_ones)))
    _calm_collector()
    _return_large_blocks()
    sys.setswitchinterval(SWITCH_S)
    service.start()
    if source is not None:
        source.start(stop)
    if company is not None:
        first.append(loop.create_task(company()))
        # It runs until it is cancelled: if it ends before, it has failed.
        first[0].add_done_callback(lambda _: stop())
    await server.serve(sockets=[listener])
    if source is not None:
        await source.closed()
    ended = await asyncio.gather(*first, return_exceptions=True)
    watching.cancel()
    await service.close()
    last_resort.leave_after(LEAVE_S)
    for failure in ended:
        if isinstance(failure, Exception):
            raise failure


def watch_http(metrics: Metrics, open_ones: set[Any], bodies: Bodies) -> None:
    metrics.watch("millpond_connections", "Open connections.", lambda: len(open_ones))
    metrics.watch("millpond_request_body_bytes", "Request bodies in memory.", lambda: bodies.held)


def _stop(
    service: Service,
    server: _Server,
    source: PullSource | None,
    last_resort: _LastResort,
    first: list[asyncio.Task[None]],
) -> None:
    """Begin the shutdown: take no more messages, finish those that were accepted. A second call does nothing."""
    if server.should_exit:
        return
    last_resort.leave_after(END_S)
    service.log.note("INFO", "stopping: finishing what was accepted", waiting=service.engine.waiting)
    if source is not None:
        source.stop()
    for task in first:
        task.cancel()
    # Kept in the list: the event loop itself keeps only weak references to its tasks.
    first.append(asyncio.get_running_loop().create_task(service.drain()))
    service.monitor.stop()
    server.should_exit = True
    for connection in list(server.server_state.connections):
        if isinstance(connection, DirectProtocol):
            connection.refuse_unfinished()
            if connection.flow.unread_since is not None:
                connection.end_at_once()


def _calm_collector() -> None:
    """Messages create no reference cycles: collect rarely, and exclude all objects of the start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _return_large_blocks() -> None:
    """Make glibc return large blocks to the system as soon as they are freed, so that large messages leave none.

    By default it raises its threshold with the first freed block, and keeps later ones. Other allocators have no
    `mallopt`, and do not need it.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """We handle signals: uvicorn would raise them again at the end, but an exit after draining is a success."""
        yield


class _NoPush(PushEndpoint):
    """The push endpoint of a server that pulls its messages: it refuses every push."""

    def __init__(self, service: Service, guard: PushGuard | None) -> None:
        super().__init__(service.engine, service.outcomes, guard)
        self._log = service.log

    def knows(self, headers: Headers) -> bool:  # noqa: ARG002
        return True

    def accept(self, method: str, headers: Headers, body: bytes, respond: Respond) -> None:  # noqa: ARG002
        text = "this server pulls its messages (millpond pull): it takes no push requests"
        respond(404, [], self._encode({"reason": "not_found", "error": text}))
        self._log.note("WARNING", "not_found", http_status=404, reason="not_found", method=method, path=PUSH_PATH)


def _protocol(
    service: Service, push: PushEndpoint, bodies: Bodies, connections: Connections
) -> type[DirectProtocol]:
    shared = {
        "on_refusal": staticmethod(partial(publish_refusal, service.outcomes)),
        "on_connected": staticmethod(connections.connected),
        "push": push,
        "bodies": bodies,
    }
    return type("Protocol", (DirectProtocol,), shared)


def _bind(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        what = "is in use: stop what listens there, or choose another with PORT=…"
        if error.errno not in {98, 48}:
            what = f"cannot be listened on: {error.strerror}"
        raise SettingsError("PORT", settings.port, f"{what} (HOST={settings.host})") from None
    return listener


def _log_through(service: Service) -> None:
    handler = ToLog(service.log)
    for name in ("uvicorn", "uvicorn.error", "asyncio", "google"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        # uvicorn's warnings are about requests that we answer and log ourselves.
        logger.setLevel(logging.ERROR)
