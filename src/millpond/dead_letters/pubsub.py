"""Dead letters on a Pub/Sub topic: the data unchanged, with attributes that hold the delivery and the reason.

The engine calls it. A letter is published before its message is acknowledged; if that fails, the message stays with
its subscription. `ingress.dead_letter_subscription` reads letters back, for `millpond dlq replay --subscription`.
"""

from __future__ import annotations

import asyncio
import re

from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.api_core.retry import AsyncRetry
from google.auth.exceptions import GoogleAuthError
from google.pubsub_v1.services.publisher import PublisherAsyncClient
from google.pubsub_v1.types import PubsubMessage

from millpond.core.errors import Unavailable, gravest
from millpond.core.item import DeadLetter, Item
from millpond.core.model import Delivery
from millpond.core.ports import DeadLetterSink
from millpond.dead_letters.pubsub_attributes import VALUE_BYTES_MAX, describe
from millpond.gcp.credentials import find_credentials
from millpond.gcp.emulators import PUBSUB_EMULATOR_VARIABLE, find_emulator
from millpond.gcp.error_text import error_text
from millpond.gcp.pubsub import open_publisher
from millpond.gcp.resource_names import full_name

# Pub/Sub's limits. A letter that exceeds them is stored in the store instead.
ATTRIBUTES_MAX = 100
NAME_BYTES_MAX = 256
MESSAGE_BYTES_MAX = 10_000_000 - 64 * 1024
_PLACEHOLDER = "{subscription}"
_LEGAL = re.compile(r"[A-Za-z][A-Za-z0-9_.~+%-]{2,250}")


class PublishedLetters:
    """Publishes letters to `topic`: an id or a path, which may contain `{subscription}`."""

    def __init__(self, *, topic: str, project: str, deadline_s: float, otherwise: DeadLetterSink) -> None:
        self._topic = full_name("topics", topic, project)
        self._deadline_s = deadline_s
        self._otherwise = otherwise
        self._credentials = None
        if find_emulator(PUBSUB_EMULATOR_VARIABLE) is None:
            scopes = PublisherAsyncClient.get_transport_class().AUTH_SCOPES
            self._credentials = find_credentials(scopes, "to publish letters")
        self._client: PublisherAsyncClient | None = None

    async def write_letter(self, item: Item) -> DeadLetter:
        """Publish the letter; returns once Pub/Sub has stored it."""
        fault = gravest(item.faults)
        attributes = describe(item, fault)
        topic = self._topic_of(item.delivery)
        if topic is None or not _is_publishable(item.delivery, attributes):
            return await self._otherwise.write_letter(item)
        if self._client is None:
            self._client = open_publisher(self._credentials)
        message = PubsubMessage(data=item.delivery.data or b"", attributes=attributes)
        retry = AsyncRetry(timeout=self._deadline_s)
        try:
            # The client's deadline applies to each try; this one applies to all tries together.
            async with asyncio.timeout(self._deadline_s):
                await self._client.publish(topic=topic, messages=[message], retry=retry, timeout=self._deadline_s)
        except (GoogleAPICallError, GoogleAuthError, RetryError, TimeoutError) as error:
            name = getattr(getattr(error, "grpc_status_code", None), "name", type(error).__name__)
            text = f"publishing the letter to {topic} failed: {name}: {error_text(error)}"
            raise Unavailable(text, code=name) from error
        return DeadLetter(None, None, fault.reason)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.transport.close()  # type: ignore[no-untyped-call]

    def _topic_of(self, delivery: Delivery) -> str | None:
        if _PLACEHOLDER not in self._topic:
            return self._topic
        subscription = delivery.subscription.rpartition("/")[2]
        return self._topic.replace(_PLACEHOLDER, subscription) if _LEGAL.fullmatch(subscription) else None


def _is_publishable(delivery: Delivery, attributes: dict[str, str]) -> bool:
    size = len(delivery.data or b"")
    for name, value in attributes.items():
        name_bytes, value_bytes = len(name.encode()), len(value.encode())
        if not 0 < name_bytes <= NAME_BYTES_MAX or name.startswith("goog") or value_bytes > VALUE_BYTES_MAX:
            return False
        size += name_bytes + value_bytes
    return len(attributes) <= ATTRIBUTES_MAX and size <= MESSAGE_BYTES_MAX
