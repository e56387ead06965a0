"""The messages every row sends, what they fold into, and whether a store holds what one of them is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millpond.core.model import Delivery, Document
from millpond.core.view import Merge, Tally
from millpond.dead_letters.store import letter_ref
from millpond.service.views import load_views
from tests.common.pond import Orders, Pond, at, order, service, signal
from tests.wire.onlooker import Seen

ENVIRONMENT = {"ENV": "test", "SYSTEM_EVENTS_TOPIC": "system.events", "DEFAULT_REGION": "local"}
# What another instance has done before: so the first read finds documents, and the first commit replaces some.
PRIOR: Sequence[Delivery] = (
    order("p1", 7, -3),
    service("p2", 0, "prior", 0),
    signal("p3", 0, updatedAt=at(0), state="new", action="buy"),
)
# One batch of seven: alone, newer, older (out of order), once more a tally, its redelivery, its republished copy,
# and a merge. Halving it twice leaves the first message alone, as the third try.
_SOLD = order("m4", 5, -1)
FIRST: Sequence[Delivery] = (
    order("m1", 10, 0),
    service("m2", 2, "newer", 2),
    service("m3", 1, "older", 1),
    _SOLD,
    _SOLD,
    order("m5", 5, -1, publish_s=3),
    signal("m6", 4, updatedAt=at(4), state="filled", symbol="SPY"),
)


def more(number: int) -> Delivery:
    """One more event that only counts."""
    return order(f"more-{number}", 1, -10 - number, publish_s=number)


def pond() -> Pond:
    """The pure pipeline, with the views of the service under test."""
    empty = Pond(None, **ENVIRONMENT)
    return Pond([*load_views(empty.settings), Orders()], **ENVIRONMENT)


def fold(messages: Sequence[Delivery]) -> Mapping[str, Document]:
    """The documents of these messages, taken one at a time in the order they were published."""
    folded = pond()
    for message in sorted(messages, key=lambda message: (message.publish_time, message.message_id)):
        folded.send(message)
    return folded.state()


class Holdings:
    """Whether what a message is about is in the store: its effect, a greater one, or its letter."""

    def __init__(self) -> None:
        self._pond = pond()

    def lacks(self, message: Delivery, found: Mapping[str, Seen]) -> str | None:
        """What should be there and is not; None where a 200 is right."""
        if letter_ref(message).path in found:
            return None
        for target in self._pond.route(message).targets:
            document = found.get(target.path)
            if document is None:
                return f"{message.message_id}: no {target.path}"
            if isinstance(target.view, Tally):
                receipts = sum(path.startswith("ops_dedupe/test__orders__") for path in found)
                if target.receipt is None or target.receipt.path not in found:
                    return f"{message.message_id}: no receipt"
                if document.data["count"] != receipts:
                    return f"{message.message_id}: {document.data['count']} counted, {receipts} receipts"
            elif not _is_as_great(target, document.data):
                return f"{message.message_id}: {target.path} is older"
        return None


def _is_as_great(target: Any, document: Document) -> bool:
    if isinstance(target.view, Merge):
        holders = {name: group["stamp"] for group in document["source"]["stamps"] for name in group["fields"]}
        return all(holders.get(name, "") >= target.stamp for name in target.content if name != "source")
    return bool(document["source"]["stamp"] >= target.stamp)
