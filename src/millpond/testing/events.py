"""The events of a check: payloads, deliveries or a file of lines → messages with an id and a publish time.

A list of payloads has neither, so both are made up: an event is published a second after the one before it, and
never before its own time. Called by `check` and `strategies`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import msgspec

from millpond.core.model import Delivery
from millpond.core.timestamps import SECOND_US
from millpond.core.view import View
from millpond.ingress.files import decode_lines
from millpond.testing.faults import CheckError

# The publish time of the first event if no event has a time of its own: 2026-01-05T00:00:00Z.
START = 1_767_571_200_000_000
_NOT_GIVEN = -1


class SentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a check, as it is published first. `number` is its place in the list, or its line."""

    number: int
    delivery: Delivery
    # Whether its publish time is part of the data. Otherwise it orders nothing.
    publish_time_given: bool

    @property
    def shown(self) -> Any:
        """Its payload for people; the text if it is not JSON."""
        try:
            return msgspec.json.decode(self.delivery.data or b"")
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return (self.delivery.data or b"").decode(errors="replace")


def from_list(events: Sequence[Any], view: View) -> list[SentEvent]:
    """The events of a list; payloads go to the view's first topic."""
    found = []
    for number, event in enumerate(events, start=1):
        if isinstance(event, Delivery):
            found.append(SentEvent(number=number, delivery=event, publish_time_given=True))
            continue
        delivery = Delivery(
            message_id=f"{number}",
            publish_time=_NOT_GIVEN,
            data=_encoded(event, number),
            attributes={"topic": view.topics[0]},
        )
        found.append(SentEvent(number=number, delivery=delivery, publish_time_given=False))
    return found


def from_file(file: str | PathLike[str]) -> list[SentEvent]:
    """The lines of a file, in the forms of `millpond ingest`; a line may lack its publish time."""
    try:
        lines = Path(file).read_bytes().split(b"\n")
    except OSError as error:
        raise CheckError(f"events: {fspath(file)} cannot be read: {error.strerror}") from None
    found = []
    for line in decode_lines(lines, publish_time=_NOT_GIVEN):
        if line.delivery is None:
            raise CheckError(f"events: line {line.number} of {fspath(file)}: {line.fault}")
        given = line.delivery.publish_time != _NOT_GIVEN
        found.append(SentEvent(number=line.number, delivery=line.delivery, publish_time_given=given))
    if not found:
        raise CheckError(f"events: {fspath(file)} holds no line")
    return found


def published(events: Iterable[SentEvent], own_time_of: Callable[[SentEvent], int | None]) -> list[SentEvent]:
    """The events with publish times: those that have none are published after the event before them."""
    known = [(event, own_time_of(event)) for event in events]
    times = [at for _, at in known if at is not None]
    last = min(times) if times else START - SECOND_US
    found = []
    for event, own in known:
        if event.publish_time_given:
            last = max(last, event.delivery.publish_time)
            found.append(event)
            continue
        last = max(last, own or 0) + SECOND_US
        delivery = msgspec.structs.replace(event.delivery, publish_time=last)
        found.append(msgspec.structs.replace(event, delivery=delivery))
    return found


def republished(delivery: Delivery, later_us: int) -> Delivery:
    """The same data under another message id, at the same instant or later."""
    return msgspec.structs.replace(
        delivery, message_id=f"{delivery.message_id}-copy", publish_time=delivery.publish_time + later_us
    )


def _encoded(event: Any, number: int) -> bytes:
    if not isinstance(event, dict):
        raise CheckError(f"events: number {number} is {type(event).__name__}, not a payload (a dict) or a Delivery")
    try:
        return msgspec.json.encode(event)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise CheckError(f"events: number {number} cannot be written as JSON: {error}") from None
