"""Messages that can be identified and can never succeed: one entry each, two rows each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.acceptance.bad_requests import METADATA, Row, Send
from tests.common.push import ABSENT, MARKER, changed, encoded, push_body, tick


class Poison(NamedTuple):
    """A message that is right in form and wrong in content."""

    name: str
    data: Any
    reason: str
    topic: str | None = "market-ticks"
    # Fields of the message to change; ABSENT leaves one out.
    changes: Mapping[str, Any] = {}
    severity: str = "ERROR"
    # A refused write is buried whatever the policy: no redelivery can heal it, and no other consumer may.
    always_buried: bool = False
    subscription: str = "projects/local/subscriptions/acceptance"

    def body(self, message_id: str, attempt: int | None) -> dict[str, Any]:
        body = push_body(
            self.data, message_id=message_id, topic=self.topic, attempt=attempt, subscription=self.subscription
        )
        return changed(body, **self.changes)

    def rows(self) -> Iterator[Row]:
        yield Row(
            self.name, self._send(None), 200, self.reason, self.severity, message_id=f"{self.name}/-", buried=True
        )
        yield Row(
            f"{self.name} [with deliveryAttempt]",
            self._send(5),
            200 if self.always_buried else 400,
            self.reason,
            self.severity,
            message_id=f"{self.name}/5",
            buried=self.always_buried,
        )

    def _send(self, attempt: int | None) -> Send:
        return lambda server: server.push(self.body(f"{self.name}/{attempt or '-'}", attempt))


# One of each kind: `tests/core` and `tests/views` have every other.
WRONG_DATA = [
    Poison("data not JSON", MARKER.encode(), "invalid_json"),
    Poison("NaN", b'{"symbol":"SPY","price":NaN}', "invalid_json"),
    Poison("lone surrogate, escaped", rb'{"symbol":"SPY","x":"\ud800"}', "invalid_json"),
    Poison("data with text for an object", MARKER, "not_an_object"),
    Poison("data absent without attributes", b"", "missing_data", topic=None, changes={"data": ABSENT}),
    Poison("depth bomb", b'{"symbol":"SPY","x":%s}' % (b"[" * 100_000 + b"]" * 100_000), "too_deep"),
    Poison("2^64 for an event id", tick(eventId=2**64), "integer_out_of_range"),
    Poison("base64 with junk at the end", b"", "invalid_base64", changes={"data": encoded(tick()) + "!"}),
    Poison("base64 of padding alone", b"", "invalid_base64", changes={"data": "===="}),
    Poison("topic found nowhere", tick(), "unroutable_payload", None),
    Poison("topic that no view feeds on", tick(), "unroutable_payload", "weather"),
    Poison("signal id of 2,000 bytes", {"signalId": "x" * 2_000}, "id_too_long", "trade-signals"),
    Poison("symbol an object", tick(symbol={"a": MARKER}), "invalid_event"),
    Poison("time a word", tick(ts=MARKER), "invalid_event"),
    Poison("signal that nothing identifies", {"note": MARKER}, "invalid_event", "trade-signals"),
    Poison(
        "subscription of 2,000 bytes, so that the letter's id is too long",
        MARKER.encode(),
        "invalid_json",
        subscription="projects/local/subscriptions/" + "s" * 2_000,
    ),
]
REFUSED_WRITES = [
    Poison(
        name,
        {"pipeline_id": "big", **data},
        "write_refused",
        "ingest-heartbeat",
        severity="ALERT",
        always_buried=True,
    )
    for name, data in (
        ("a legal payload of 10 MB, more than a document may hold", {"x": "y" * 10_000_000}),
        ("a legal payload of 500,000 numbers", {"x": list(range(500_000))}),
        ("a legal payload of 100,000 fields", {f"field-{n}": n for n in range(100_000)}),
    )
]
POISON = [*WRONG_DATA, *REFUSED_WRITES]
UNWRAPPED_POISON = [
    Row(
        f"unwrapped with {name}",
        lambda server, data=data, name=name: server.push(  # type: ignore[misc]
            data, {**METADATA, "x-goog-pubsub-message-id": f"unwrapped {name}"}
        ),
        200,
        reason,
        message_id=f"unwrapped {name}",
        buried=True,
    )
    for name, data, reason in (
        ("an empty body", b"", "missing_data"),
        ("a body that is not JSON", MARKER.encode(), "invalid_json"),
        ("base64 for a body", encoded(tick()).encode(), "invalid_json"),
        ("a byte order mark", b"\xef\xbb\xbf" + json.dumps(tick()).encode(), "invalid_json"),
        ("a list for a body", b"[]", "not_an_object"),
    )
]


# Both as long as they may be, and three times that once they are escaped for the letter's id.
LONG_LETTER_ID = Row(
    "subscription and message id too long together for a letter's id",
    lambda server: server.push(
        push_body(MARKER.encode(), message_id="%" * 256, subscription="projects/local/subscriptions/" + "%" * 255)
    ),
    200,
    "invalid_json",
    message_id="%" * 256,
    buried=True,
)
MESSAGES = [*UNWRAPPED_POISON, LONG_LETTER_ID, *(row for poison in POISON for row in poison.rows())]
