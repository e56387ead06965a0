"""Streaming pull: takes messages from Pub/Sub's client library, submits them to the engine, and acks or nacks them.

The library pulls, extends leases and sends acknowledgements in its own threads. All of our code runs on the event
loop. Never decides an outcome: a message is acknowledged when the engine has settled it. Run by `http.server` for
`millpond pull`.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from queue import Queue
from threading import Event
from typing import Any, NamedTuple, Protocol

from google.auth.exceptions import GoogleAuthError
from google.cloud.pubsub_v1 import SubscriberClient  # type: ignore[import-untyped]
from google.cloud.pubsub_v1.subscriber.scheduler import Scheduler  # type: ignore[import-untyped]
from google.cloud.pubsub_v1.types import FlowControl  # type: ignore[import-untyped]

from millpond.core import timestamps
from millpond.core.ack import ACK, settle_pull
from millpond.core.errors import InternalError, MillpondError, Overloaded
from millpond.core.model import Delivery, Outcome, Result
from millpond.engine.rules import ROOM_BYTES_MAX
from millpond.gcp.error_text import error_text
from millpond.service.service import Service

# Seconds after `stop`: until every message must be settled, and until its acknowledgement must be sent.
SETTLED_S = 5.5
CLOSED_S = 6.5
# The engine frees its queue one event-loop iteration after it has settled a batch.
ROOM_S = 0.001
# If no message of ours is in the engine, other sources fill its queue, and no callback announces free room: poll.
OTHERS_S = 0.1
ERROR_CHARS_MAX = 500


class Message(Protocol):
    """The part of the library's message that we use; the library has no type annotations."""

    message_id: str

    @property
    def data(self) -> bytes: ...
    @property
    def attributes(self) -> Mapping[str, str]: ...
    @property
    def publish_time(self) -> dt.datetime: ...
    @property
    def ordering_key(self) -> str: ...
    @property
    def delivery_attempt(self) -> int | None: ...
    def ack_with_response(self) -> Future[Any]: ...
    def nack_with_response(self) -> Future[Any]: ...


