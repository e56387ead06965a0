"""Finds names in a view that Millpond does not know: a misspelt attribute or method would be ignored in silence.

Pure. Called when a view is loaded. Users add names of their own, so the rule is narrow. These are never a mistake:

- a name that begins with `_`, a constant in CAPITALS, a field of a dataclass
- a name that a method of the view uses

Of all other names these are a mistake:

- an attribute of the class that is neither method, property nor class
- a method or property whose name is a slip away from that of a method (`documnt`, `key_off`)
- an attribute that `__init__` sets, if its name is a slip away from that of an attribute (`self.topcs`)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from functools import cached_property, partialmethod
from types import CodeType
from typing import Any, Final, NamedTuple

from millpond.core.view import Latest, Merge, Tally, View

KINDS: Final = (Latest, Merge, Tally)
_OURS = frozenset({View, *KINDS, object})
# They set attributes, so that they mention one does not mean that it is used.
_CONSTRUCTORS = frozenset({"__init__", "__post_init__"})
# From this length on, two slips are likelier than another word.
_LONG_NAME = 8
# How similar a known name must be to be suggested for an attribute that is a mistake anyway.
_ALIKE = 0.7


class UnknownName(NamedTuple):
    """A name that is a mistake, and the known name that was probably meant."""

    fault: str
    meant: str | None = None


def _public_names(kind: type[View]) -> frozenset[str]:
    names = {
        name for owner in kind.__mro__[:-1] for name in (*vars(owner), *vars(owner).get("__annotations__", ()))
    }
    return frozenset(name for name in names if not name.startswith("_"))


# The names of each kind, derived from the classes, so that a new attribute or method is known at once.
NAMES_OF: Final = {kind: _public_names(kind) for kind in (View, *KINDS)}
METHODS_OF: Final = {
    kind: frozenset(name for name in names if callable(getattr(kind, name, None)))
    for kind, names in NAMES_OF.items()
}


def unknown_in_class(own: type[View], kind: type[View]) -> Iterator[UnknownName]:
    """The mistakes among the names that a view's class, or a base of it, declares."""
    used = _names_used(own, without=frozenset())
    seen: set[str] = set()
    for owner in _own_classes(own):
        for name, value in vars(owner).items():
            if name not in seen and name not in used and not _is_fine(own, kind, name):
                seen.add(name)
                yield from _fault_in_class(kind, owner, name, value)


def unknown_in_object(view: View, kind: type[View]) -> Iterator[UnknownName]:
    """The mistakes among the names that a view's constructor sets."""
    own = type(view)
    for name in vars(view):
        if _is_fine(own, kind, name) or name in _names_used(own, without=_CONSTRUCTORS):
            continue
        meant = slip_of(name, NAMES_OF[kind] - METHODS_OF[kind])
        if meant is not None:
            yield _unknown(name, meant)


def resembling(own: type[View], known_name: str) -> str | None:
    """A name of the class, private or in use, that resembles a known one: for a hint if that one is missing."""
    names = [name for owner in _own_classes(own) for name in vars(owner)]
    return next((name for name in names if name != known_name and slip_of(name, [known_name])), None)


def slip_of(name: str, known: Iterable[str]) -> str | None:
    """The known name that this one is a slip away from: a letter missing, added, wrong or swapped; other case."""
    plain = _plain(name)
    for other in sorted(known):
        limit = 1 if len(other) < _LONG_NAME else 2
        if abs(len(plain) - len(_plain(other))) <= limit and _distance(plain, _plain(other)) <= limit:
            return other
    return None


def _fault_in_class(kind: type[View], owner: type, name: str, value: Any) -> Iterator[UnknownName]:
    other = next((other for other in KINDS if name in NAMES_OF[other]), None)
    if other is not None:
        text = f"{name}() is a method of {other.__name__}, and this is a {kind.__name__}"
        yield UnknownName(f"{text}: subclass {other.__name__}, or rename it", next(iter(_own_method(kind))))
    elif issubclass(owner, View) and not (callable(value) or hasattr(type(value), "__get__")):
        plain = {_plain(one): one for one in sorted(NAMES_OF[kind])}
        close = difflib.get_close_matches(_plain(name), plain, 1, _ALIKE)
        yield _unknown(name, plain[close[0]] if close else None)
    elif (meant := slip_of(name, METHODS_OF[kind])) is not None:
        yield _unknown(name, meant)


def _own_method(kind: type[View]) -> frozenset[str]:
    return METHODS_OF[kind] - METHODS_OF[View]


def _unknown(name: str, meant: str | None) -> UnknownName:
    hint = f"did you mean {meant}?" if meant else "is it misspelt?"
    return UnknownName(f"{name} is unknown: {hint} (a name of your own begins with _)", meant)


def _is_fine(own: type[View], kind: type[View], name: str) -> bool:
    """Whether a name is known, or cannot be meant for Millpond."""
    fields = getattr(own, "__dataclass_fields__", ())
    return name in NAMES_OF[kind] or name.startswith("_") or name.isupper() or name in fields


def _own_classes(kind: type) -> list[type]:
    return [owner for owner in kind.__mro__ if owner not in _OURS]


def _names_used(kind: type, without: frozenset[str]) -> frozenset[str]:
    """The names that the code of the view's methods mentions; a method that calls only itself does not count."""
    found: set[str] = set()
    for owner in _own_classes(kind):
        for name, value in vars(owner).items():
            if name not in without:
                found.update(used for code in _codes_of(value) for used in _names_in(code) if used != name)
    return frozenset(found)


def _codes_of(value: Any) -> Iterator[CodeType]:
    functions = [value]
    if isinstance(value, property):
        functions = [value.fget, value.fset, value.fdel]
    elif isinstance(value, classmethod | staticmethod):
        functions = [value.__func__]
    elif isinstance(value, cached_property | partialmethod):
        functions = [value.func]
    for function in functions:
        # Decorators usually keep the function that they wrap.
        inner = function
        while inner is not None:
            if isinstance(code := getattr(inner, "__code__", None), CodeType):
                yield code
            inner = getattr(inner, "__wrapped__", None)


def _names_in(code: CodeType) -> set[str]:
    """Also in functions inside the function."""
    inner = [_names_in(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inner)


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _distance(one: str, other: str) -> int:
    """How many letters must be added, removed, replaced or swapped with the next to turn one into the other."""
    rows: list[list[int]] = [list(range(len(other) + 1))]
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]
