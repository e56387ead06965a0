"""What producers send: every case through the pure core, and a few through a process, HTTP and a store."""

from __future__ import annotations

from typing import Any

import pytest

from tests.common.push import push_body
from tests.common.server import Server, Start
from tests.producers.cases import Case, check, check_in_core, load

CASES = load("producers/producers.json")
# One with an envelope, one with settings, poison, one that counts documents, and one routed by its subscription.
ON_A_SERVER = (
    "an enveloped system event: the envelope's git_sha is the version of last resort",
    "BARS_ID=event needs neither symbol nor time",
    "a system event's producedAt that cannot be read is poison",
    "signals that differ in their time only are different signals; a republished one is the same",
    "a subscription that is named after a topic routes there",
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_producer_is_understood(case: Case) -> None:
    """Outcomes, documents, and what is not there."""
    check_in_core(case)


@pytest.mark.parametrize("name", ON_A_SERVER)
def test_a_producer_is_understood_by_a_server(name: str, start: Start) -> None:
    """The same answers and documents as in the core."""
    (case,) = (case for case in CASES if case.name == name)
    server = start(**case.environment)
    answers = []
    for message in case.messages:
        answer = server.push(
            push_body(
                message.data,
                message_id=message.messageId,
                published=message.publishTime,
                attributes=message.attributes,
                subscription=message.subscription,
            )
        )
        # Without a dead-letter policy poison is buried, and answered 200.
        assert answer.status == 200, answer
        answers.append((answer.json["outcome"], answer.json["reason"], ""))
    check(case, answers, everything(server, case))


def everything(server: Server, case: Case) -> dict[str, Any]:
    """Each document the case is about; where it counts, every one there is."""
    named = {*case.documents, *case.without, *case.absent}
    paths = named | set(server.documents(tuple(case.count)))
    found = {path: server.document(path) for path in sorted(paths)}
    return {path: document for path, document in found.items() if document is not None}
