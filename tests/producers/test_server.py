"""What producers send, through a real server: a process, HTTP, the embedded store."""

from __future__ import annotations

from typing import Any

import pytest

from tests.common.push import push_body
from tests.common.server import Server, Start
from tests.producers.cases import Case, check, load


@pytest.fixture(scope="module")
def servers(start: Start) -> dict[tuple[Any, ...], Server]:
    """Cases with the same settings share a server, but for those that count what there is."""
    del start
    return {}


@pytest.mark.parametrize("case", load("producers/producers.json"), ids=lambda case: case.name)
def test_a_producer_is_understood(case: Case, start: Start, servers: dict[tuple[Any, ...], Server]) -> None:
    """Outcomes, documents, and what is not there."""
    key = (case.name if case.count else "", *sorted(case.environment.items()))
    if key not in servers:
        servers[key] = start(**case.environment)
    server = servers[key]
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
        # Without a dead-letter policy poison is buried, and answered 200: what was wrong stands in its letter.
        assert answer.status == 200, answer
        answers.append((answer.json["outcome"], answer.json["reason"], ""))
    if case.error:
        (letter,) = [found for found in server.letters() if found["messageId"] == case.messages[-1].messageId]
        answers[-1] = (*answers[-1][:2], letter["error"])
    check(case, answers, everything(server, case))


def everything(server: Server, case: Case) -> dict[str, Any]:
    """Each document the case is about; where it counts, every one there is."""
    named = {*case.documents, *case.without, *case.absent}
    paths = named | set(server.documents(tuple(case.count)))
    found = {path: server.document(path) for path in sorted(paths)}
    return {path: document for path, document in found.items() if document is not None}
