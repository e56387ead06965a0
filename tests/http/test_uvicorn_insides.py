"""The insides of uvicorn that http/ overrides or reads are as they were when that code was written.

`limits.py`, `fast_push.py`, `flow_control.py` and `server.py` subclass uvicorn's classes and replace some of its
objects. Uvicorn promises none of that. If a test here fails after an upgrade: read how the named method differs
between both versions, change the code that HASHES names beside it, run tests/http and tests/acceptance, then put
the hash from the message into HASHES and raise the bounds in pyproject.toml.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import inspect
import re
from collections import deque
from types import ModuleType
from typing import get_args

import pytest
import uvicorn
import uvicorn.config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from millpond.http import fast_push, limits, server
from millpond.http.fast_push import DirectProtocol, PushCycle
from millpond.http.flow_control import HeldFlow
from millpond.http.limits import BoundedProtocol

# Of each method: the start of its source's SHA-256, and what to look at if that changes.
HASHES = {
    "HttpToolsProtocol.__init__": ("4f0899941034", "limits.BoundedProtocol: the attributes it reads"),
    "HttpToolsProtocol.connection_made": ("6efb565ff3d3", "limits: it replaces `flow` by a HeldFlow afterwards"),
    "HttpToolsProtocol.connection_lost": ("c91a4c9bf2e2", "limits and fast_push: the end of cycles and claims"),
    "HttpToolsProtocol.eof_received": ("5652627579a0", "fast_push.DirectProtocol.eof_received, which replaces it"),
    "HttpToolsProtocol.data_received": ("010a7ae59a5d", "limits: its counts before and after the parser"),
    "HttpToolsProtocol.on_message_begin": ("96d377fdc7c2", "limits: what begins anew with a request"),
    "HttpToolsProtocol.on_url": ("37be44e962b0", "limits._header_bytes and fast_push: they read `url`"),
    "HttpToolsProtocol.on_header": ("65d62c044f61", "limits.BoundedProtocol.on_header, a copy that also counts"),
    "HttpToolsProtocol.on_headers_complete": ("1ea8589acfad", "limits.begin_request; the order of the pipeline"),
    "HttpToolsProtocol._start_asgi_task": ("9c08c2571ae9", "limits._start_asgi_task, a copy that releases claims"),
    "HttpToolsProtocol.on_body": ("dba9c32aeba3", "limits.take_body and fast_push.PushCycle.take"),
    "HttpToolsProtocol.on_message_complete": ("1fbad42dc31f", "limits.end_body and fast_push.PushCycle.end"),
    "HttpToolsProtocol.on_response_complete": ("64e254f28e38", "limits.on_response_complete: a copy, no timer"),
    "HttpToolsProtocol.send_400_response": ("ae5a4a3782b6", "limits.send_400_response, which replaces it"),
    "HttpToolsProtocol.shutdown": ("d7351fa33f00", "fast_push.PushCycle: the attributes a cycle must have"),
    "HttpToolsProtocol.pause_writing": ("17a8fd215d96", "limits: `flow.unread_since`"),
    "HttpToolsProtocol.resume_writing": ("7844bbaa8cce", "limits: `flow.unread_since`"),
    "RequestResponseCycle.__init__": ("4d2f220910c3", "limits: it reads and sets a cycle's attributes"),
    "RequestResponseCycle.run_asgi": ("0f33f2449a44", "limits._start_asgi_task: when the application is done"),
    "RequestResponseCycle.receive": ("8124ae006be7", "limits._abandon_request: how a waiting application wakes"),
    "RequestResponseCycle.send": ("abdd8601b326", "limits._answer_began: when `response_started` becomes true"),
    "FlowControl.__init__": ("0152d94a0407", "flow_control.HeldFlow: it reads `_transport`"),
    "FlowControl.pause_reading": ("7c27388bb984", "flow_control.HeldFlow.hold"),
    "FlowControl.resume_reading": ("a0429d30857e", "flow_control.HeldFlow.resume_reading"),
    "FlowControl.pause_writing": ("93d4a08a9f2d", "fast_push._is_plain: it reads `write_paused`"),
    "FlowControl.resume_writing": ("a343e8b0baf0", "fast_push._is_plain: it reads `write_paused`"),
    "Server.serve": ("112ef41af521", "server._Server: signals are captured around it"),
    "Server._serve": ("4575b7a50adf", "server._serve: start, run and shut down, in that order"),
    "Server.capture_signals": ("e1bbcd4770d1", "server._Server.capture_signals, which replaces it"),
    "Server.shutdown": ("9b33c5056299", "server._stop: what it leaves to uvicorn"),
    "Server._wait_tasks_to_complete": ("17209be1e991", "server.GRACEFUL_S"),
}
KINDS = {kind.__name__: kind for kind in (HttpToolsProtocol, RequestResponseCycle, FlowControl, uvicorn.Server)}
OURS = (BoundedProtocol, DirectProtocol, HeldFlow, server._Server)  # noqa: SLF001 - what we override is private


def changed() -> list[str]:
    """One line for each method whose source is not the one that our code was written for."""
    lines = []
    for name, (expected, look_at) in HASHES.items():
        kind, _, method = name.partition(".")
        source = inspect.getsource(inspect.unwrap(getattr(KINDS[kind], method)))
        found = hashlib.sha256(source.encode()).hexdigest()[:12]
        if found != expected:
            lines.append(f"uvicorn's {name} changed: look at http/{look_at}; then its hash is {found!r}")
    return lines


def of_self(module: ModuleType) -> tuple[set[str], set[str]]:
    """The attributes of `self` that a module's protocol class reads, and those that it sets."""
    classes = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef)]
    (protocol,) = (node for node in classes if node.name.endswith("Protocol"))
    uses = [node for node in ast.walk(protocol) if isinstance(node, ast.Attribute)]
    own = [node for node in uses if isinstance(node.value, ast.Name) and node.value.id == "self"]
    read, is_set = ({node.attr for node in own if isinstance(node.ctx, kind)} for kind in (ast.Load, ast.Store))
    return read, is_set


