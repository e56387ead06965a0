"""A gRPC proxy between Firestore clients and the emulator: counts calls, reads and writes, and injects faults.

Faults are chosen by database (`projects/P/databases/D`, which the client names with every call), so that many tests
with a project each share one proxy. Connections can only be cut behind a `door`, a small TCP relay in front of the
gRPC server: clients that shall lose theirs alone take a door each, because gRPC shares connections by address.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, NoReturn, Self

import grpc
import msgspec
from google.cloud.firestore_v1.types import (
    BatchGetDocumentsResponse,
    CommitRequest,
    CommitResponse,
    ListDocumentsResponse,
    RunAggregationQueryResponse,
    RunQueryResponse,
)
from grpc import StatusCode

READ, COMMIT = "BatchGetDocuments", "Commit"
BEFORE, AFTER = "before", "after"
# Kinds of fault besides the statuses.
HANG, RESET, LOST_REPLY, LATE = "hang", "reset", "lost reply", "late"
DETAILS = "injected by the tests"
_UNLIMITED = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
_DATABASE = "google-cloud-resource-prefix"
# What HTTP/2 and gRPC say for themselves on each hop.
_NOT_PASSED_ON = ("user-agent", "te", "content-type", "grpc-")
_ANSWERS: dict[str, Any] = {
    READ: BatchGetDocumentsResponse.pb(),
    COMMIT: CommitResponse.pb(),
    "RunQuery": RunQueryResponse.pb(),
}
_COMMIT_REQUEST: Any = CommitRequest.pb()
_COUNTED: Any = RunAggregationQueryResponse.pb()
_LISTED: Any = ListDocumentsResponse.pb()
_NUMBERS = ("reads", "writes", "refused", "deletes", "billed_reads")
_PRECONDITION = {
    StatusCode.ALREADY_EXISTS,
    StatusCode.NOT_FOUND,
    StatusCode.FAILED_PRECONDITION,
    StatusCode.ABORTED,
}
# A closing socket with this option sends RST, not FIN.
_LINGER_NONE = struct.pack("ii", 1, 0)


class Fault:
    """What happens to the next `times` calls of `method` (None: to all of them), before or after they are applied.

    `hang` never answers. `reset` cuts the connection with RST, `lost reply` closes it after the call was applied.
    `late` never answers either, and keeps the call: `deliver_late` applies it when the client has long given up.
    """

    def __init__(self, method: str, position: str, kind: StatusCode | str, times: int | None = 1) -> None:
        self.method = method
        self.position = position
        self.kind = kind
        self.left = times
        self.struck = 0

    def take(self, method: str) -> bool:
        """Whether this call is struck; if so, one less is left."""
        if method != self.method or self.left == 0:
            return False
        self.struck += 1
        if self.left is not None:
            self.left -= 1
        return True


class Counts(msgspec.Struct):
    """What one database was asked for, as Firestore bills: documents that do not exist count as read."""

    # Calls that arrived, by method.
    calls: dict[str, int] = msgspec.field(default_factory=Counter)
    # Documents in answers of the emulator, found or missing.
    reads: int = 0
    # Writes the emulator applied, deletes among them.
    writes: int = 0
    # Commits that a precondition refused.
    refused: int = 0
    deletes: int = 0
    # Reads as they are billed: those above, queries that found nothing, counts, and listings.
    billed_reads: int = 0

    @property
    def rpcs(self) -> int:
        return sum(self.calls.values())

    def since(self, earlier: Counts) -> Counts:
        calls = Counter(self.calls)
        calls.subtract(earlier.calls)
        return Counts(+calls, *(getattr(self, name) - getattr(earlier, name) for name in _NUMBERS))

    def add_call(self, method: str, request: bytes, answers: list[bytes]) -> None:
        """A call that the emulator answered to its end."""
        if method == COMMIT:
            self.deletes += sum(bool(write.delete) for write in _COMMIT_REQUEST.FromString(request).writes)
        elif method == READ:
            self.billed_reads += len(answers)
        elif method == "RunQuery":
            found = [_ANSWERS["RunQuery"].FromString(answer) for answer in answers]
            self.billed_reads += max(1, sum(one.HasField("document") for one in found))
        elif method == "RunAggregationQuery":
            fields = _COUNTED.FromString(answers[0]).result.aggregate_fields
            counted = fields["n"].integer_value if "n" in fields else 0
            self.billed_reads += max(1, -(-counted // 1_000))
        elif method == "ListDocuments":
            self.billed_reads += max(1, len(_LISTED.FromString(answers[0]).documents))
        elif method == "ListCollectionIds":
            self.billed_reads += 1

    def add_answer(self, method: str, answer: bytes) -> None:
        kind = _ANSWERS.get(method)
        if kind is None:
            return
        message = kind.FromString(answer)
        if method == COMMIT:
            self.writes += len(message.write_results)
        elif method == READ:
            # An answer may also carry nothing but the id of a new transaction.
            self.reads += message.WhichOneof("result") is not None
        else:
            self.reads += message.HasField("document")


class FirestoreProxy:
    """Belongs to the event loop it was started on; `running_proxy` gives it one of its own."""

    def __init__(self, upstream: str, round_trip_s: float = 0.0) -> None:
        """`round_trip_s` is added to every call, half of it on either way."""
        self._upstream = upstream
        self._way_s = round_trip_s / 2
        self._channel: grpc.aio.Channel | None = None
        self._server: grpc.aio.Server | None = None
        self._doors: list[asyncio.Server] = []
        # The client's side of each relayed connection, by the port its other side has towards the gRPC server.
        self._connections: dict[int, asyncio.StreamWriter] = {}
        self._kept: list[tuple[str, bytes, Any]] = []
        self.port = 0
        # By database.
        self.faults: dict[str, Fault] = {}
        self.counts: defaultdict[str, Counts] = defaultdict(Counts)
        # The headers of the last call, by method.
        self.headers: dict[str, list[tuple[str, Any]]] = {}

    async def __aenter__(self) -> Self:
        self._channel = grpc.aio.insecure_channel(self._upstream, options=_UNLIMITED)
        self._server = grpc.aio.server(options=_UNLIMITED)
        self._server.add_generic_rpc_handlers((_EveryMethod(self),))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        assert self._channel is not None
        for door in self._doors:
            door.close()
        for connection in list(self._connections.values()):
            connection.close()
        await self._server.stop(None)
        await self._channel.close()

    @property
    def address(self) -> str:
        """Without a relay: nothing can be cut here, and nothing is slower than it must be."""
        return f"127.0.0.1:{self.port}"

    def total(self) -> Counts:
        """All databases together, so far."""
        calls = sum((Counter(one.calls) for one in self.counts.values()), Counter())
        return Counts(calls, *(sum(getattr(one, name) for one in self.counts.values()) for name in _NUMBERS))

    async def open_door(self) -> str:
        """One more address, whose connections no other client shares."""
        door = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self._doors.append(door)
        return f"127.0.0.1:{door.sockets[0].getsockname()[1]}"

    async def deliver_late(self) -> list[StatusCode]:
        """Apply every call that was kept; what the emulator answered each."""
        kept, self._kept = self._kept, []
        return [await self._status_of(*call) for call in kept]

    async def serve(self, path: str, request: bytes, context: Any) -> AsyncIterator[bytes]:
        """One call. As a stream of answers whatever the method: on the wire a single answer is no different."""
        method = path.rpartition("/")[2]
        sent = context.invocation_metadata() or ()
        metadata = [(name, value) for name, value in sent if not name.startswith(_NOT_PASSED_ON)]
        self.headers[method] = sorted(metadata)
        database = str(dict(metadata).get(_DATABASE, ""))
        counts = self.counts[database]
        counts.calls[method] += 1
        fault = self.faults.get(database)
        if fault is not None and not fault.take(method):
            fault = None
        if fault is not None and fault.position == BEFORE:
            if fault.kind == LATE:
                self._kept.append((path, request, metadata))
            await self._strike(fault, context)
        await self._travel()
        held: bytes | None = None
        answers: list[bytes] = []
        try:
            async for answer in self._ask(path, request, metadata, context.time_remaining()):
                counts.add_answer(method, answer)
                answers.append(answer)
                if held is None:
                    await self._travel()
                else:
                    yield held
                held = answer
            counts.add_call(method, request, answers)
        except grpc.aio.AioRpcError as error:
            counts.refused += method == COMMIT and error.code() in _PRECONDITION
            if fault is None:
                await self._travel()
                await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))
        if fault is not None:
            # All but the last answer went out: a stream may break off after half of the documents.
            await self._strike(fault, context)
        if held is not None:
            yield held

    async def _travel(self) -> None:
        if self._way_s:
            await asyncio.sleep(self._way_s)

    def _ask(self, path: str, request: bytes, metadata: Any, timeout: float | None) -> AsyncIterator[bytes]:
        assert self._channel is not None
        call: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(path)
        return aiter(call(request, timeout=timeout, metadata=grpc.aio.Metadata(*metadata)))

    async def _status_of(self, path: str, request: bytes, metadata: Any) -> StatusCode:
        try:
            async for _ in self._ask(path, request, metadata, None):
                pass
        except grpc.aio.AioRpcError as error:
            return error.code()
        return StatusCode.OK

    async def _strike(self, fault: Fault, context: Any) -> NoReturn:
        if isinstance(fault.kind, StatusCode):
            await context.abort(fault.kind, DETAILS)
        if fault.kind in {RESET, LOST_REPLY}:
            self._cut(int(context.peer().rpartition(":")[2]), with_reset=fault.kind == RESET)
        # gRPC ends the wait when the client gives up or its connection is gone.
        await asyncio.Event().wait()
        raise AssertionError("the event is never set")

    def _cut(self, port: int, *, with_reset: bool) -> None:
        connection = self._connections[port]
        if with_reset:
            connection.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
            connection.transport.abort()
        else:
            connection.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.port)
        port = inner_writer.get_extra_info("sockname")[1]
        self._connections[port] = writer
        try:
            await _until_first(_pump(reader, inner_writer), _pump(inner_reader, writer))
        finally:
            del self._connections[port]
            writer.close()
            inner_writer.close()


class _EveryMethod(grpc.GenericRpcHandler):
    def __init__(self, proxy: FirestoreProxy) -> None:
        self._proxy = proxy

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        serve: Any = partial(self._proxy.serve, handler_call_details.method)
        return grpc.unary_stream_rpc_method_handler(serve)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while some := await reader.read(65_536):
            writer.write(some)
            await writer.drain()


async def _until_first(*pumps: Any) -> None:
    tasks = [asyncio.ensure_future(pump) for pump in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def running_proxy(upstream: str, round_trip_s: float = 0.0) -> Iterator[FirestoreProxy]:
    """A proxy on a thread and an event loop of its own, for benchmarks and tests of processes."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="firestore-proxy")
    thread.start()
    proxy = FirestoreProxy(upstream, round_trip_s)
    try:
        asyncio.run_coroutine_threadsafe(proxy.__aenter__(), loop).result()
        try:
            yield proxy
        finally:
            asyncio.run_coroutine_threadsafe(proxy.__aexit__(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
