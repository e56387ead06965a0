"""Stamps, ids, times, digests and shapes: the small pure pieces."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import itertools
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond import InvalidEvent
from millpond.core import timestamps
from millpond.core.document import check_ref, find_fault, representable
from millpond.core.hashing import base32_sha256
from millpond.core.ids import decode_name, encode_id, encode_name
from millpond.core.model import Event, Ref
from millpond.core.stamp import parse_sequence


@pytest.mark.parametrize("text", ["AAPL", "BRK.B", "2026-01-08T14:32:00Z", "a_b", "émile", "a b", "x.y-z~1"])
def test_ordinary_ids_stay_readable(text: str) -> None:
    """Only what a store would refuse is escaped."""
    assert encode_id(text) == text


@pytest.mark.parametrize(
    ("text", "encoded"),
    [("a/b", "a%2Fb"), (".", "%2E"), ("..", "%2E%2E"), ("__x__", "%5F%5Fx_%5F"), ("50%", "50%25"), ("\0", "%00")],
)
def test_awkward_ids_are_escaped(text: str, encoded: str) -> None:
    """Percent-style, so that a person can read them back."""
    assert encode_id(text) == encoded


@pytest.mark.parametrize("text", ["AAPL", "strat__SPY__1", "_x", "x_", "__x", "100%", "a b", "émile", "50%zz", "%"])
def test_a_name_that_a_store_takes_is_kept(text: str) -> None:
    """A view whose key is one part needs no separator, and so no escape for what looks like one."""
    assert encode_name(text) == text


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("a/b", "a%2Fb"),
        (".", "%2E"),
        ("__x__", "%5F%5Fx_%5F"),
        ("a%2Fb", "a%252Fb"),
        ("__", "%5F%5F"),
        ("\0", "%00"),
    ],
)
def test_a_name_that_no_store_takes_is_escaped(text: str, encoded: str) -> None:
    """And so is one that looks escaped, or it would share its document with what that stands for."""
    assert encode_name(text) == encoded


def test_no_two_short_names_share_a_document() -> None:
    """Every name of up to six of the characters that are awkward anywhere: legal, reversible, and its own."""
    taken: dict[str, str] = {}
    for length in range(1, 7):
        for letters in itertools.product("_%/.2F\0", repeat=length):
            name = "".join(letters)
            encoded = encode_name(name)
            assert taken.setdefault(encoded, name) == name
            assert decode_name(encoded) == name
            check_ref(Ref("c", encoded))
    assert len(taken) == sum(7**length for length in range(1, 7))


def test_megabytes_are_refused_before_they_are_walked_through() -> None:
    """An id of nothing but awkward characters took seconds of the server's event loop."""
    began = time.process_time()
    for encode in (encode_id, encode_name):
        for letter in "_/%":
            with pytest.raises(InvalidEvent):
                encode(letter * 5_000_000)
    assert time.process_time() - began < 1


def test_a_name_must_fit_and_be_there() -> None:
    """As every id."""
    assert encode_name("é" * 749 + "_")
    with pytest.raises(InvalidEvent) as too_long:
        encode_name("é" * 750 + "_")
    with pytest.raises(InvalidEvent) as empty:
        encode_name("")
    assert (too_long.value.reason, empty.value.reason) == ("id_too_long", "empty_id")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2026-01-08T12:34:56Z", "2026-01-08T12:34:56Z"),
        ("2026-01-08T12:34:56.5Z", "2026-01-08T12:34:56.500000Z"),
        ("2026-01-08t12:34:56.123456789z", "2026-01-08T12:34:56.123456Z"),
        ("2026-01-08 14:34:56+02:00", "2026-01-08T12:34:56Z"),
        ("2026-01-08T14:34:56+0200", "2026-01-08T12:34:56Z"),
        ("2026-01-08T07:04:56.5-0530", "2026-01-08T12:34:56.500000Z"),
        (1_767_875_696, "2026-01-08T12:34:56Z"),
        (1_767_875_696.25, "2026-01-08T12:34:56.250000Z"),
        (1_767_875_696_250, "2026-01-08T12:34:56.250000Z"),
        ("2026-01-08T17:29:00+05:30", "2026-01-08T11:59:00Z"),
        ("2026-01-08T03:59:00-08:00", "2026-01-08T11:59:00Z"),
        (1_767_873_540_250.5, "2026-01-08T11:59:00.250500Z"),
        (0, "1970-01-01T00:00:00Z"),
        (100_000_000_000, "1973-03-03T09:46:40Z"),
    ],
)
def test_times_come_in_three_forms(value: Any, text: str) -> None:
    """RFC 3339 with an offset, epoch seconds, epoch milliseconds."""
    assert timestamps.to_text(timestamps.parse(value, "t")) == text


