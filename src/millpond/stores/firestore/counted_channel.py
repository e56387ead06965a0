"""A gRPC channel that shows every call and answer to `operations`, so that no operation of this process is missed.

It stands between Google's client and gRPC's own channel, and returns gRPC's own call objects: errors, deadlines and
cancellation are gRPC's. It sees a request when it is sent, and an answer when it is decoded. `connection` makes it.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import grpc
from grpc import StatusCode

from millpond.stores.firestore.operations import COUNTED, Bill, Counting

# The server may have done what was asked, and billed it. After any other status it did nothing.
_UNKNOWN = frozenset(
    {
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.UNAVAILABLE,
        StatusCode.CANCELLED,
        StatusCode.UNKNOWN,
        StatusCode.INTERNAL,
        StatusCode.DATA_LOSS,
    }
)


class CountedChannel(grpc.aio.Channel):
    """gRPC's channel, with every call counted."""

    def __init__(self, channel: grpc.aio.Channel, bill: Bill) -> None:
        self.bill = bill
        self._channel = channel
        # Google's transport puts an interceptor here, which logs for debugging. It is not used: gRPC cancels an
        # intercepted call only when no reference to it is left, and whatever waits for its end holds one.
        self._unary_unary_interceptors: list[Any] = []

    def unary_unary(self, method: str, *serializers: Any, **more: Any) -> Any:
        return _UnaryUnary(self.bill, self._channel.unary_unary, method, *serializers, **more)

    def unary_stream(self, method: str, *serializers: Any, **more: Any) -> Any:
        return _UnaryStream(self.bill, self._channel.unary_stream, method, *serializers, **more)

    def stream_unary(self, *arguments: Any, **more: Any) -> Any:
        return self._channel.stream_unary(*arguments, **more)

    def stream_stream(self, *arguments: Any, **more: Any) -> Any:
        return self._channel.stream_stream(*arguments, **more)

    async def close(self, grace: float | None = None) -> None:
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> Any:
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: Any) -> None:
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channel.channel_ready()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Calls(ABC):
    """The calls of one method. Each has a decoder of its own, which sees its answers."""

    def __init__(
        self,
        bill: Bill,
        open_calls: Callable[..., Any],
        method: str,
        request_serializer: Any = None,
        response_deserializer: Any = None,
        **more: Any,
    ) -> None:
        self._bill = bill
        self._kind = COUNTED.get(method.rpartition("/")[2])
        self._decode: Any = response_deserializer
        self._open_calls = functools.partial(open_calls, method, request_serializer, **more)

    def __call__(self, request: Any, **options: Any) -> Any:
        if self._kind is None:
            return self._open_calls(self._decode)(request, **options)
        counting, decode = self._kind(self._bill, request), self._decode

        def decoded(raw: bytes) -> Any:
            answer = decode(raw)
            counting.take(answer)
            return answer

        call = self._open_calls(decoded)(request, **options)
        self._watch(call, counting)
        return call

    @abstractmethod
    def _watch(self, call: Any, counting: Counting) -> None:
        """Tell the counting when the call has ended."""


# Google's client tells the kinds of calls apart by these classes.


class _UnaryUnary(_Calls, grpc.aio.UnaryUnaryMultiCallable[Any, Any]):
    """Conflicts are common, and cost nothing: the status of a call without an answer is looked at."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        # A loop keeps only weak references to its tasks.
        self._looking: set[asyncio.Task[None]] = set()

    def _watch(self, call: Any, counting: Counting) -> None:
        call.add_done_callback(functools.partial(self._end, counting))

    def _end(self, counting: Counting, call: Any) -> None:
        # gRPC decodes the answer after this, in the same iteration of the event loop.
        asyncio.get_running_loop().call_soon(self._look, counting, call)

    def _look(self, counting: Counting, call: Any) -> None:
        if not counting.is_complete:
            task = asyncio.get_running_loop().create_task(_lose_unless_refused(counting, call))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)


class _UnaryStream(_Calls, grpc.aio.UnaryStreamMultiCallable[Any, Any]):
    """gRPC cancels a stream when no reference to it is left, so none is kept."""

    def _watch(self, call: Any, counting: Counting) -> None:
        weakref.finalize(call, _lose_rest, counting).atexit = False


async def _lose_unless_refused(counting: Counting, call: Any) -> None:
    if await call.code() in _UNKNOWN:
        counting.lose()


def _lose_rest(counting: Counting) -> None:
    if not counting.is_complete:
        counting.lose()
