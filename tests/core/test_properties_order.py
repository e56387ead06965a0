"""Laws of the order itself: stamps, the clamp and times, where digits, widths and ties are awkward."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from millpond import InvalidEvent
from millpond.core import timestamps
from millpond.core.stamp import (
    SEQUENCE_MAX,
    StampParts,
    clamp_event_time,
    decode_stamp,
    encode_stamp,
    parse_sequence,
)
from tests.common.properties import attempt, examples

LAST = timestamps.LATEST_US - 1
# Where a number gets another digit, and where padding is done another way.
EDGES = st.sampled_from((0, 1, 9, 10, 99, 100, 10**15 - 1, 10**15, 10**15 + 1, 10**16 - 1, LAST - 1, LAST))
TIMES = EDGES.filter(lambda us: us <= LAST) | st.integers(0, LAST)
SEQUENCES = st.sampled_from((None, 0, 1, 8, 9, 10, 99, 10**18, SEQUENCE_MAX - 1, SEQUENCE_MAX))
# Ids that begin with one another, hold the separator, or are not ASCII.
MESSAGE_IDS = st.sampled_from(("1", "10", "9", "1.", "1.0", ".", "a", "A", "é", "\U0001f30a", "\uffff", "~"))
PARTS = st.builds(
    StampParts, TIMES, SEQUENCES | st.integers(0, SEQUENCE_MAX), TIMES, MESSAGE_IDS | st.text(max_size=8)
)
LAYOUTS = st.booleans()


def rank(parts: StampParts, *, sequence_first: bool) -> tuple[Any, ...]:
    """The specification's tuple, no sequence below every sequence."""
    counter = -1 if parts.sequence is None else parts.sequence
    head = (counter, parts.event_time) if sequence_first else (parts.event_time, counter)
    return (*head, parts.publish_time, parts.message_id)


@examples(300)
@given(st.lists(PARTS, max_size=8), LAYOUTS)
def test_sorting_stamps_sorts_events(events: list[StampParts], sequence_first: bool) -> None:
    """As strings they stand in the order of their tuples, at every change of width, in both layouts."""
    stamps = sorted(encode_stamp(*parts, sequence_first=sequence_first) for parts in events)
    in_order = sorted(events, key=lambda parts: rank(parts, sequence_first=sequence_first))
    assert [decode_stamp(stamp) for stamp in stamps] == in_order


@examples(300)
@given(PARTS, PARTS, PARTS, LAYOUTS)
def test_the_order_is_total(one: StampParts, two: StampParts, three: StampParts, sequence_first: bool) -> None:
    """Of any two different events exactly one is greater, equal ones are the same event, and it carries over."""
    a, b, c = (encode_stamp(*parts, sequence_first=sequence_first) for parts in (one, two, three))
    assert (a < b) + (a == b) + (a > b) == 1
    assert (a == b) == (one == two)
    for x, y, z in itertools.permutations((a, b, c)):
        assert not (x < y < z) or x < z
    if one != two:
        assert (rank(one, sequence_first=sequence_first) < rank(two, sequence_first=sequence_first)) == (a < b)


@examples(200)
@given(PARTS, PARTS)
def test_the_two_layouts_are_told_apart(one: StampParts, other: StampParts) -> None:
    """A stamp of one layout is never one of the other, and each is read back for what it is."""
    time_first, sequence_first = encode_stamp(*one), encode_stamp(*other, sequence_first=True)
    assert time_first != sequence_first
    assert (decode_stamp(time_first), decode_stamp(sequence_first)) == (one, other)


@examples(200)
@given(PARTS, st.integers(0, SEQUENCE_MAX - 1), LAYOUTS)
def test_a_sequence_beats_none_and_a_greater_one_beats_it(
    parts: StampParts, sequence: int, sequence_first: bool
) -> None:
    """At equal times; and 0 is a sequence, not the lack of one."""
    stamps = [
        encode_stamp(*parts._replace(sequence=counter), sequence_first=sequence_first)
        for counter in (None, 0, sequence + 1)
    ]
    assert stamps == sorted(set(stamps))


@examples(200)
@given(
    st.text(max_size=80) | st.text("0123456789.", max_size=80) | PARTS.map(lambda parts: encode_stamp(*parts)[1:])
)
def test_anything_else_is_not_a_stamp(text: str) -> None:
    """What is not a stamp is a ValueError, never another event's place."""
    parts, fault = attempt(ValueError, decode_stamp, text)
    if fault is not None:
        assert parts is None
        return
    assert len(text.split(".", 1)[0]) in {17, 20}
    assert parts.message_id == text.split(".", 3)[3]


