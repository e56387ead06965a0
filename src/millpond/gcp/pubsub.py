"""Pub/Sub's low-level asynchronous clients, for the service or for the emulator in PUBSUB_EMULATOR_HOST.

The high-level publisher collects batches in threads, which would only delay a letter that an acknowledgement waits
for. Streaming pull uses the high-level client (`ingress/pull.py`), because it manages leases.
"""

from __future__ import annotations

from typing import Any

import grpc
from google.pubsub_v1.services.publisher import PublisherAsyncClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcAsyncIOTransport
from google.pubsub_v1.services.subscriber import SubscriberAsyncClient
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcAsyncIOTransport

from millpond.gcp.emulators import PUBSUB_EMULATOR_VARIABLE, find_emulator


def open_publisher(credentials: Any = None) -> PublisherAsyncClient:
    """Must be called on the event loop that will use it."""
    host = find_emulator(PUBSUB_EMULATOR_VARIABLE)
    if host is None:
        return PublisherAsyncClient(credentials=credentials)
    return PublisherAsyncClient(transport=PublisherGrpcAsyncIOTransport(channel=grpc.aio.insecure_channel(host)))


def open_subscriber() -> SubscriberAsyncClient:
    """Must be called on the event loop that will use it."""
    host = find_emulator(PUBSUB_EMULATOR_VARIABLE)
    if host is None:
        return SubscriberAsyncClient()
    return SubscriberAsyncClient(transport=SubscriberGrpcAsyncIOTransport(channel=grpc.aio.insecure_channel(host)))
