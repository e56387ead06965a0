"""Checks the declarations of views when they are loaded: a mistake is found at start, not at the first message.

Does no I/O. Called by everything that takes views: the loader of VIEWS, an embedded pond, the test kit. One error
has all mistakes of a view, and what to write instead. What a view may leave out (`name`) is completed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet

from millpond.core.collections import is_own, root_of
from millpond.core.declared_methods import method_faults
from millpond.core.declared_names import KINDS, resembling, unknown_in_class, unknown_in_object
from millpond.core.declared_values import default_name, value_faults
from millpond.core.errors import SettingsError
from millpond.core.view import METHOD_OF_KIND, Tally, View

_KIND_NAMES = "Latest, Merge or Tally"
# What every view must give, unless a method gives it, with an example.
_REQUIRED = {"topics": '("orders",)', "collection": '"orders"', "key": '"orderId"'}


class _ClassFaults(NamedTuple):
    faults: Sequence[str] = ()
    # The names that misspelt ones were meant to be.
    meant: frozenset[str | None] = frozenset()


# Classes without a fault, which are not examined again: a simulation loads its views thousands of times.
_sound: WeakSet[type] = WeakSet()


def check_declaration(view: Any, *, setting: str = "VIEWS") -> None:
    """Check one view by itself. Raises SettingsError, with `setting`, the class and all mistakes."""
    faults = list(_faults(view))
    if faults:
        raise SettingsError(setting, name_of(view), "; ".join(faults))
    # Times are looked up by the names of their fields, so these must be hashable.
    time = view.time if isinstance(view.time, str) else tuple(view.time)
    for name, value in (("name", default_name(view)), ("time", time)):
        if getattr(view, name) != value:
            try:
                setattr(view, name, value)
            except AttributeError:
                text = f"does not let its {name} be set: declare {name} = {value!r}, or do not freeze the class"
                raise SettingsError(setting, name_of(view), text) from None


def check_declarations(views: Sequence[Any], *, receipts_by_message: bool = False, setting: str = "VIEWS") -> None:
    """Check each view, and that no two contradict each other. `receipts_by_message`: RECEIPTS=message."""
    for view in views:
        check_declaration(view, setting=setting)
    for at, view in enumerate(views):
        fault = _conflict(view, views[:at], views)
        if fault is None and isinstance(view, Tally) and receipts_by_message:
            fault = "is a tally, which needs RECEIPTS=all or tallies: else an event may count twice"
        if fault is not None:
            raise SettingsError(setting, name_of(view), fault)


def name_of(view: Any) -> str:
    """Module and class, for errors."""
    kind = view if isinstance(view, type) else type(view)
    return f"{kind.__module__}.{kind.__qualname__}"


def _faults(view: Any) -> Iterator[str]:
    if isinstance(view, type):
        yield f"is a class, not a view: give an object, {view.__name__}()"
        return
    kinds = [kind for kind in KINDS if isinstance(view, kind)]
    if len(kinds) != 1:
        both = f", not {' and '.join(kind.__name__ for kind in kinds)}" if kinds else ""
        yield f"is no view: subclass one of {_KIND_NAMES}{both}"
        return
    (kind,) = kinds
    if view.kind != kind.kind:
        yield f"kind is set by {kind.__name__}: leave it out, or subclass another of {_KIND_NAMES}"
    faults, meant = _class_faults(type(view), kind)
    yield from faults
    for unknown in unknown_in_object(view, kind):
        yield unknown.fault
        meant |= {unknown.meant}
    yield from _missing(view, meant)
    yield from value_faults(view, kind)
    if isinstance(view, Tally):
        yield from _tally_faults(view)
    elif isinstance(view.order, str) and view.order and not (callable(view.adopt) or view.adopt):
        yield "order needs adopt: documents with stamps of another rule are adopted from their fields"


def _tally_faults(view: Tally) -> Iterator[str]:
    if view.receipts is False:
        yield "is a tally, which needs receipts = True: without, an event may count twice"
    if callable(view.adopt) or view.adopt:
        yield 'is a tally, which cannot adopt: it would count again what was counted before (existing = "replace"?)'
    if view.retention_days is not None:
        yield "is a tally, whose documents do not expire: leave retention_days out"


def _class_faults(own: type[View], kind: type[View]) -> _ClassFaults:
    """What is wrong with the class of a view."""
    if own in _sound:
        return _ClassFaults()
    unknown = list(unknown_in_class(own, kind))
    meant = frozenset(name.meant for name in unknown)
    faults = [name.fault for name in unknown]
    method = METHOD_OF_KIND[kind.kind]
    if getattr(own, method) is getattr(kind, method) and method not in meant:
        arguments = "event, current" if method == "fold" else "event"
        faults.append(f"must define {method}(self, {arguments}){_hint(own, method)}")
    faults += method_faults(own, kind)
    if not faults:
        _sound.add(own)
    return _ClassFaults(faults, meant)


def _missing(view: View, meant: frozenset[str | None]) -> Iterator[str]:
    """What a view must declare and does not; nothing that a misspelt name was meant to be."""
    own = type(view)
    has_id = own.key_of is not View.key_of or own.id_of is not View.id_of
    for name, example in _REQUIRED.items():
        if _is_absent(view, name) and name not in meant and not (name == "key" and has_id):
            yield f"needs {name}, for example {name} = {example}{_hint(own, name)}"


def _is_absent(view: View, name: str) -> bool:
    try:
        return getattr(view, name) in ((), [], "" if name == "collection" else ())
    except Exception:  # noqa: BLE001 - a property with a bug: `value_faults` reports it
        return False


def _hint(own: type[View], name: str) -> str:
    near = resembling(own, name)
    return f" (it has {near}: did you mean {name}?)" if near else ""


def _conflict(view: View, before: Sequence[View], all_views: Sequence[View]) -> str | None:
    """Why a view cannot be loaded together with those before it."""
    root = root_of(view.collection)
    if is_own(root):
        return f"writes to {root}, which is taken: it belongs to Millpond itself"
    for other in before:
        if root_of(other.collection) == root:
            return f"writes to {root}, which is taken: it belongs to the view {name_of(other)}"
        if other.name == view.name:
            return f'is named "{view.name}", and so is {name_of(other)}: set name'
    for event_type in view.event_types:
        for other in all_views:
            if other is view:
                continue
            if event_type in other.topics and event_type not in view.topics:
                return f'event_types has "{event_type}", which is a topic: {name_of(other)} feeds on it'
            # The first view that names an event type decides which topic it stands for.
            if other in before and event_type in other.event_types and other.topics[0] not in view.topics:
                there = f'stands for "{other.topics[0]}" already, by {name_of(other)}'
                return f'event_types has "{event_type}", which {there}: feed on that topic, or leave it out'
    return None
