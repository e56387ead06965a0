"""The real broker's emulator, as the tests see it: topics, subscriptions, and what lies in them."""

from __future__ import annotations

import json
import time
from typing import Any

import grpc
from google.api_core.exceptions import DeadlineExceeded
from google.protobuf import duration_pb2, field_mask_pb2
from google.pubsub_v1.services.publisher import PublisherClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber import SubscriberClient
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport
from google.pubsub_v1.types import PubsubMessage, ReceivedMessage

from tests.common.waiting import PATIENCE_S

# The least the service allows; the emulator holds to it, too.
ATTEMPTS = 5


class Broker:
    """Clients of the emulator for one project."""

    def __init__(self, project: str, emulator: str) -> None:
        self.project = project
        self.emulator = emulator
        self._channel = grpc.insecure_channel(emulator)
        self.publisher = PublisherClient(transport=PublisherGrpcTransport(channel=self._channel))
        self.subscriber = SubscriberClient(transport=SubscriberGrpcTransport(channel=self._channel))

    def close(self) -> None:
        self._channel.close()

    def topic(self, name: str) -> str:
        path = f"projects/{self.project}/topics/{name}"
        self.publisher.create_topic(name=path)
        return path

    def subscription(self, name: str, topic: str, **settings: Any) -> str:
        path = f"projects/{self.project}/subscriptions/{name}"
        self.subscriber.create_subscription(request={"name": path, "topic": topic, **settings})
        return path

    def pushing(self, name: str, topic: str, url: str, *, unwrapped: bool = False, dead: str | None = None) -> str:
        """A push subscription to a running Millpond, that tries again quickly."""
        config: dict[str, Any] = {"push_endpoint": f"{url}/pubsub/push"}
        if unwrapped:
            config["no_wrapper"] = {"write_metadata": True}
        settings: dict[str, Any] = {"push_config": config, "retry_policy": quick_retries()}
        if dead is not None:
            settings["dead_letter_policy"] = {"dead_letter_topic": dead, "max_delivery_attempts": ATTEMPTS}
        return self.subscription(name, topic, **settings)

    def stop_pushing(self, subscription: str) -> None:
        """From now on the subscription only collects."""
        self.subscriber.update_subscription(
            request={
                "subscription": {"name": subscription, "push_config": {}},
                "update_mask": field_mask_pb2.FieldMask(paths=["push_config"]),
            }
        )

    def publish(self, topic: str, payload: Any, /, **attributes: str) -> str:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        message = PubsubMessage(data=data, attributes=attributes)
        return self.publisher.publish(topic=topic, messages=[message]).message_ids[0]

    def look(self, subscription: str, count: int = 1) -> list[ReceivedMessage]:
        """`count` messages of a subscription, left there."""
        found: dict[str, ReceivedMessage] = {}
        until = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < until:
            try:
                answer = self.subscriber.pull(
                    request={"subscription": subscription, "max_messages": 100}, retry=None, timeout=2
                )
            except DeadlineExceeded:
                continue
            for received in answer.received_messages:
                found[received.message.message_id] = received
        if found:
            self.subscriber.modify_ack_deadline(
                request={
                    "subscription": subscription,
                    "ack_ids": [received.ack_id for received in found.values()],
                    "ack_deadline_seconds": 0,
                }
            )
        return list(found.values())

    def is_empty(self, subscription: str) -> bool:
        try:
            answer = self.subscriber.pull(
                request={"subscription": subscription, "max_messages": 1}, retry=None, timeout=2
            )
        except DeadlineExceeded:
            return True
        return not answer.received_messages


def quick_retries() -> dict[str, duration_pb2.Duration]:
    return {
        "minimum_backoff": duration_pb2.Duration(nanos=100_000_000),
        "maximum_backoff": duration_pb2.Duration(seconds=1),
    }
