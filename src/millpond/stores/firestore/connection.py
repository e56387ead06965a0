"""The connection to Firestore: the client, the deadline of calls, and when a connection is replaced.

It never retries a call: the engine decides whether to try again, and what to read first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.api_core.exceptions import DeadlineExceeded, from_grpc_error
from google.api_core.gapic_v1.routing_header import to_grpc_metadata
from google.cloud.firestore_v1.services.firestore import FirestoreAsyncClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcAsyncIOTransport
from google.cloud.firestore_v1.services.firestore.transports.base import DEFAULT_CLIENT_INFO
from google.cloud.firestore_v1.types import (
    BatchGetDocumentsRequest,
    BatchGetDocumentsResponse,
    CommitRequest,
    CommitResponse,
)
from grpc import StatusCode

from millpond.gcp.credentials import find_credentials
from millpond.gcp.emulators import FIRESTORE_EMULATOR_VARIABLE, find_emulator
from millpond.stores.firestore.clock import FirestoreClock
from millpond.stores.firestore.counted_channel import CountedChannel
from millpond.stores.firestore.names import Names
from millpond.stores.firestore.operations import Bill
from millpond.stores.operations import Operations

_SERVICE = "/google.firestore.v1.Firestore"
# What Google's client adds to every call by itself: which library calls, and which database is meant.
_LIBRARY = DEFAULT_CLIENT_INFO.to_grpc_metadata()  # type: ignore[no-untyped-call]
_CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", 30_000),
    # By default gRPC waits up to two minutes before it reconnects.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


class _Opened:
    """A channel, and what is called on it.

    Reads and commits go without Google's client: its wrappers would take a third of the processor time of a read.
    """

    def __init__(self, channel: CountedChannel) -> None:
        self.channel = channel
        self.client = FirestoreAsyncClient(transport=FirestoreGrpcAsyncIOTransport(channel=channel))
        self.commit = channel.unary_unary(
            f"{_SERVICE}/Commit", CommitRequest.pb().SerializeToString, CommitResponse.pb().FromString
        )
        self.batch_get = channel.unary_stream(
            f"{_SERVICE}/BatchGetDocuments",
            BatchGetDocumentsRequest.pb().SerializeToString,
            BatchGetDocumentsResponse.pb().FromString,
        )


class Connection:
    def __init__(self, names: Names, deadline_s: float) -> None:
        self.emulator = find_emulator(FIRESTORE_EMULATOR_VARIABLE)
        owner = [("authorization", "Bearer owner")] if self.emulator else []
        self.metadata: Sequence[tuple[str, str]] = [("google-cloud-resource-prefix", names.database), *owner]
        database = to_grpc_metadata([("database", names.database)])  # type: ignore[no-untyped-call]
        self._call_metadata = [*self.metadata, database, _LIBRARY]
        # What was billed, over all connections that replace one another.
        self.operations = Operations()
        self._bill = Bill(self.operations, names)
        self.clock = FirestoreClock()
        self._deadline_s = deadline_s
        self._credentials = None
        if self.emulator is None:
            self._credentials = find_credentials(FirestoreGrpcAsyncIOTransport.AUTH_SCOPES, "for Google Cloud")
        self._opened: _Opened | None = None
        self._answered_at = 0.0

    def client(self) -> FirestoreAsyncClient:
        """Google's client, for queries. It is made on first use, because it is bound to the event loop."""
        return self._open().client

    def _open(self) -> _Opened:
        if self._opened is None:
            # Not a backoff, but the time gRPC gives a new connection, handshakes included: as long as a call has.
            options = (*_CHANNEL_OPTIONS, ("grpc.min_reconnect_backoff_ms", round(self._deadline_s * 1_000)))
            if self.emulator:
                channel = grpc.aio.insecure_channel(self.emulator, options=options)
            else:
                channel = FirestoreGrpcAsyncIOTransport.create_channel(
                    credentials=self._credentials, options=options
                )
            self._opened = _Opened(CountedChannel(channel, self._bill))
        return self._opened

    async def commit(self, request: Any) -> Any:
        """`request` and answer are protobuf messages, without the client's wrappers."""
        sent_ns = time.time_ns()
        async with self._watched() as opened:
            answer = await opened.commit(request, timeout=self._deadline_s, metadata=self._call_metadata)
        self.clock.learn(answer.commit_time, sent_ns)
        return answer

    async def batch_get(self, request: Any) -> list[Any]:
        """As `commit`. One answer for each document."""
        sent_ns = time.time_ns()
        async with self._watched() as opened:
            answers = opened.batch_get(request, timeout=self._deadline_s, metadata=self._call_metadata)
            found = [answer async for answer in answers]
        if found:
            self.clock.learn(found[0].read_time, sent_ns)
        return found

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.channel.close()

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[_Opened]:
        """Raise Google's exceptions. Close the connection if a call timed out and no other was answered meanwhile.

        If a router on the way dropped the connection silently, every call on it times out, while a new connection
        works at once. If other calls are answered, Firestore is only slow.
        """
        loop = asyncio.get_running_loop()
        opened, began = self._open(), loop.time()
        try:
            yield opened
        # What is raised has no name here: it would hold its traceback, and that the whole request, in a cycle.
        except grpc.aio.AioRpcError as refused:
            timed_out = refused.code() is StatusCode.DEADLINE_EXCEEDED
            if timed_out and self._answered_at < began and opened is self._opened:
                await self.close()
            raise from_grpc_error(refused) from refused  # type: ignore[no-untyped-call]
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # gRPC cancels the calls on a connection that is closed. Their callers did not ask for that.
            raise DeadlineExceeded("another call timed out, and its connection was closed") from None  # type: ignore[no-untyped-call]
        self._answered_at = loop.time()
