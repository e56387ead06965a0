"""The readers of an event: each returns one type, None for what is missing, and poison for what is wrong."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from millpond import Event, InvalidEvent
from millpond.core.document import find_fault
from tests.common.pond import NOW


def event(**payload: Any) -> Event:
    return Event(
        message_id="1", publish_time=NOW, topic="t", payload=payload, envelope={"ts": "2026-01-08T12:00:00Z"}
    )


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        (3, 3),
        ("3", 3),
        (3.0, 3),
        (" 3 ", 3),
        ("-3", -3),
        ("+3", 3),
        ("007", 7),
        (0, 0),
        ("0", 0),
        (-0.0, 0),
        (2.0**53, 2**53),
        (2**63 - 1, 2**63 - 1),
        (str(-(2**63)), -(2**63)),
        ("0" * 39 + "1", 1),
    ],
)
def test_a_whole_number_is_an_int_however_it_was_sent(value: Any, whole: int) -> None:
    """So that "3" and 3 can be added up."""
    found = event(people=value).integer("people")
    assert (type(found), found) == (int, whole)


@pytest.mark.parametrize(
    "value",
    [
        *(True, False, 3.5, "3.5", "3.0", "1e3", "three", "3 4", "1_000", "٣", [], [3], {}, "0x10", "--3", "+"),
        *(2**63, -(2**63) - 1, str(2**63), "9" * 40, "9" * 5_000, 2.0**54, 1e300, float("inf"), float("nan")),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_whole_number_is_poison(value: Any) -> None:
    """The error has the field's name."""
    with pytest.raises(InvalidEvent, match=r"^people must be a whole number"):
        event(people=value).integer("people")


def test_an_error_does_not_quote_the_value() -> None:
    """Error texts are logged, and payloads are not."""
    for read in (event(name="s3cr3t").integer, event(name="s3cr3t").decimal):
        with pytest.raises(InvalidEvent) as fault:
            read("name")
        assert "s3cr3t" not in str(fault.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("12.50", "12.50"),
        (12.5, "12.5"),
        (0.1, "0.1"),
        (3, "3"),
        (" 1e2 ", "1E+2"),
        ("-.5", "-0.5"),
        (2**70, str(2**70)),
        ("0.1234567890123456789012345678901", "0.1234567890123456789012345678901"),
        ("0e-999999", "0E-999999"),
    ],
)
def test_a_decimal_has_the_digits_that_were_sent(value: Any, text: str) -> None:
    """Neither rounded to a float, nor with digits that only a float has."""
    found = event(price=value).decimal("price")
    assert (type(found), str(found)) == (Decimal, text)


@pytest.mark.parametrize(
    "value",
    [
        *(True, False, "12,50", "NaN", "Infinity", "1e400", float("inf"), float("nan"), [], {}, "1 2", "٣", "$3"),
        *("1" * 401, "1e-500", "1e-999999999", "1e999999999"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_decimal_is_poison(value: Any) -> None:
    """Also what a sender can write in ten bytes and a view could compute with for minutes."""
    with pytest.raises(InvalidEvent, match=r"^price must be a (finite )?decimal number"):
        event(price=value).decimal("price")


@pytest.mark.parametrize("payload", [{}, {"x": None}, {"x": ""}, {"x": "  "}], ids=repr)
def test_what_is_missing_is_none_or_the_default(payload: dict[str, Any]) -> None:
    """Missing, null and blank are the same. A zero that was sent is not missing."""
    missing = event(**payload)
    assert (missing.integer("x"), missing.decimal("x"), missing.datetime("x")) == (None, None, None)
    assert (missing.integer("x", 1), missing.decimal("x", Decimal(1))) == (1, Decimal(1))
    assert (event(x=0).integer("x", 1), event(x="0").decimal("x", Decimal(1))) == (0, Decimal(0))


def test_a_datetime_is_read_by_the_rules_of_a_time() -> None:
    """The first that is present, of the envelope too; `?` passes over words; naive is poison. A store holds it."""
    noon = dt.datetime(2026, 1, 8, 12, tzinfo=dt.UTC)
    assert event(at="2026-01-08T13:00:00+01:00").datetime("at") == noon
    assert event(at=noon.timestamp()).datetime("nowhere", "at") == noon
    assert event(at="n/a").datetime("at?", "envelope.ts") == noon
    found = event(at="2026-01-08T13:00:00+01:00").datetime("at")
    assert found is not None
    assert found.tzinfo is dt.UTC
    assert find_fault({"at": found}) is None
    for wrong in ("2026-01-08T12:00:00", "n/a", True):
        with pytest.raises(InvalidEvent, match=r"^at must be an RFC 3339 time"):
            event(at=wrong).datetime("at")


@pytest.mark.parametrize(
    ("value", "instead"),
    [
        (Decimal("1.5"), "str(value), or whole cents as an int"),
        ((1, 2), "list(value)"),
        ({1}, "sorted(value)"),
        (dt.date(2026, 1, 8), "value.isoformat()"),
    ],
    ids=repr,
)
def test_a_value_that_no_store_holds_is_refused_with_what_to_return(value: Any, instead: str) -> None:
    """At every depth."""
    for document in ({"total": value}, {"a": {"b": value}}, {"a": [value]}):
        assert find_fault(document) == f"{type(value).__name__} is not a type a document can hold: return {instead}"
