"""Evidence → the text of a failure: cause, smallest history, what differs, the call that repeats it. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from millpond.core.document import same_value
from millpond.core.view import View
from millpond.testing.events import SentEvent
from millpond.testing.faults import Cause, ViewFault

_VALUE_CHARS_MAX = 400
_CALL_CHARS_MAX = 600


class Shown(NamedTuple):
    """A value of the failure, with what it is."""

    name: str
    value: Any


class Evidence(NamedTuple):
    """A fault that was found: `events` is the smallest history, `shown` two values that should be equal."""

    cause: Cause
    headline: str
    events: Sequence[SentEvent]
    shown: Sequence[Shown] = ()
    # The order of arrival, one line each, if it matters.
    history: Sequence[str] = ()


class Asker(NamedTuple):
    """How the check was called, for the line that repeats it. `events` is None if they were payloads."""

    view: View
    events: str | None
    worlds: int
    seed: int


def as_fault(evidence: Evidence, asker: Asker) -> ViewFault:
    view = asker.view
    called = f"{type(view).__name__} ({view.kind}, {view.collection})"
    count = "1 event" if len(evidence.events) == 1 else f"{len(evidence.events)} events"
    lines = [f"{called}: {evidence.headline}", "", evidence.cause.why, evidence.cause.remedy]
    if evidence.events:
        lines += ["", f"The smallest history that shows it has {count}:"]
        lines += [f"  #{event.number}  {text_of(event.shown)}" for event in evidence.events]
    if evidence.history:
        lines += ["", "What happened, in order:", *(f"  {line}" for line in evidence.history)]
    if evidence.shown:
        width = max(len(shown.name) for shown in evidence.shown)
        lines += ["", *(f"  {shown.name.ljust(width)}  {text_of(shown.value)}" for shown in evidence.shown)]
        lines += [f"  {line}" for line in _differing(evidence.shown)]
    lines += ["", f"To repeat it: {_call(evidence, asker)}"]
    events = [event.shown for event in evidence.events]
    return ViewFault("\n".join(lines), view=view.name, cause=evidence.cause.word, events=events)


def text_of(value: Any) -> str:
    """A value in one line; times as times, and what JSON has no form for as Python writes it."""
    try:
        text = msgspec.json.encode(value, enc_hook=_unknown).decode() if _is_json(value) else repr(value)
    except (TypeError, ValueError, RecursionError, OverflowError):
        text = repr(value)
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…"


def _is_json(value: Any) -> bool:
    return isinstance(value, dict | list | str | int | float | bool | dt.datetime | None)


def _unknown(value: Any) -> str:
    return repr(value)


def _differing(shown: Sequence[Shown]) -> list[str]:
    """The fields in which the two documents differ."""
    if len(shown) != 2 or not all(isinstance(one.value, dict) for one in shown):
        return []
    mine, theirs = shown[0].value, shown[1].value
    names = [
        name
        for name in sorted(mine.keys() | theirs.keys(), key=str)
        if name not in mine or name not in theirs or not same_value(mine[name], theirs[name])
    ]
    return [f"{name} differs: {_field(mine, name)} / {_field(theirs, name)}" for name in names[:5]]


def _field(document: dict[str, Any], name: str) -> str:
    return text_of(document[name]) if name in document else "missing"


def _call(evidence: Evidence, asker: Asker) -> str:
    events = asker.events
    if events is None:
        events = repr([event.shown for event in evidence.events])
        if len(events) > _CALL_CHARS_MAX or not evidence.events:
            events = "…"
    name = type(asker.view).__name__
    return f"check_view({name}(), events={events}, worlds={asker.worlds}, seed={asker.seed})"