@pytest.mark.parametrize(
    "value",
    ["2026-01-08T12:34:56", "2026-01-08", "20260108T123456Z", "2026-W02-4T00:00:00Z", "yesterday", "1767875696",
     "2026-02-30T00:00:00Z", "2026-01-08T12:34:60Z", "2026-01-08T24:01:00Z", "1969-12-31T23:59:59Z",
     "2200-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "2026-01-08T12:34:56+25:00",
     "2026-01-08T12:34:56+0160", "\uff1226-01-08T12:34:56Z", "2026-13-01T00:00:00Z", "2026-01-08T24:00:00Z",
     "10000-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", " 2026-01-08T12:34:56Z", "2026-01-08T12:34:56Z\0",
     99_999_999_999, 1_767_873_600_000_000, 1_767_873_600_000_000_000,
     True, -1, 1e18, 1e300, float("nan"), float("inf"), [], {}],
)  # fmt: skip
def test_ambiguous_and_absurd_times_are_poison(value: Any) -> None:
    """A time read wrongly would order a document wrongly for ever."""
    with pytest.raises(InvalidEvent, match="when"):
        timestamps.parse(value, "when")


def test_naive_times_are_utc_only_where_that_was_said() -> None:
    """A date is no time, and neither is a boolean, whatever was said."""
    with pytest.raises(InvalidEvent, match="NAIVE_TIMES=utc"):
        timestamps.parse("2026-01-08T12:34:56", "when")
    for text in ("2026-01-08T12:34:56", "2026-01-08 12:34:56.000", "2026-01-08T13:34:56+01:00"):
        us = timestamps.parse(text, "when", naive_as_utc=True)
        assert timestamps.to_text(us) == "2026-01-08T12:34:56Z"
    for value in ("2026-01-08", "2026-01-08T12:34", "12:34:56", True, "2026-02-30T00:00:00"):
        with pytest.raises(InvalidEvent):
            timestamps.parse(value, "when", naive_as_utc=True)


@pytest.mark.parametrize("value", ["n/a", "garbage", "pending", "-", "", "soon ☂", " " * 9])
def test_a_word_is_no_time_at_all(value: str) -> None:
    """It says nothing, so where another time may stand in for it, that one does."""
    assert timestamps.is_no_time(value)


@pytest.mark.parametrize(
    "value",
    ["2026-01-08T12:34:56", "2026-01-08", "20260108", "12:34", "1767875696", "-5", "0.5", "1e9", "12/31/99",
     "8 Jan 26",
     "Thu, 08 Jan 2026 12:34:56", "01/08/2026", "2026-02-30T00:00:00Z", "\uff12\uff10\uff12\uff16",
     True, 7, None, [], {}],
)  # fmt: skip
def test_a_time_that_cannot_be_read_is_not_passed_over(value: Any) -> None:
    """To take another in its place would order a document wrongly."""
    assert not timestamps.is_no_time(value)


def event(**payload: Any) -> Event:
    return Event(message_id="m", publish_time=0, topic="t", payload=payload)


@pytest.mark.parametrize("value", [0, -1, 1.5, 2**63 - 1, -(2**63), 1e308, "0.1000", "-2", "1e3", None])
def test_a_number_is_kept_as_it_was_sent(value: Any) -> None:
    """A decimal as text stays text, so that prices lose no digits."""
    assert repr(event(price=value).number("price")) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        "s3cr3t",
        "",
        "NaN",
        "Infinity",
        "-inf",
        "1e999",
        "0x10",
        "1_000",
        " 1.5 ",
        "\u0661\u0662",
        True,
        [1],
        {"v": 1},
    ],
)
def test_what_is_no_finite_number_is_poison(value: Any) -> None:
    """The error names the field and the type, never the value."""
    with pytest.raises(InvalidEvent, match="price must be a finite number") as fault:
        event(price=value).number("price")
    assert "s3cr3t" not in str(fault.value)


@pytest.mark.parametrize("value", [-1, 2**63, str(2**63), True, 1.5, "x", "", "-1", "1" * 30, "²", None, []])
def test_a_sequence_is_a_whole_number(value: Any) -> None:
    """Anything else is poison, not a guess."""
    with pytest.raises(InvalidEvent):
        parse_sequence(value, "seq")


@given(st.binary(max_size=80))
def test_base32_is_the_standard_one(content: bytes) -> None:
    """Our quick encoder agrees with the standard library's."""
    assert base32_sha256(content) == base64.b32encode(hashlib.sha256(content).digest())[:52].decode()


def test_payloads_no_document_can_hold_become_text() -> None:
    """Canonical JSON, so that the text is the same on every store and for every key order."""
    assert representable({"a": [[1]], "__x__": 2}) == '{"__x__":2,"a":[[1]]}'
    assert representable({"a": [1]}) == {"a": [1]}
    deep: Any = 1
    for _ in range(30):
        deep = {"d": deep}
    assert isinstance(representable(deep), str)


def test_faults_are_found_at_every_depth() -> None:
    """A value is legal inside a map or a list exactly if it is legal at the top."""
    bad = [2**63, [[1]], {"": 1}, {"__x__": 1}, dt.datetime(2026, 1, 1), object()]  # noqa: DTZ001
    wrappers: list[Any] = [lambda v: {"v": v}, lambda v: {"m": {"v": v}}, lambda v: {"l": [{"v": v}]}]
    for value, wrap in itertools.product(bad, wrappers):
        assert find_fault(wrap(value)) is not None, (value, wrap)
    good = [2**63 - 1, [1], {"_": 1}, dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "", b"", None]
    for value, wrap in itertools.product(good, wrappers):
        assert find_fault(wrap(value)) is None, (value, wrap)