async def no_app(scope: object, receive: object, send: object) -> None:
    """In the place of an application that is never called."""


@pytest.fixture
def connection() -> HttpToolsProtocol:
    """Uvicorn's own, in the middle of a request's headers."""
    config = uvicorn.Config(no_app, log_config=None)
    made = HttpToolsProtocol(config, ServerState(), {}, _loop=asyncio.new_event_loop())
    made.on_message_begin()
    made.loop.close()
    return made


def test_what_is_overridden_has_not_changed() -> None:
    """The message says which method changed, what of ours depends on it, and its new hash."""
    assert changed() == []


def test_every_override_is_in_the_table() -> None:
    """A method that we begin to override is watched from then on."""
    overridden = {
        f"{base.__name__}.{name}"
        for ours in OURS
        for base in KINDS.values()
        if issubclass(ours, base)
        for name in vars(ours).keys() & vars(base).keys()
        if inspect.isfunction(vars(base)[name])
    }
    assert len(overridden) == 18
    assert overridden <= HASHES.keys()


def test_every_override_takes_what_it_is_given() -> None:
    """Uvicorn and asyncio call by position: the parameters have the same names in the same order."""
    for ours in OURS:
        for name in vars(ours):
            base = next((kind for kind in KINDS.values() if issubclass(ours, kind) and name in vars(kind)), None)
            if base is None or name == "__init__" or not inspect.isfunction(vars(base)[name]):
                continue
            assert list(inspect.signature(vars(ours)[name]).parameters) == list(
                inspect.signature(vars(base)[name]).parameters
            ), f"{base.__name__}.{name}"


def test_the_attributes_we_read_exist(connection: HttpToolsProtocol) -> None:
    """Everything a protocol of ours uses of `self` is its own, or uvicorn's."""
    own = {name for ours in (BoundedProtocol, DirectProtocol) for name in (*vars(ours), *ours.__annotations__)}
    (read, is_set), (read_by_push, _) = of_self(limits), of_self(fast_push)
    theirs = (read | read_by_push) - is_set - own
    assert {"loop", "parser", "headers", "url", "pipeline", "transport", "tasks", "server_state"} <= theirs
    assert theirs <= set(dir(connection))


def test_the_attributes_have_their_types(connection: HttpToolsProtocol) -> None:
    """The pipeline takes new requests on the left; a header is a pair of bytes; connections and tasks are sets."""
    state = connection.server_state
    assert isinstance(connection.pipeline, deque)
    assert connection.headers == []
    assert connection.url == b""
    assert connection.expect_100_continue is False
    assert connection.cycle is None
    assert connection.timeout_keep_alive == connection.config.timeout_keep_alive
    assert connection.connections is state.connections
    assert connection.tasks is state.tasks
    assert (state.connections, state.tasks, state.total_requests) == (set(), set(), 0)


def test_a_push_cycle_has_what_uvicorn_reads_of_its_own() -> None:
    """It stands in the place of uvicorn's: every attribute that the connection uses, but those of ASGI."""
    source = inspect.getsource(HttpToolsProtocol)
    used = set(re.findall(r"\bself\.cycle\.(\w+)|\bexisting_cycle\.(\w+)", source))
    names = {name for pair in used for name in pair if name}
    assert names == {"body", "disconnected", "keep_alive", "message_event", "more_body", "response_complete"}
    assert names | {"response_started"} <= set(dir(PushCycle))
    assert {*names, "response_started"} <= set(
        inspect.getsource(RequestResponseCycle.__init__).replace(".", " ").split()
    )


def test_the_flow_has_what_we_use() -> None:
    """The transport by its private name, and the two flags."""

    async def made() -> FlowControl:
        return FlowControl(asyncio.Transport())

    flow = asyncio.run(made())
    assert isinstance(flow._transport, asyncio.Transport)  # noqa: SLF001 - what we override is private
    assert (flow.read_paused, flow.write_paused) == (False, False)


def test_the_server_takes_what_we_give() -> None:
    """Each option that server.py sets exists, with the values it sets; so do the flags that end the server."""
    tree = ast.parse(inspect.getsource(server))
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "uvicorn.Config"
    ]
    given = {word.arg for call in calls for word in call.keywords}
    assert {"http", "ws", "lifespan", "timeout_keep_alive", "timeout_graceful_shutdown", "backlog"} <= given
    assert given <= set(inspect.signature(uvicorn.Config).parameters)
    assert "off" in get_args(uvicorn.config.LifespanType)
    config = uvicorn.Config(no_app, http=DirectProtocol, ws="none", lifespan="off", log_config=None)
    config.load()
    assert config.http_protocol_class is DirectProtocol
    assert config.ws_protocol_class is None
    made = server._Server(config)  # noqa: SLF001 - what we override is private
    assert made.should_exit is False
    assert isinstance(made.server_state, ServerState)
    assert "sockets" in inspect.signature(uvicorn.Server.serve).parameters


def test_a_change_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method with another body is named, with what to look at."""

    def on_body(self: HttpToolsProtocol, body: bytes) -> None:
        self.cycle.body += body

    monkeypatch.setattr(HttpToolsProtocol, "on_body", on_body)
    (line,) = changed()
    assert line.startswith("uvicorn's HttpToolsProtocol.on_body changed: look at http/limits.take_body and ")
