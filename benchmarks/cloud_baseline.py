"""The textbook consumer, beside which Millpond is measured: one Firestore transaction per message, eight threads.

It reads the receipt and the document, then writes both. It is called directly: no HTTP, no decoding, no logging. If
the client gives up, the message is tried again, as Pub/Sub would.

    python -m benchmarks.cloud_baseline FILE SECONDS PROJECT    FILE: messages (MessagePack); SECONDS: when to stop
"""

from __future__ import annotations

import collections
import sys
import threading
import time
from pathlib import Path

import msgspec
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore_v1 import SERVER_TIMESTAMP, Client, DocumentReference, Transaction, transactional

from benchmarks.cloud_messages import TOPIC, Message

THREADS = 8


class Report(msgspec.Struct):
    """Messages done within the time. `attempts` are transactions begun, `failures` the client's final errors."""

    done: list[str]
    seconds: float
    attempts: int
    failures: dict[str, int]


class _TimeUp(Exception):
    """The time is up: no further transaction begins."""


class _Run:
    def __init__(self, client: Client, messages: list[Message], limit_s: float) -> None:
        self._client = client
        self._left = iter(messages)
        self._total = len(messages)
        self._lock = threading.Lock()
        self._began = time.perf_counter()
        self._until = self._began + limit_s
        self._limit_s = limit_s
        self._attempts = 0
        self._failures: collections.Counter[str] = collections.Counter()
        self._done: list[tuple[str, float]] = []

    def work(self) -> None:
        while True:
            with self._lock:
                message = next(self._left, None)
            if message is None or not self._consume(message):
                return

    def report(self) -> Report:
        """A run that was cut off uses the whole limit as its time; a finished one, the time it took."""
        done = [name for name, at in self._done if at <= self._until]
        finished = len(done) == self._total
        seconds = max(at for _, at in self._done) - self._began if finished else self._limit_s
        return Report(done, seconds, self._attempts, dict(self._failures))

    def _consume(self, message: Message) -> bool:
        """Try until it is done; False if the time was up before."""
        while True:
            try:
                self._transact(message)
            except _TimeUp:
                return False
            except (ValueError, GoogleAPICallError) as error:
                # The client raises ValueError after five aborted attempts.
                with self._lock:
                    self._failures[type(error).__name__] += 1
                continue
            with self._lock:
                self._done.append((message.message_id, time.perf_counter()))
            return True

    def _transact(self, message: Message) -> None:
        dedupe = self._client.collection("ops_dedupe").document(message.message_id)
        service = self._client.collection("ops_services").document(message.document_id)

        def attempt(transaction: Transaction) -> None:
            if time.perf_counter() > self._until:
                raise _TimeUp
            with self._lock:
                self._attempts += 1
            _apply(transaction, dedupe, service, message)

        # One decorated function for each message: the decorator keeps the transaction it retries, and would mix
        # those of several threads.
        transactional(attempt)(self._client.transaction())


def _apply(
    transaction: Transaction, dedupe: DocumentReference, service: DocumentReference, message: Message
) -> None:
    if dedupe.get(transaction=transaction).exists:
        return
    existing = service.get(transaction=transaction).to_dict() or {}
    transaction.create(dedupe, {"createdAt": SERVER_TIMESTAMP, "messageId": message.message_id})
    known = [existing[name] for name in ("lastHeartbeatAt", "updatedAt") if name in existing]
    if known and message.at < max(known):
        return
    source = {"topic": TOPIC, "messageId": message.message_id, "publishedAt": message.at}
    transaction.set(service, {**message.fields(), "source": source})


def main(file: str, limit_s: str, project: str) -> None:
    messages = msgspec.msgpack.decode(Path(file).read_bytes(), type=list[Message])
    # The client finds the emulator by FIRESTORE_EMULATOR_HOST.
    client = Client(project=project, credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
    run = _Run(client, messages, float(limit_s))
    threads = [threading.Thread(target=run.work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.buffer.write(msgspec.json.encode(run.report()))


if __name__ == "__main__":
    main(*sys.argv[1:])
