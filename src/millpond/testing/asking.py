"""Asks a view everything that the engine asks it about one event, in the same order, and keeps the answers.

The only module of the kit that calls a view's methods directly. Called by the probes and the reference.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from types import CodeType
from typing import Any

import msgspec

from millpond.core.document import same_value
from millpond.core.errors import Poison
from millpond.core.model import Delivery, Document, Event
from millpond.core.route import Router, RouteRules
from millpond.core.view import DELETE, METHOD_OF_KIND, Latest, Tally, View
from millpond.testing.watch import OutsideRead, watched

# In the order of the engine. The method of the kind comes last.
_STEPS = ("wants", "time_of", "sequence_of", "identity_time_of", "collection_of", "id_of")


class Raised(msgspec.Struct, frozen=True):
    """A method raised: InvalidEvent makes the event poison, anything else is a bug of the view."""

    method: str
    error: BaseException
    text: str
    where: str

    @property
    def is_poison(self) -> bool:
        return isinstance(self.error, Poison)


class Asked(msgspec.Struct, frozen=True):
    """What a view said about one event. `said` ends before the method that raised."""

    event: Event
    said: dict[str, Any]
    raised: Raised | None = None
    # The first method that changed the event.
    changed_by: str | None = None
    # What the methods read besides their arguments, if they were watched: method and reading.
    readings: Sequence[tuple[str, OutsideRead]] = ()

    @property
    def is_poison(self) -> bool:
        return self.raised is not None and self.raised.is_poison

    @property
    def content(self) -> Any:
        """What the method of the kind returned; None if it was not called."""
        return next((self.said[method] for method in METHOD_OF_KIND.values() if method in self.said), None)

    def differs_from(self, other: Asked) -> str | None:
        """The first method whose answer differs."""
        for method in {**self.said, **other.said}:
            if method not in self.said or method not in other.said:
                return method
            if not _same(self.said[method], other.said[method]):
                return method
        mine, theirs = self.raised, other.raised
        if (mine is None) != (theirs is None):
            return (mine or theirs).method  # type: ignore[union-attr]
        if mine is not None and theirs is not None and (mine.method, mine.text) != (theirs.method, theirs.text):
            return mine.method
        return None


class EventDecoder:
    """Deliveries → events, by the real decoder and topic rules; the view's own methods are not called."""

    def __init__(self, views: Sequence[View], rules: RouteRules) -> None:
        self._router = Router([_StandIn(view) for view in views], rules)

    def decode(self, delivery: Delivery) -> Event:
        """A new event, equal each time. Raises Poison if it is not for this view, or cannot be decoded."""
        item = self._router.route(delivery, delivery.publish_time)
        if item.event is None:
            assert item.fault is not None  # noqa: S101 - an item without an event has a fault
            raise item.fault
        return item.event

    def views_of(self, event: Event) -> list[View]:
        """The views that the event is for."""
        feeding = self._router.topics.feeding[event.topic]
        return [stand_in.view for stand_in in feeding if isinstance(stand_in, _StandIn)]


class _StandIn(Latest):
    def __init__(self, view: View) -> None:
        self.view = view
        self.name, self.topics, self.event_types = view.name, view.topics, view.event_types
        self.has_shape = type(view).matches is not View.matches

    def matches(self, payload: Any) -> bool:
        return self.has_shape and self.view.matches(payload)

    def wants(self, event: Event) -> bool:  # noqa: ARG002
        return False


def ask(view: View, decode: Callable[[], Event], *, watch: bool = False) -> Asked:
    """Ask about a new event. `watch`: note what the methods read, and add to the document as the engine does."""
    event, pristine = decode(), decode()
    said: dict[str, Any] = {}
    raised: Raised | None = None
    changed_by: str | None = None
    readings: list[tuple[str, OutsideRead]] = []
    for method in (*_STEPS, METHOD_OF_KIND[view.kind]):
        try:
            with watched(on=watch) as found:
                value = _call(view, method, event, said)
            said[method] = bool(value) if method == "wants" else _kept(value)
        except Exception as error:  # noqa: BLE001 - a view may raise anything
            raised = _raised(view, method, error)
        readings += [(method, reading) for reading in found]
        if changed_by is None and not _same_event(event, pristine):
            changed_by = method
        if raised is not None or said[method] is False:
            break
    if watch and type(value) is dict:
        value["source"] = {"messageId": event.message_id}
    return Asked(event, said, raised, changed_by, readings)


def fold_all(view: Tally, events: Iterable[Event]) -> tuple[Document, list[str]]:
    """The document after these events in this order, and what was raised: as the engine does, one at a time."""
    document: Document = {}
    refused: list[str] = []
    for event in events:
        try:
            document = _kept(dict(view.fold(event, copy.deepcopy(document))))
        except Exception as error:  # noqa: BLE001 - as above
            refused.append(f"{type(error).__name__} for {event.message_id}")
    return document, sorted(refused)


def _call(view: View, method: str, event: Event, said: dict[str, Any]) -> Any:
    if method == "identity_time_of":
        return view.identity_time_of(event, said["time_of"])
    return getattr(view, method)(event, {}) if method == "fold" else getattr(view, method)(event)


def _kept(value: Any) -> Any:
    """A copy, because the view may go on to change what it returned."""
    if value is DELETE:
        return DELETE
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - an object that no document can hold, and that cannot be copied
        return value


def _raised(view: View, method: str, error: Exception) -> Raised:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the exception is the view's own
        text = ""
    where = _place(view, error)
    return Raised(method, error.with_traceback(None), text, where)


def _place(view: View, error: Exception) -> str:
    """File and line in the view's own code, or of the innermost call if the error is not below it."""
    codes = {code for kind in type(view).__mro__ for code in map(_code, vars(kind).values()) if code}
    files = {code.co_filename for code in codes if "millpond/core" not in code.co_filename}
    trace, best = error.__traceback__, None
    while trace is not None:
        if best is None or trace.tb_frame.f_code.co_filename in files:
            best = trace
        trace = trace.tb_next
    return f"{PurePath(best.tb_frame.f_code.co_filename).name}:{best.tb_lineno}" if best is not None else ""


def _code(value: object) -> CodeType | None:
    found = getattr(value, "__code__", None)
    return found if isinstance(found, CodeType) else None


def _same_event(one: Event, other: Event) -> bool:
    return (
        same_value(one.payload, other.payload)
        and same_value(one.envelope, other.envelope)
        and one.attributes == other.attributes
    )


def _same(one: Any, other: Any) -> bool:
    try:
        return same_value(one, other)
    except Exception:  # noqa: BLE001 - objects of a view may refuse to be compared
        return False
