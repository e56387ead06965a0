"""What producers send, through the pure core: route and plan, one message after the other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from millpond.core import timestamps
from millpond.core.errors import Poison
from millpond.core.model import Delivery, Result
from millpond.core.route import Item
from tests.common.pond import Pond
from tests.producers.cases import Case, Message, all_cases, check


def delivery_of(message: Message) -> Delivery:
    return Delivery(
        message_id=message.messageId,
        publish_time=timestamps.parse(message.publishTime, "publishTime"),
        data=message.raw,
        attributes=message.attributes,
        subscription=message.subscription,
    )


def send(pond: Pond, message: Message) -> tuple[str, str, str]:
    """Outcome, reason and error."""
    pond.now = timestamps.parse(message.publishTime, "publishTime")
    item: Item = pond.route(delivery_of(message))
    if item.fault is not None:
        return ("poison" if isinstance(item.fault, Poison) else "retry", item.fault.reason, str(item.fault))
    result: Result = pond.send(delivery_of(message))[0]
    return str(result.outcome), result.reason, ""


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_a_producer_is_understood(case: Case) -> None:
    """Outcomes, documents, and what is not there."""
    pond = Pond(None, **case.environment)
    answers = [send(pond, message) for message in case.messages]
    documents: dict[str, Any] = {
        path: msgspec.json.decode(msgspec.json.encode(document)) for path, document in pond.state().items()
    }
    check(case, answers, documents)
