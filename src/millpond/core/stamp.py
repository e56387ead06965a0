"""Stamp: the position of a message in the total order, as a string that sorts. Pure.

    event time µs . sequence . publish time µs . message id        most views
    sequence . event time µs . publish time µs . message id        views with `sequence_first`
    0 . event time µs . sequence . publish time µs . message id    signals under SIGNALS_ID=event

Fixed widths make string order equal tuple order, and identify the layout. Nothing here reads a clock: a stamp is a
function of the message alone, so every instance and every replay computes the same one.

The third layout is the first with a zero in front. Earlier builds stamped such documents in the second layout. With
the zero, their stamps without a sequence and the new ones still compare by time while both builds run.
"""

from __future__ import annotations

from typing import NamedTuple

from millpond.core.errors import InvalidEvent

SEQUENCE_MAX = 2**63 - 1
_TIME_WIDTH = 17
_SEQUENCE_WIDTH = 20
_NO_SEQUENCE = "0" * _SEQUENCE_WIDTH
# The prefix of the third layout.
SEQUENCE_LAST = f"{_NO_SEQUENCE}."
_SIXTEEN_DIGITS = 10**15


class StampParts(NamedTuple):
    event_time: int
    sequence: int | None
    publish_time: int
    message_id: str


def encode_stamp(
    event_time: int, sequence: int | None, publish_time: int, message_id: str, *, sequence_first: bool = False
) -> str:
    # No sequence sorts below every sequence, so a stored sequence is shifted up by one.
    rank = _NO_SEQUENCE if sequence is None else f"{sequence + 1:020d}"
    # Times of this century have sixteen digits; a fixed prefix is three times as fast as padding.
    happened = f"0{event_time}" if event_time >= _SIXTEEN_DIGITS else f"{event_time:017d}"
    published = f"0{publish_time}" if publish_time >= _SIXTEEN_DIGITS else f"{publish_time:017d}"
    if sequence_first:
        return f"{rank}.{happened}.{published}.{message_id}"
    return f"{happened}.{rank}.{published}.{message_id}"


def decode_stamp(stamp: str) -> StampParts:
    first, second, published, message_id = stamp.split(".", 3)
    if len(first) == len(published) == _SEQUENCE_WIDTH:
        return decode_stamp(stamp.removeprefix(SEQUENCE_LAST))
    if len(first) == _TIME_WIDTH:
        time, rank = int(first), int(second)
    elif len(first) == _SEQUENCE_WIDTH:
        time, rank = int(second), int(first)
    else:
        raise ValueError(f"not a stamp: {stamp!r:.80}")
    return StampParts(time, rank - 1 if rank else None, int(published), message_id)


def clamp_event_time(event_time: int, publish_time: int, max_future_skew: int) -> int:
    """A time too far in the future counts as the publish time, so one wrong clock cannot block later events."""
    return publish_time if event_time > publish_time + max_future_skew else event_time


def find_counter(value: object) -> int | None:
    """A producer's counter; None if the value is not one (`1.2.0`, `2.0`, a word)."""
    if value is None:
        return None
    try:
        return parse_sequence(value, "")
    except InvalidEvent:
        return None


def parse_sequence(value: object, name: str) -> int:
    """A producer's counter: a whole number from 0, also as decimal digits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _SEQUENCE_WIDTH:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= SEQUENCE_MAX:
        raise InvalidEvent(f"{name} must be a whole number from 0 to 2^63-1")
    return value
