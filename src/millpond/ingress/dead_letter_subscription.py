"""Replays a dead-letter subscription to its end: each message once, acknowledged only if it succeeded.

A message that fails again stays in the subscription and is never buried as well: it is kept in exactly one place.
Called by `millpond dlq replay --subscription`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from google.api_core.exceptions import DeadlineExceeded, GoogleAPIError, ServiceUnavailable
from google.auth.exceptions import GoogleAuthError
from google.pubsub_v1.services.subscriber import SubscriberAsyncClient
from google.pubsub_v1.types import PubsubMessage, ReceivedMessage

from millpond.concurrency import raise_first, run_all
from millpond.core.errors import AccessDenied, Unavailable
from millpond.core.model import Delivery
from millpond.core.timestamps import SECOND_US
from millpond.dead_letters.pubsub_attributes import refusing_views, restore
from millpond.gcp.error_text import error_text
from millpond.gcp.pubsub import open_subscriber

# Sends a message to the named views, or to all for None. Returns whether it succeeded, and may be acknowledged.
Send = Callable[[Delivery, frozenset[str] | None], Awaitable[bool]]
_PULL_MAX = 100
_PULL_S = 3.0
_CALL_S = 30.0
# Long enough that failed messages do not come back before all others were tried.
_LEASE_S = 600
# One empty answer does not mean that the subscription is empty; this many in a row do.
_EMPTY_MAX = 2
# How often in a row Pub/Sub may be unavailable, and the pause after each time.
_AWAY_MAX = 3
_AWAY_S = 1.0
# Acknowledgement ids are long, and a request is limited to 512 KiB.
_IDS_MAX = 500


async def replay_all(subscription: str, send: Send, *, limit: int | None, at_once: int) -> int:
    """Send every message of the subscription in its original form. Returns how many there were."""
    async with _connected(subscription) as client:
        reader = _Reader(client, subscription)
        try:
            while reader.empty < _EMPTY_MAX and (limit is None or len(reader.seen) < limit):
                page = await reader.pull(_PULL_MAX if limit is None else min(_PULL_MAX, limit - len(reader.seen)))
                await _send_page(reader, page, send, at_once)
        finally:
            await reader.give_back()
    return len(reader.seen)


async def _send_page(reader: _Reader, page: Sequence[ReceivedMessage], send: Send, at_once: int) -> None:
    async def one(received: ReceivedMessage) -> bool:
        letter = _delivery(received, reader.subscription)
        return await send(restore(letter), refusing_views(letter))

    # Messages that succeeded are acknowledged before the first error is raised.
    results = await run_all(one, page, at_once)
    await reader.acknowledge([received for received, done in zip(page, results, strict=True) if done is True])
    raise_first(results)


class _Reader:
    """One subscription: which of its messages were seen, and which are still leased to us."""

    def __init__(self, client: SubscriberAsyncClient, subscription: str) -> None:
        self._client = client
        self.subscription = subscription
        self.seen: set[str] = set()
        self.empty = 0
        self._leased: dict[str, str] = {}
        self._away = 0

    async def pull(self, most: int) -> list[ReceivedMessage]:
        """Messages not seen before. For those that come back only the lease is extended."""
        try:
            answer = await self._client.pull(
                subscription=self.subscription, max_messages=most, retry=None, timeout=_PULL_S
            )
        except DeadlineExceeded:
            self.empty += 1
            return []
        except ServiceUnavailable:
            self._away += 1
            if self._away > _AWAY_MAX:
                raise
            await asyncio.sleep(_AWAY_S)
            return []
        self._away = 0
        received = list(answer.received_messages)
        self.empty = 0 if received else self.empty + 1
        self._leased.update({one.message.message_id: one.ack_id for one in received})
        await self._lease([one.ack_id for one in received], _LEASE_S)
        fresh = [one for one in received if one.message.message_id not in self.seen]
        self.seen.update(one.message.message_id for one in fresh)
        return fresh

    async def acknowledge(self, done: Sequence[ReceivedMessage]) -> None:
        if done:
            ids = [one.ack_id for one in done]
            await self._client.acknowledge(subscription=self.subscription, ack_ids=ids, timeout=_CALL_S)
        for one in done:
            del self._leased[one.message.message_id]

    async def give_back(self) -> None:
        """End the leases now, so that Pub/Sub can deliver the messages again. If that fails, they expire."""
        with contextlib.suppress(GoogleAPIError):
            await self._lease(list(self._leased.values()), 0)

    async def _lease(self, ack_ids: list[str], seconds: int) -> None:
        for at in range(0, len(ack_ids), _IDS_MAX):
            await self._client.modify_ack_deadline(
                subscription=self.subscription,
                ack_ids=ack_ids[at : at + _IDS_MAX],
                ack_deadline_seconds=seconds,
                timeout=_CALL_S,
            )


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


@contextlib.asynccontextmanager
async def _connected(subscription: str) -> AsyncIterator[SubscriberAsyncClient]:
    client = None
    try:
        client = open_subscriber()
        yield client
    except GoogleAuthError as error:
        raise AccessDenied(f"no credentials for Pub/Sub: {error_text(error)}") from None
    except GoogleAPIError as error:
        raise Unavailable(f"{subscription}: {type(error).__name__}: {error_text(error)}") from None
    finally:
        if client is not None:
            await client.transport.close()  # type: ignore[no-untyped-call]
