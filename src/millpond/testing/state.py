"""Which variables a view's methods changed: attributes of the object and its class, defaults, module globals.

Only to name a culprit that was found by its effect: a view may keep a cache that changes no answer.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any

from millpond.core.view import Latest, Merge, Tally, View

_PLAIN = (list, dict, set, frozenset, tuple, int, float, str, bytes, Counter, OrderedDict, defaultdict, deque)
_KINDS = (View, Latest, Merge, Tally, object)


def photograph(view: View) -> dict[str, str]:
    """The text of every variable that may hold state, by the name a user knows it by."""
    return {name: _text(value) for name, value in _variables(view)}


def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _variables(view: View) -> Iterator[tuple[str, Any]]:
    for name, value in vars(view).items():
        yield f"self.{name}", value
    for kind in type(view).__mro__:
        if kind in _KINDS:
            continue
        for name, value in vars(kind).items():
            if isinstance(value, _PLAIN) and not name.startswith("__"):
                yield f"{kind.__name__}.{name}", value
            for default in (getattr(value, "__defaults__", None) or ()) if callable(value) else ():
                if isinstance(default, list | dict | set):
                    yield f"a default argument of {name}()", default
        module = sys.modules.get(kind.__module__)
        for name, value in vars(module).items() if module is not None else ():
            if isinstance(value, _PLAIN) and not name.startswith("__"):
                yield name, value


def _text(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - an object of the user's
        return object.__repr__(value)
