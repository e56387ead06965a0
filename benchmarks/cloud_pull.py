"""The measured run by pull: subscriptions full of messages, and `millpond pull` on them."""

from __future__ import annotations

import datetime as dt
import re
import sys
import time
from itertools import cycle
from pathlib import Path

import msgspec
from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient  # type: ignore[import-untyped]
from google.cloud.pubsub_v1.types import BatchSettings  # type: ignore[import-untyped]

from benchmarks import cloud_verify
from benchmarks.cloud_messages import TOPIC, Message
from benchmarks.cloud_results import PULL_AT_ONCE, Run
from benchmarks.cloud_setting import Cloud
from benchmarks.processes import BenchError, Server

# The emulator gives each stream 100 messages every 50 ms. With one stream that would be the result.
_SUBSCRIPTIONS = tuple(f"bench-{number}" for number in range(4))
_ACK_DEADLINE_S = 60
_POLL_S = 0.1
_PER_SECOND_MIN = 50
_START_S = 60
_BATCH = BatchSettings(max_messages=500, max_latency=0.01)


class _Line(msgspec.Struct):
    """The fields used from a line of the service's log; lines that are not about a message have no id."""

    timestamp: dt.datetime
    messageId: str | None = None  # noqa: N815 - as it stands there
    outcome: str = ""
    latency_ms: float = 0.0


def pull(cloud: Cloud, documents: int, count: int) -> Run:
    messages = cloud.messages(documents, count)
    with cloud.project() as project:
        sent = _publish(project, messages)
        options = [word for name in _SUBSCRIPTIONS for word in ("--subscription", name)]
        command = (sys.executable, "-m", "millpond", "pull", *options)
        settings = {
            "PUBSUB_EMULATOR_HOST": cloud.pubsub,
            "CONSUMER_QUEUE_SIZE": str(PULL_AT_ONCE),
            # The client library takes no attribute of the name `topic`.
            "SOURCE_TOPIC": TOPIC,
        }
        busy = cloud.watch_machine()
        with cloud.server(project, cloud.firestore, settings, command) as server:
            _wait_until_settled(server, count)
            machine_busy = busy()
            commits = server.metric("millpond_commits_total")
            lines = _read_log(cloud.log_of(project), count)
        began = min(line.timestamp - dt.timedelta(milliseconds=line.latency_ms) for line in lines)
        ended = max(line.timestamp for line in lines)
        return Run(
            kind="pull",
            documents=documents,
            sent=count,
            done=count,
            seconds=(ended - began).total_seconds(),
            commits=round(commits),
            machine_busy=machine_busy,
            faults=cloud_verify.find_faults(project, sent, {message.message_id for message in sent}),
        )


def _publish(project: str, messages: list[Message]) -> list[Message]:
    """Fill the subscriptions in turns. Returns the messages with the ids that Pub/Sub gave them."""
    # The client finds the emulator by PUBSUB_EMULATOR_HOST.
    publisher, subscriber = PublisherClient(batch_settings=_BATCH), SubscriberClient()
    topics = [publisher.topic_path(project, name) for name in _SUBSCRIPTIONS]
    for topic, name in zip(topics, _SUBSCRIPTIONS, strict=True):
        publisher.create_topic(name=topic)
        path = subscriber.subscription_path(project, name)
        subscriber.create_subscription(name=path, topic=topic, ack_deadline_seconds=_ACK_DEADLINE_S)
    names = [
        publisher.publish(topic, message.data()) for message, topic in zip(messages, cycle(topics), strict=False)
    ]
    sent = [message._replace(message_id=name.result()) for message, name in zip(messages, names, strict=True)]
    publisher.stop()
    subscriber.close()
    return sent


def _wait_until_settled(server: Server, count: int) -> None:
    """Wait until `count` messages were applied or stale; redeliveries are neither."""
    give_up_at = time.monotonic() + _START_S + count / _PER_SECOND_MIN
    settled = 0
    while settled < count:
        if time.monotonic() > give_up_at:
            raise BenchError(f"millpond pull had settled {settled} of {count} messages when its time was up")
        time.sleep(_POLL_S)
        found = re.findall(
            r'^millpond_messages_total\{.*outcome="(?:applied|stale_ignored)".*\} (\S+)$',
            server.get("/metrics").decode(),
            re.MULTILINE,
        )
        settled = sum(int(float(n)) for n in found)


def _read_log(log: Path, count: int) -> list[_Line]:
    """The log lines of the messages: exact times, without the cost of polling the server."""
    lines: list[_Line] = []
    for _ in range(50):
        written = [text for text in log.read_bytes().splitlines(keepends=True) if text[:1] == b"{"]
        lines = [msgspec.json.decode(text, type=_Line) for text in written if text.endswith(b"\n")]
        lines = [line for line in lines if line.messageId is not None and line.outcome != "duplicate"]
        if len(lines) >= count:
            return lines
        # The log's own thread writes them a moment later.
        time.sleep(_POLL_S)
    raise BenchError(f"millpond pull logged {len(lines)} of {count} messages")
