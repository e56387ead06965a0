"""Cases in the shapes that producers send: settings, messages, and the documents that must follow.

`producers.json` is the specification's own list; `neighbours.json` has the cases next to each of its rules. Both
are data, so that the pure core and a real server are asked the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

SETTINGS = {"ENV": "prod", "DEFAULT_REGION": "eu", "SYSTEM_EVENTS_TOPIC": "system.events"}


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    data: dict[str, Any]
    messageId: str  # noqa: N815 - the wire's names
    publishTime: str = "2026-01-08T12:00:10Z"  # noqa: N815
    attributes: dict[str, str] = {}
    subscription: str = "projects/p/subscriptions/s"

    @property
    def raw(self) -> bytes:
        return json.dumps(self.data).encode()


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


def load(name: str) -> list[Case]:
    return msgspec.json.decode((Path(__file__).parent / name).read_bytes(), type=list[Case])


def all_cases() -> list[Case]:
    return [*load("producers.json"), *load("neighbours.json")]


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
