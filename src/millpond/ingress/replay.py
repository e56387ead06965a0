"""A dead-letter subscription, read to its end: each message once, acknowledged only when it has succeeded.

What fails again stays in the subscription, so that nothing is ever in two dead-letter places, or in none.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from google.api_core.exceptions import DeadlineExceeded, GoogleAPICallError
from google.auth.exceptions import GoogleAuthError
from google.pubsub_v1.services.subscriber import SubscriberAsyncClient
from google.pubsub_v1.types import PubsubMessage, ReceivedMessage

from millpond.errors import AccessDenied, Unavailable
from millpond.gcp import open_subscriber
from millpond.letters.attributes import restore
from millpond.model import Delivery
from millpond.timestamps import SECOND_US

# Whether the message has succeeded, and may leave the subscription.
Send = Callable[[Delivery], Awaitable[bool]]
_PULL_MAX = 100
_PULL_S = 3.0
_CALL_S = 30.0
# Long enough for a page of messages to be settled, and for those that failed not to come back meanwhile.
_LEASE_S = 600
# An empty answer does not mean that there is nothing; this many in a row do.
_EMPTY_MAX = 2


async def replay_all(subscription: str, send: Send, *, limit: int | None, at_once: int) -> int:
    """Send every message of the subscription, restored to what it was; how many there were."""
    seen: set[str] = set()
    kept: list[str] = []
    async with _connected(subscription) as client:
        try:
            empty = 0
            while empty < _EMPTY_MAX and (limit is None or len(seen) < limit):
                room = _PULL_MAX if limit is None else min(_PULL_MAX, limit - len(seen))
                page = await _pull(client, subscription, room)
                fresh = [one for one in page if one.message.message_id not in seen]
                kept += [one.ack_id for one in page if one.message.message_id in seen]
                empty = 0 if fresh else empty + 1
                seen.update(one.message.message_id for one in fresh)
                done = await _send_page(fresh, subscription, send, at_once)
                await _acknowledge(client, subscription, [one.ack_id for one in fresh if one.ack_id in done])
                kept += [one.ack_id for one in fresh if one.ack_id not in done]
        finally:
            # Given back at once, instead of after the lease.
            await _lease(client, subscription, kept, 0)
    return len(seen)


async def _send_page(page: Sequence[ReceivedMessage], subscription: str, send: Send, at_once: int) -> set[str]:
    slots = asyncio.Semaphore(at_once)
    done: set[str] = set()

    async def one(received: ReceivedMessage) -> None:
        async with slots:
            if await send(restore(_delivery(received, subscription))):
                done.add(received.ack_id)

    # All of them end before the first error goes on: what succeeded has to be acknowledged, or comes again.
    for error in await asyncio.gather(*map(one, page), return_exceptions=True):
        if error is not None:
            raise error
    return done


def _delivery(received: ReceivedMessage, subscription: str) -> Delivery:
    message = received.message
    published = PubsubMessage.pb(message).publish_time
    return Delivery(
        message_id=message.message_id,
        publish_time=published.seconds * SECOND_US + published.nanos // 1_000,
        data=message.data or None,
        attributes=dict(message.attributes),
        subscription=subscription,
        ordering_key=message.ordering_key or None,
    )


async def _pull(client: SubscriberAsyncClient, subscription: str, most: int) -> Sequence[ReceivedMessage]:
    try:
        answer = await client.pull(subscription=subscription, max_messages=most, retry=None, timeout=_PULL_S)
    except DeadlineExceeded:
        return []
    received = list(answer.received_messages)
    await _lease(client, subscription, [one.ack_id for one in received], _LEASE_S)
    return received


async def _lease(client: SubscriberAsyncClient, subscription: str, ack_ids: list[str], seconds: int) -> None:
    if ack_ids:
        await client.modify_ack_deadline(
            subscription=subscription, ack_ids=ack_ids, ack_deadline_seconds=seconds, timeout=_CALL_S
        )


async def _acknowledge(client: SubscriberAsyncClient, subscription: str, ack_ids: list[str]) -> None:
    if ack_ids:
        await client.acknowledge(subscription=subscription, ack_ids=ack_ids, timeout=_CALL_S)


@contextlib.asynccontextmanager
async def _connected(subscription: str) -> AsyncIterator[SubscriberAsyncClient]:
    client = None
    try:
        client = open_subscriber()
        yield client
    except GoogleAuthError as error:
        raise AccessDenied(f"no credentials for Pub/Sub: {' '.join(str(error).split())[:300]}") from None
    except GoogleAPICallError as error:
        raise Unavailable(f"{subscription}: {type(error).__name__}: {error.message}") from None
    finally:
        if client is not None:
            await client.transport.close()  # type: ignore[no-untyped-call]