class Stream(Scheduler):  # type: ignore[misc]
    """Hands one subscription's messages from the library's threads to the event loop, with one wake-up for many.

    Replaces the library's own scheduler, whose threads would wake the event loop for every message.
    """

    def __init__(self, subscription: str, loop: asyncio.AbstractEventLoop) -> None:
        self.subscription = subscription
        self._loop = loop
        self._requests: Queue[Any] = Queue()
        self._arrived: deque[Callable[[], None]] = deque()
        self._wake_due = False
        # Not a count: changing a set is atomic across threads.
        self._under_way: set[Message] = set()
        self._closing = False
        self._settled = Event()

    @property
    def queue(self) -> Queue[Any]:
        """Messages put their acknowledgements here, and the library's dispatcher takes them."""
        return self._requests

    def schedule(self, callback: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """Called by the library's threads, with a message as the first argument."""
        self._under_way.add(args[0])
        self._arrived.append(partial(callback, *args, **kwargs))
        if not self._wake_due:
            self._wake_due = True
            # The event loop is closed: the process is ending, and the message's lease expires.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        # Reset first: a message that arrives from now on schedules another wake-up.
        self._wake_due = False
        while self._arrived:
            self._arrived.popleft()()

    def finish(self, message: Message) -> None:
        """The message is acknowledged, or given back. Called from any thread."""
        self._under_way.discard(message)
        if self._closing and not self._under_way:
            self._settled.set()

    def shutdown(self, await_msg_callbacks: bool = False) -> list[Message]:  # noqa: ARG002 - we always wait
        """Called by a thread of the library once it has stopped pulling; it sends the acknowledgements after this.

        Returns no messages to the library: the closing engine refuses those that had not begun, so they are nacked
        like all others.
        """
        self._closing = True
        if self._under_way:
            self._settled.wait(SETTLED_S)
        return []


class PulledMessage(NamedTuple):
    """One message on its way through the engine."""

    stream: Stream
    message: Message
    delivery: Delivery
    began: float


class Puller:
    """The streaming pulls of one process. All methods are called on the event loop."""

    def __init__(self, service: Service, subscriptions: Sequence[str]) -> None:
        self.subscriptions = tuple(dict.fromkeys(subscriptions))
        self.failed = False
        self._engine = service.engine
        self._log = service.log
        self._outcomes = service.outcomes
        self._client = _open_client()
        shares = len(self.subscriptions)
        self._flow_control = FlowControl(
            max_messages=max(1, service.engine.rules.queue_size // shares), max_bytes=ROOM_BYTES_MAX // shares
        )
        self._pulls: dict[str, Future[Any]] = {}
        self._stopping = False
        self._give_up_at = 0.0
        self._closed = asyncio.Event()
        # Messages in the engine, and messages that wait for room in its queue.
        self._begun = 0
        self._held: deque[PulledMessage] = deque()
        self._poll_due = False

    @property
    def welcome(self) -> str:
        return "Pulls " + ", ".join(self.subscriptions)

    def start(self, on_failure: Callable[[], None]) -> None:
        """Begin to pull. `on_failure` is called if a pull ends without `stop`."""
        self._loop = asyncio.get_running_loop()
        self._on_failure = on_failure
        for subscription in self.subscriptions:
            stream = Stream(subscription, self._loop)
            pull = self._client.subscribe(
                subscription,
                callback=partial(self._receive, stream),
                flow_control=self._flow_control,
                scheduler=stream,
                await_callbacks_on_shutdown=True,
            )
            self._pulls[subscription] = pull
            pull.add_done_callback(partial(self._on_pull_done, subscription))

    def stop(self) -> None:
        """Stop pulling. The engine settles the messages it has; the caller must drain it, too."""
        self._stopping = True
        self._give_up_at = self._loop.time() + CLOSED_S
        for pull in self._pulls.values():
            pull.cancel()

    async def closed(self) -> None:
        """Return when every acknowledgement was sent, or the time for it has run out."""
        try:
            async with asyncio.timeout_at(self._give_up_at):
                await self._closed.wait()
        except TimeoutError:
            # Closing the client now would wait for its threads, which are still trying to reach the broker.
            self._log.note("WARNING", "acknowledgements could not be sent in time: their messages come again")
        else:
            self._client.close()

    def _receive(self, stream: Stream, message: Message) -> None:
        arrival = PulledMessage(stream, message, to_delivery(message, stream.subscription), time.perf_counter())
        if self._held or not self._submit(arrival):
            self._held.append(arrival)
            if not self._begun:
                self._poll_later(OTHERS_S)

    def _submit(self, arrival: PulledMessage) -> bool:
        """False if the queue is full. The message is held here, and the library extends its lease."""
        self._begun += 1
        try:
            self._engine.submit(arrival.delivery, partial(self._settle, arrival))
        except Overloaded:
            self._begun -= 1
            return False
        except Exception as bug:  # noqa: BLE001 - after any failure the message must be nacked, to be delivered again
            self._settle(arrival, Result(Outcome.RETRY, InternalError.reason, error=InternalError(bug)))
        return True

    def _submit_held(self) -> None:
        self._poll_due = False
        while self._held and self._submit(self._held[0]):
            self._held.popleft()
        if self._held and not self._begun:
            self._poll_later(OTHERS_S)

    def _poll_later(self, delay_s: float) -> None:
        if not self._poll_due:
            self._poll_due = True
            self._loop.call_later(delay_s, self._submit_held)

    def _settle(self, arrival: PulledMessage, result: Result) -> None:
        self._begun -= 1
        message, delivery = arrival.message, arrival.delivery
        settlement = settle_pull(result)
        acknowledge = message.ack_with_response if settlement.ack_action == ACK else message.nack_with_response
        acknowledged = acknowledge()
        self._outcomes.publish(delivery, result, settlement, time.perf_counter() - arrival.began)
        # After the outcome is published, so that the log has the message's line first.
        acknowledged.add_done_callback(partial(self._check_acknowledged, arrival))
        if self._held:
            self._poll_later(ROOM_S)

    def _check_acknowledged(self, arrival: PulledMessage, answer: Future[Any]) -> None:
        """Called immediately; on exactly-once subscriptions by a thread of the library, with Pub/Sub's answer."""
        error = answer.exception()
        if error is not None:
            note = partial(self._note_unacknowledged, arrival.delivery, error)
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(note)
        arrival.stream.finish(arrival.message)

    def _note_unacknowledged(self, delivery: Delivery, error: BaseException) -> None:
        self._log.note(
            "WARNING",
            "the acknowledgement failed: the message may come again",
            messageId=delivery.message_id,
            subscription=delivery.subscription,
            **_described(error),
        )

    def _on_pull_done(self, subscription: str, pull: Future[Any]) -> None:
        """Called by a thread of the library when a pull is closed and its acknowledgements were sent."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end, subscription, pull.exception())

    def _end(self, subscription: str, error: BaseException | None) -> None:
        del self._pulls[subscription]
        if not self._pulls:
            self._closed.set()
        if not self._stopping:
            described = _described(error)
            text = f"the streaming pull of {subscription} ended: {described['error_code']}: {described['error']}"
            self._log.note("CRITICAL", text, subscription=subscription, **described)
            self.failed = True
            self._on_failure()


def to_delivery(message: Message, subscription: str) -> Delivery:
    return Delivery(
        message_id=message.message_id,
        publish_time=timestamps.from_datetime(message.publish_time),
        data=message.data or None,
        attributes=dict(message.attributes),
        subscription=subscription,
        ordering_key=message.ordering_key or None,
        attempt=message.delivery_attempt,
    )


def _open_client() -> Any:
    try:
        return SubscriberClient()
    except GoogleAuthError as error:
        raise MillpondError(f"no credentials for Pub/Sub: {error_text(error)}") from None


def _described(error: BaseException | None) -> dict[str, str]:
    """The log fields of a library error; that of an acknowledgement has its status in another attribute."""
    status = getattr(error, "error_code", None) or getattr(error, "grpc_status_code", None)
    return {
        "error_type": type(error).__name__,
        "error_code": getattr(status, "name", type(error).__name__),
        "error": error_text(error, ERROR_CHARS_MAX),
    }
