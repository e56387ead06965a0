"""Cases in the shapes that producers send: settings, messages, and the documents that must follow.

They are data, so that the core and a real server can be asked the same. `producers.json` is the specification's own
list; the cases next to each of its rules lie in `tests/views` and, for routing, in `tests/core`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from millpond.core import timestamps
from millpond.core.errors import Poison
from millpond.core.model import Delivery
from tests.common.pond import Pond

_TESTS = Path(__file__).parent.parent
SETTINGS = {"ENV": "prod", "DEFAULT_REGION": "eu", "SYSTEM_EVENTS_TOPIC": "system.events"}


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    data: dict[str, Any]
    messageId: str  # noqa: N815 - the wire's names
    publishTime: str = "2026-01-08T12:00:10Z"  # noqa: N815
    attributes: dict[str, str] = {}
    subscription: str = "projects/p/subscriptions/s"

    @property
    def delivery(self) -> Delivery:
        return Delivery(
            message_id=self.messageId,
            publish_time=timestamps.parse(self.publishTime, "publishTime"),
            data=json.dumps(self.data).encode(),
            attributes=self.attributes,
            subscription=self.subscription,
        )


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`documents` hold a subset of fields, `count` how many documents a collection has."""

    name: str
    messages: tuple[Message, ...]
    settings: dict[str, str] = {}
    outcomes: tuple[str, ...] = ()
    # What the reason of each message is, and a text that must stand in the error of the last.
    reasons: tuple[str, ...] = ()
    error: str = ""
    documents: dict[str, dict[str, Any]] = {}
    # Fields that a document must not have.
    without: dict[str, tuple[str, ...]] = {}
    absent: tuple[str, ...] = ()
    count: dict[str, int] = {}

    @property
    def environment(self) -> dict[str, str]:
        return {**SETTINGS, **self.settings}


def load(path: str) -> list[Case]:
    """The cases of a file, by its path below `tests`."""
    return msgspec.json.decode((_TESTS / path).read_bytes(), type=list[Case])


def check_in_core(case: Case) -> None:
    """Route and plan, one message after the other; then outcomes, documents, and what is not there."""
    pond = Pond(None, **case.environment)
    answers = [_sent(pond, message.delivery) for message in case.messages]
    check(case, answers, msgspec.json.decode(msgspec.json.encode(pond.state())))


def _sent(pond: Pond, message: Delivery) -> tuple[str, str, str]:
    """Outcome, reason and error."""
    pond.now = message.publish_time
    fault = pond.route(message).fault
    if fault is not None:
        return "poison" if isinstance(fault, Poison) else "retry", fault.reason, str(fault)
    (result,) = pond.send(message)
    return str(result.outcome), result.reason, ""


def check(case: Case, answers: list[tuple[str, str, str]], documents: Mapping[str, Any]) -> None:
    """`answers` are outcome, reason and error of each message; `documents` everything there is, as JSON."""
    outcomes = tuple(outcome for outcome, _, _ in answers)
    if case.outcomes:
        assert outcomes == case.outcomes, answers
    if case.reasons:
        assert tuple(reason for _, reason, _ in answers) == case.reasons
    if case.error:
        assert case.error in answers[-1][2]
    for path, fields in case.documents.items():
        assert path in documents, sorted(documents)
        assert_holds(documents[path], fields, path)
    for path, names in case.without.items():
        assert not documents[path].keys() & set(names), documents[path]
    for path in case.absent:
        assert path not in documents
    for collection, n in case.count.items():
        assert len([path for path in documents if path.rpartition("/")[0] == collection]) == n, sorted(documents)


def assert_holds(found: Any, wanted: Any, where: str) -> None:
    """`found` has everything of `wanted`, to any depth; numbers may be 1 or 1.0, as JSON has it."""
    if isinstance(wanted, dict):
        assert isinstance(found, dict), f"{where}: {found!r}"
        for name, value in wanted.items():
            assert name in found, f"{where} has no {name}: {found}"
            assert_holds(found[name], value, f"{where}.{name}")
    else:
        assert found == wanted, f"{where}: {found!r}, not {wanted!r}"