@examples(300)
@given(TIMES, TIMES, TIMES, st.integers(0, 86_400 * 10**6))
def test_the_clamp_is_idempotent_bounded_and_grows_with_publish_time(
    event_time: int, published: int, later: int, skew: int
) -> None:
    """It believes a time or takes the publish time; what is published later is never ordered before."""
    published, later = sorted((published, later))
    clamped = clamp_event_time(event_time, published, skew)
    assert clamped == (event_time if event_time <= published + skew else published)
    assert clamped <= published + skew
    assert clamp_event_time(clamped, published, skew) == clamped
    assert clamped <= clamp_event_time(event_time, later, skew)


@examples(200)
@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 100), st.integers(0, 10_000))
def test_the_clamp_keeps_the_order_of_believable_times(one: int, other: int, skew: int, published: int) -> None:
    """Two times neither of which is too far ahead stay as they are, so the first stays first."""
    assume(max(one, other) <= published + skew)
    before, after = sorted((one, other))
    assert clamp_event_time(before, published, skew) == before <= clamp_event_time(after, published, skew) == after


@examples(200)
@given(st.integers(0, SEQUENCE_MAX), st.integers(0, 3))
def test_a_sequence_is_the_same_as_digits(sequence: int, zeros: int) -> None:
    """A counter as text is the counter, leading zeros and all; its place is the number's, not the text's."""
    text = "0" * zeros + str(sequence)
    if len(text) <= 20:
        assert parse_sequence(text, "seq") == sequence
    assert parse_sequence(sequence, "seq") == sequence


OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59)


def written(us: int, offset: int, mark: str, digits: int) -> str:
    """A moment as another program writes it: its offset, its `T`, as many digits as it likes."""
    local = timestamps.to_datetime(us).astimezone(dt.timezone(dt.timedelta(minutes=offset)))
    fraction = f".{local.microsecond:06d}000"[: digits + 1] if digits else ""
    sign, minutes = ("-", -offset) if offset < 0 else ("+", offset)
    return f"{local:%Y-%m-%d}{mark}{local:%H:%M:%S}{fraction}{sign}{minutes // 60:02d}:{minutes % 60:02d}"


@examples(300)
@given(
    st.integers(2 * timestamps.DAY_US, LAST - 2 * timestamps.DAY_US),
    OFFSETS,
    st.sampled_from("Tt "),
    st.integers(6, 9),
)
def test_a_time_is_the_same_in_every_zone(us: int, offset: int, mark: str, digits: int) -> None:
    """Whatever the offset, the letter between and the digits after: one moment, and it prints in UTC."""
    text = written(us, offset, mark, digits)
    assert timestamps.parse(text, "t") == us
    assert timestamps.to_datetime(us).utcoffset() == dt.timedelta(0)
    assert timestamps.from_datetime(timestamps.to_datetime(us)) == us
    assert timestamps.parse(timestamps.to_text(us), "t") == us


@examples(200)
@given(st.integers(2 * timestamps.DAY_US, LAST - 2 * timestamps.DAY_US), st.integers(0, 5))
def test_fewer_digits_mean_zeros(us: int, digits: int) -> None:
    """A fraction is a fraction: `.5` is half a second, not five microseconds."""
    assert timestamps.parse(written(us, 0, "T", digits), "t") == us - us % 10 ** (6 - digits)


@examples(200)
@given(st.integers(0, LAST // 10**6))
def test_epoch_numbers_are_seconds_or_milliseconds(seconds: int) -> None:
    """Told apart by size; a float keeps its microseconds."""
    assert timestamps.parse(seconds, "t") == timestamps.parse(float(seconds), "t") == seconds * 10**6
    if seconds * 1_000 >= 10**11:
        assert timestamps.parse(seconds * 1_000, "t") == seconds * 10**6
        assert timestamps.parse(seconds * 1_000 + 1, "t") == seconds * 10**6 + 1_000


@examples(300)
@given(
    st.text(max_size=30)
    | st.from_regex(timestamps.RFC3339, fullmatch=True)
    | st.integers()
    | st.floats()
    | st.none()
    | st.booleans()
)
def test_anything_is_a_time_within_range_or_poison(value: Any) -> None:
    """No text and no number makes it raise anything but InvalidEvent, or gives a time no stamp could hold."""
    us, fault = attempt(InvalidEvent, timestamps.parse, value, "when")
    if fault is not None:
        assert "when" in str(fault)
        return
    assert 0 <= us <= LAST
    assert type(us) is int
    assert timestamps.from_datetime(timestamps.to_datetime(us)) == us


@pytest.mark.parametrize("us", [0, 1, 10**15 - 1, 10**15, LAST])
def test_every_time_fits_its_width(us: int) -> None:
    """Seventeen digits hold the earliest and the latest time there is."""
    assert {len(part) for part in encode_stamp(us, None, us, "m").split(".")[::2]} == {17}
