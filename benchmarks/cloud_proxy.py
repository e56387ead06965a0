"""A gRPC proxy in front of the Firestore emulator that counts: calls by method, documents read, documents written.

It passes bytes on and knows nothing of Millpond, so both sides are counted by the same rule, outside of either.

    python -m benchmarks.cloud_proxy UPSTREAM    prints the port it listens on
"""

from __future__ import annotations

import asyncio
import collections
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import msgspec
from google.cloud.firestore_v1.types import BatchGetDocumentsResponse, CommitRequest, RunQueryResponse

COUNTS_METHOD = "/benchmarks.Counts/Get"
_OPTIONS = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
_COMMIT = CommitRequest.pb()
_BATCH_GET = BatchGetDocumentsResponse.pb()
_RUN_QUERY = RunQueryResponse.pb()
# Set anew by each side of the proxy.
_HOP_BY_HOP = frozenset({"user-agent", "te", "content-type"})


class Counts(msgspec.Struct):
    """As Firestore bills: documents asked for, also such as do not exist, and writes of commits that succeeded."""

    calls: dict[str, int] = msgspec.field(default_factory=dict)
    reads: int = 0
    writes: int = 0

    @property
    def rpcs(self) -> int:
        return sum(self.calls.values())

    def since(self, earlier: Counts) -> Counts:
        calls = {name: n - earlier.calls.get(name, 0) for name, n in self.calls.items()}
        calls = {name: n for name, n in calls.items() if n}
        return Counts(calls, self.reads - earlier.reads, self.writes - earlier.writes)


def ask(address: str) -> Counts:
    """What the proxy at `address` has counted so far."""
    with grpc.insecure_channel(address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(COUNTS_METHOD)
        return msgspec.json.decode(call(b"", timeout=10), type=Counts)


Relay = Callable[[bytes, Any], AsyncIterator[bytes]]


class _Proxy(grpc.GenericRpcHandler):
    def __init__(self, upstream: grpc.aio.Channel) -> None:
        self._upstream = upstream
        self._calls: collections.Counter[str] = collections.Counter()
        self._reads = self._writes = 0

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        method = handler_call_details.method
        if method == COUNTS_METHOD:
            return grpc.unary_unary_rpc_method_handler(self._answer)
        # On the wire one answer is a stream of one, so the one handler serves every method the two sides use.
        return grpc.unary_stream_rpc_method_handler(self._relay(method))

    async def _answer(self, _: bytes, __: Any) -> bytes:
        return msgspec.json.encode(Counts(dict(self._calls), self._reads, self._writes))

    def _relay(self, method: str) -> Relay:
        name = method.rpartition("/")[2]
        call: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._upstream.unary_stream(method)

        async def relay(request: bytes, context: Any) -> AsyncIterator[bytes]:
            self._calls[name] += 1
            metadata = [(key, value) for key, value in context.invocation_metadata() if key not in _HOP_BY_HOP]
            try:
                async for answer in call(request, metadata=metadata, timeout=context.time_remaining()):
                    self._count(name, request, answer)
                    yield answer
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "", error.trailing_metadata())

        return relay

    def _count(self, name: str, request: bytes, answer: bytes) -> None:
        if name == "Commit":
            self._writes += len(_COMMIT.FromString(request).writes)
        elif name == "BatchGetDocuments":
            # An answer may also tell nothing but a new transaction's id.
            self._reads += _BATCH_GET.FromString(answer).WhichOneof("result") is not None
        elif name == "RunQuery":
            self._reads += _RUN_QUERY.FromString(answer).HasField("document")


async def _serve(upstream: str) -> None:
    async with grpc.aio.insecure_channel(upstream, options=_OPTIONS) as channel:
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers([_Proxy(channel)])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        print(port, flush=True)
        await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
