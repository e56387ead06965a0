"""The size of a document by Google's rules, and the indexes that are assumed."""

from __future__ import annotations

import datetime as dt

import pytest

from millpond.core.model import Ref
from millpond.cost.storage_size import UNINDEXED, document_bytes, index_bytes
from tests.docs.test_indexes import exempt, terraform

TASK = Ref("users/jeff/tasks", "my_task_id")


def test_the_example_of_googles_page() -> None:
    """A name of 44 bytes, fields of 71, and 32."""
    data = {"type": "Personal", "done": False, "priority": 1, "description": "Learn Cloud Firestore"}
    assert document_bytes(TASK, data) == 147


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (None, 1),
        (True, 1),
        (7, 8),
        (0.5, 8),
        (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), 8),
        (b"abc", 3),
        ("é", 3),
        ([1, "a"], 10),
        ({"a": 1}, 2 + 8 + 32),
    ],
)
def test_the_size_of_each_kind_of_value(value: object, size: int) -> None:
    """As the table of Google's page has them."""
    empty = document_bytes(TASK, {})
    assert document_bytes(TASK, {"v": value}) - empty == 2 + size


def test_index_entries() -> None:
    """Two for a value, one for each item of a list, those of a map for each of its fields; none if exempt."""
    around = 44 + 27 + 32
    assert index_bytes(TASK, {"done": False}) == 2 * (around + 5 + 1)
    assert index_bytes(TASK, {"tags": [1, 2, 3]}) == 3 * (around + 5 + 8)
    assert index_bytes(TASK, {"a": {"b": 1}}) == 2 * (around + 4 + 8)
    assert index_bytes(TASK, {"long": "x" * 9_000}) == 2 * (around + 5 + 1_500)
    assert index_bytes(TASK, {"expireAt": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}) == 0
    assert index_bytes(Ref("millpond_event_log", "x"), {"body": b"x"}) == 0


def test_the_exemptions_are_those_of_terraform() -> None:
    """A field that is exempt there, by default, is not counted here, and no other."""
    exempted = {name: fields - {"expireAt"} for name, fields in exempt(terraform()).items()}
    assert {name: set(fields) for name, fields in UNINDEXED.items()} == exempted
