"""What the tests of declarations share: a view with one mistake, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest

from millpond import Latest, View
from millpond.core.declarations import check_declaration
from millpond.core.errors import SettingsError
from millpond.core.view import METHOD_OF_KIND

REQUIRED: dict[str, Any] = {"topics": ("orders",), "collection": "orders", "key": "orderId"}


def declared(base: type[View] = Latest, **names: Any) -> Any:
    """An object of a class `Orders`: a healthy view with these names changed; `...` leaves a name out."""
    method = METHOD_OF_KIND[base.kind]
    given = {**REQUIRED, method: lambda *_: {}, **names}
    return type("Orders", (base,), {name: value for name, value in given.items() if value is not ...})()


def refusal(view: Any) -> str:
    """What is wrong with it, without the class."""
    with pytest.raises(SettingsError) as error:
        check_declaration(view)
    head, _, text = str(error.value).partition(": ")
    assert head == f"VIEWS={type(view).__module__}.{type(view).__qualname__}"
    return text


def function(text: str) -> Any:
    """A function from its source."""
    scope: dict[str, Any] = {}
    exec(text, scope)  # noqa: S102 - the tests' own text
    return next(value for name, value in scope.items() if name != "__builtins__")
