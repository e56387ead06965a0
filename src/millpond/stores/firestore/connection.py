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
from google.api_core.exceptions import DeadlineExceeded
from google.cloud.firestore_v1.services.firestore import FirestoreAsyncClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcAsyncIOTransport
from google.cloud.firestore_v1.types import (
    BatchGetDocumentsRequest,
    BatchGetDocumentsResponse,
    CommitRequest,
    CommitResponse,
)

from millpond.gcp.credentials import find_credentials
from millpond.gcp.emulators import FIRESTORE_EMULATOR_VARIABLE, find_emulator
from millpond.stores.firestore.clock import FirestoreClock
from millpond.stores.firestore.counted_channel import CountedChannel
from millpond.stores.firestore.names import Names
from millpond.stores.firestore.operations import Bill
from millpond.stores.operations import Operations

_CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", 30_000),
    # By default gRPC waits up to two minutes before it reconnects.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


class Connection:
    def __init__(self, names: Names, deadline_s: float) -> None:
        self.emulator = find_emulator(FIRESTORE_EMULATOR_VARIABLE)
        owner = [("authorization", "Bearer owner")] if self.emulator else []
        self.metadata: Sequence[tuple[str, str]] = [("google-cloud-resource-prefix", names.database), *owner]
        # What was billed, over all connections that replace one another.
        self.operations = Operations()
        self._bill = Bill(self.operations, names)
        self.clock = FirestoreClock()
        self._deadline_s = deadline_s
        self._credentials = None
        if self.emulator is None:
            self._credentials = find_credentials(FirestoreGrpcAsyncIOTransport.AUTH_SCOPES, "for Google Cloud")
        self._client: FirestoreAsyncClient | None = None
        self._answered_at = 0.0

    def client(self) -> FirestoreAsyncClient:
        """The client. It is made on first use, because it is bound to the event loop."""
        if self._client is None:
            # Not a backoff, but the time gRPC gives a new connection, handshakes included: as long as a call has.
            options = (*_CHANNEL_OPTIONS, ("grpc.min_reconnect_backoff_ms", round(self._deadline_s * 1_000)))
            if self.emulator:
                channel = grpc.aio.insecure_channel(self.emulator, options=options)
            else:
                channel = FirestoreGrpcAsyncIOTransport.create_channel(
                    credentials=self._credentials, options=options
                )
            counted = CountedChannel(channel, self._bill)
            self._client = FirestoreAsyncClient(transport=FirestoreGrpcAsyncIOTransport(channel=counted))
        return self._client

    async def commit(self, request: Any) -> Any:
        sent_ns = time.time_ns()
        async with self._watched() as client:
            answer = await client.commit(
                request=CommitRequest.wrap(request), retry=None, timeout=self._deadline_s, metadata=self.metadata
            )
        raw = CommitResponse.pb(answer)
        self.clock.learn(raw.commit_time, sent_ns)
        return raw

    async def batch_get(self, request: Any) -> list[Any]:
        sent_ns = time.time_ns()
        async with self._watched() as client:
            answers = await client.batch_get_documents(
                request=BatchGetDocumentsRequest.wrap(request),
                retry=None,
                timeout=self._deadline_s,
                metadata=self.metadata,
            )
            found = [BatchGetDocumentsResponse.pb(answer) async for answer in answers]
        if found:
            self.clock.learn(found[0].read_time, sent_ns)
        return found

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.transport.close()  # type: ignore[no-untyped-call]

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[FirestoreAsyncClient]:
        """Close the connection if a call timed out and no other call was answered meanwhile.

        If a router on the way dropped the connection silently, every call on it times out, while a new connection
        works at once. If other calls are answered, Firestore is only slow.
        """
        loop = asyncio.get_running_loop()
        client, began = self.client(), loop.time()
        try:
            yield client
        except DeadlineExceeded:
            if self._answered_at < began and client is self._client:
                await self.close()
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # gRPC cancels the calls on a connection that is closed. Their callers did not ask for that.
            error = DeadlineExceeded("another call timed out, and its connection was closed")  # type: ignore[no-untyped-call]
            raise error from None
        self._answered_at = loop.time()
