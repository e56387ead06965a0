"""The flow-run worker as a target of the Functions Framework, for Cloud Run functions.

    # main.py
    from millpond.functions import flow_worker

    functions-framework --target flow_worker --source main.py

It uses the decoder, worker and log lines of `POST /events` of `millpond serve`. An event that must be redelivered
is answered 503, an unreadable one 400 or 415, and every other one 200.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import signal
import sys
import threading
import time
from typing import Any

import flask
import functions_framework
import msgspec

from millpond import settings as settings_module
from millpond.core.errors import MalformedEnvelope
from millpond.flow.event_filter import Filtered, FlowEvent
from millpond.flow.results import OK, FlowResult
from millpond.flow.service import GRACE_S, Flow
from millpond.ingress.cloudevent import UNSUPPORTED, decode_http
from millpond.plugins import search_working_directory
from millpond.service.steps import load_configured_steps
from millpond.service.stores import open_store
from millpond.settings import Settings
from millpond.stores.sqlite.lock import StoreLock
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics

# A wrong setting stops the start with one line, instead of failing every event.
_SETTINGS = settings_module.load()
search_working_directory()
_WATCH_S = 0.2


class _Host:
    """A worker on an event loop in its own thread, because the framework's functions are not coroutines.

    Created with the first event, because the framework's server forks before it serves.
    """

    def __init__(self, settings: Settings) -> None:
        self._lock = StoreLock(settings.store_path) if settings.store_path is not None else None
        self._metrics = Metrics()
        self.log = Log(sys.stdout.buffer, env=settings.env, metrics=self._metrics)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="millpond", daemon=True).start()
        self._store, self.flow = self._run(self._open(settings))
        self._watching = asyncio.run_coroutine_threadsafe(self._watch(), self._loop)
        # Runs before the stores' threads are shut down, which is earlier than ordinary exit functions run.
        getattr(threading, "_register_atexit", atexit.register)(self.close)

    async def _open(self, settings: Settings) -> tuple[Any, Flow]:
        store = open_store(settings)
        steps = load_configured_steps(settings)
        flow = Flow(settings, store, self.log, self._metrics, lambda: time.time_ns() // 1_000, steps=steps)
        flow.start()
        return store, flow

    async def _watch(self) -> None:
        """Give steps back once the server is stopping: waiting for them would exceed its grace period."""
        while not _is_leaving():  # noqa: ASYNC110 - gunicorn offers no event to wait for
            await asyncio.sleep(_WATCH_S)
        await self.flow.drain()

    def handle(self, event: FlowEvent | Filtered) -> FlowResult:
        result: FlowResult = self._run(self.flow.handle(event))
        return result

    def close(self) -> None:
        """Give back unfinished steps, and close the store."""
        with contextlib.suppress(TimeoutError):
            self._run(self._close(), timeout_s=3 * GRACE_S)
        self.log.close()
        if self._lock is not None:
            self._lock.release()

    async def _close(self) -> None:
        await self.flow.drain()
        await self.flow.close()
        await self._store.close()

    def _run(self, call: Any, timeout_s: float | None = None) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(timeout_s)


def _is_leaving() -> bool:
    """Whether gunicorn, which serves the framework, is stopping."""
    worker = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(worker, "alive", True) is False


_host: _Host | None = None
_opening = threading.Lock()


def _opened() -> _Host:
    global _host  # noqa: PLW0603 - the framework offers a function no other place for state
    with _opening:
        if _host is None:
            _host = _Host(_SETTINGS)
        return _host


@functions_framework.cloud_event  # type: ignore[untyped-decorator]
def flow_worker(_: Any) -> None:
    """Work on one step of the flow run that was updated.

    The raw request is decoded: the framework's own event object leaves escapes in its attributes.
    """
    host = _opened()
    request = flask.request
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in request.headers]
    try:
        attributes, load = decode_http(headers, request.get_data())
        event = host.flow.filter.read(attributes, load)
    except MalformedEnvelope as error:
        status = 415 if error.reason == UNSUPPORTED else 400
        host.log.note("WARNING", error.reason, http_status=status, reason=error.reason, error=str(error))
        _refuse(status, {"reason": error.reason, "error": str(error)})
        return
    result = host.handle(event)
    if result.http_status != OK:
        _refuse(result.http_status, msgspec.to_builtins(result.answer()))


def _refuse(status: int, answer: dict[str, Any]) -> None:
    flask.abort(flask.make_response(answer, status))
