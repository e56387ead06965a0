"""Pub/Sub's low-level asynchronous clients: on the service, or on the emulator PUBSUB_EMULATOR_HOST names.

The high-level publisher batches in threads of its own, which a letter that holds up an acknowledgement has no use
for. Streaming pull does use the high-level client (`ingress/pull.py`), for its leases.
"""

from __future__ import annotations

import os
from typing import Any

import grpc
from google.pubsub_v1.services.publisher import PublisherAsyncClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcAsyncIOTransport
from google.pubsub_v1.services.subscriber import SubscriberAsyncClient
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcAsyncIOTransport

PUBSUB_EMULATOR_VARIABLE = "PUBSUB_EMULATOR_HOST"


def emulator() -> str | None:
    """Where the emulator is; None where it is the service."""
    return os.environ.get(PUBSUB_EMULATOR_VARIABLE) or None


def open_publisher(credentials: Any = None) -> PublisherAsyncClient:
    """Must be called on the event loop that will use it."""
    host = emulator()
    if host is None:
        return PublisherAsyncClient(credentials=credentials)
    return PublisherAsyncClient(transport=PublisherGrpcAsyncIOTransport(channel=grpc.aio.insecure_channel(host)))


def open_subscriber() -> SubscriberAsyncClient:
    """Must be called on the event loop that will use it."""
    host = emulator()
    if host is None:
        return SubscriberAsyncClient()
    return SubscriberAsyncClient(transport=SubscriberGrpcAsyncIOTransport(channel=grpc.aio.insecure_channel(host)))


def full_name(kind: str, name: str, project: str) -> str:
    """`projects/P/topics/T` of a topic's id; a path stays as it is. The same for subscriptions."""
    return name if "/" in name else f"projects/{project}/{kind}/{name}"
