"""A method of a view that Millpond cannot call, or that returns no value, is refused when the view is loaded."""

from __future__ import annotations

from typing import Any

import pytest

from millpond import Latest, Merge, Tally, View
from tests.core.declared import declared, function, refusal


@pytest.mark.parametrize(
    ("base", "source", "text"),
    [
        (Latest, "def document(self): ...", "must be def document(self, event), not def document(self)"),
        (Latest, "def document(): ...", "must be def document(self, event), not def document()"),
        (Latest, "def document(self, event, current): ...", "not def document(self, event, current)"),
        (Latest, "def document(self, *, event): ...", "not def document(self, *, event)"),
        (
            Latest,
            "async def document(self, event): ...",
            "must not be async: a view does no I/O. Write def document(",
        ),
        (Latest, "async def document(self, event): yield 1", "must not be async"),
        (Latest, "def document(self, event): yield 1", "must return its value, not yield it"),
        (Latest, "def key_of(self, event): yield 'a'", "must return its value, not yield it"),
        (Merge, "def fields(event): ...", "must be def fields(self, event), not def fields(event)"),
        (Tally, "def fold(self, event): ...", "must be def fold(self, event, current), not def fold(self, event)"),
        (Tally, "def fold(self, current, event): ...", "not def fold(self, current, event)"),
        (Tally, "def fold(self, state, event): ...", "not def fold(self, state, event)"),
        (Latest, "def wants(self): ...", "must be def wants(self, event), not def wants(self)"),
        (Latest, "def late_time_of(self, event): ...", "must be def late_time_of(self, event, order_time)"),
        (Latest, "def matches(self, payload, event): ...", "must be def matches(self, payload)"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith(("def", "async")) else "",
)
def test_a_method_that_cannot_be_called_is_refused(base: type[View], source: str, text: str) -> None:
    method = function(source)
    found = refusal(declared(base, **{method.__name__: method}))
    assert found.startswith(f"{method.__name__}() ")
    assert text in found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (staticmethod(function("def document(self, event): ...")), "@staticmethod def document(self, event)"),
        (property(lambda _: {}), "document must be a method, def document(self, event), not a property"),
        ({"id": 1}, "document must be a method, def document(self, event), not dict"),
        (None, "document must be a method, def document(self, event), not NoneType"),
    ],
    ids=["static", "property", "dict", "None"],
)
def test_a_method_that_is_none_is_refused(value: Any, text: str) -> None:
    assert text in refusal(declared(document=value))
