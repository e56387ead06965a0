"""What an event carries: protobuf and JSON of the same document are the same values, and nonsense is refused."""

from __future__ import annotations

import base64
import datetime as dt
import json
from typing import Any

import pytest
from google.events.cloud.firestore_v1 import DocumentEventData
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from millpond.core.errors import MalformedEnvelope
from millpond.flow.event_filter import EventData
from millpond.ingress.document_event import decode_json, decode_protobuf
from tests.common.eventarc import Moment, Place, Reference, as_json, as_protobuf, full_name, message

NAME = full_name("run-1")
NOTHING = EventData(None, None)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
YEAR_1, YEAR_9999 = -62_135_596_800, 253_402_300_799


def in_both_forms(document: dict[str, Any], name: str = NAME) -> tuple[EventData, EventData]:
    """What is read from the protobuf, and from the JSON."""
    text = json.dumps(as_json(document, name)).encode()
    return decode_protobuf(as_protobuf(document, name)), decode_json(text)


def plain(value: Any) -> Any:
    """What a value must be read as."""
    if isinstance(value, Moment):
        return EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1_000)
    if isinstance(value, Reference):
        return value.path
    if isinstance(value, Place):
        return value._asdict()
    if isinstance(value, dict):
        return {name: plain(value[name]) for name in sorted(value)}
    return [plain(item) for item in value] if isinstance(value, list) else value


def nested(levels: int, below: Any) -> Any:
    return {"a": nested(levels - 1, below)} if levels else below


# --- every type --------------------------------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": 0,
    "largest integer": 2**63 - 1,
    "smallest integer": -(2**63),
    "integer no double holds": 2**53 + 1,
    "double": 1.5,
    "whole double": 3.0,
    "minus zero": -0.0,
    "tiniest double": 5e-324,
    "largest double": 1.7976931348623157e308,
    "not a number": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "epoch": Moment(0),
    "milliseconds": Moment(1_767_873_600, 120_000_000),
    "nanoseconds": Moment(1_767_873_600, 123_456_789),
    "a nanosecond before 1970": Moment(-1, 999_999_999),
    "a nanosecond after 1969": Moment(-86_400, 1),
    "after 2200": Moment(7_289_654_400, 1_000),
    "first moment": Moment(YEAR_1),
    "last moment": Moment(YEAR_9999, 999_999_999),
    "text": "a",
    "empty text": "",
    "text of every kind": 'é😀\u2028\x00"\\%2F',
    "bytes": b"\xff\x00\xfe",
    "no bytes": b"",
    "bytes that need both odd letters": b"\xfb\xff\xbf",
    "reference": Reference("projects/pond/databases/(default)/documents/a/b"),
    "place": Place(52.5, -13.4),
    "origin": Place(0.0, 0.0),
    "empty map": {},
    "empty list": [],
    "list": [1, "a", None, 2.5, {"a": []}],
    "nested": {"a": {"b": {"c": [{"d": Moment(1, 1_000)}, Place(1.0, 2.0)]}}},
    "odd names": {"": 1, "a.b": 2, "`": 3, "é/%": 4, "__x__": 5},
    "as deep as Firestore goes": nested(18, [1]),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_every_type_in_both_forms(value: Any) -> None:
    """Protobuf and JSON give exactly the value that was written, to the sign of a zero."""
    # As text, because NaN is not equal to itself, and 0.0 is to -0.0.
    expected = repr((NAME, {"field": plain(value)}))
    from_protobuf, from_json = in_both_forms({"field": value})
    assert (repr(tuple(from_protobuf)), repr(tuple(from_json))) == (expected, expected)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(),
    st.binary(),
    st.builds(Moment, st.integers(YEAR_1, YEAR_9999), st.integers(0, 999_999_999)),
    st.builds(Reference, st.text()),
    st.builds(Place, st.floats(-90, 90), st.floats(-180, 180)),
)
documents = st.dictionaries(
    st.text(),
    st.recursive(scalars, lambda below: st.lists(below) | st.dictionaries(st.text(), below), max_leaves=12),
    max_size=5,
)


@given(documents, st.text())
def test_any_document_in_both_forms(document: dict[str, Any], name: str) -> None:
    """Whatever a document holds, both forms are read as the same, and as what was written."""
    expected = repr((name or None, plain(document)))
    assert [repr(tuple(found)) for found in in_both_forms(document, name)] == [expected, expected]


def test_only_the_document_after_the_change_counts() -> None:
    """The document as it was before is not mistaken for the one that is."""
    data = message({"now": 1}, NAME)
    data.old_value.name = "elsewhere"
    data.old_value.fields["before"].integer_value = 2
    text = json_format.MessageToJson(data).encode()
    assert decode_protobuf(data.SerializeToString()) == decode_json(text) == EventData(NAME, {"now": 1})


@pytest.mark.parametrize("data", [b"{}", b"null", b'{"value":null}', b'{"oldValue":{"name":"x"}}'])
def test_no_document(data: bytes) -> None:
    """An event without a document, as of a deletion, is read as one that carries nothing."""
    assert decode_json(data) == NOTHING
    assert decode_protobuf(b"") == NOTHING
    data_of_a_deletion = DocumentEventData.pb()()
    data_of_a_deletion.old_value.name = NAME
    assert decode_protobuf(data_of_a_deletion.SerializeToString()) == NOTHING


def test_a_type_nobody_has_told_us_of() -> None:
    """A value of a type that comes one day is null, and the rest of the document is read."""
    fields = {"new": {"vectorValue": [1]}, "none": {}, "old": {"stringValue": "a"}}
    data = json.dumps({"value": {"name": NAME, "fields": fields}}).encode()
    assert decode_json(data).document == {"new": None, "none": None, "old": "a"}


# --- nonsense ----------------------------------------------------------------------------------------------------


def refused(error: MalformedEnvelope) -> str:
    """Every refusal here has the same reason; its text."""
    assert error.reason == "malformed_event"
    assert str(error)
    return str(error)


def test_protobuf_cut_at_every_byte() -> None:
    """A cut message is refused, unless what is left is one: then it is read like any other."""
    whole = as_protobuf({"a": {"b": [1, "text", Moment(1, 1)]}, "c": b"\x00"}, NAME)
    cuts = 0
    for length in range(len(whole)):
        try:
            DocumentEventData.pb().FromString(whole[:length])
        except DecodeError:
            cuts += 1
            with pytest.raises(MalformedEnvelope) as caught:
                decode_protobuf(whole[:length])
            refused(caught.value)
        else:
            assert isinstance(decode_protobuf(whole[:length]), EventData)
    assert cuts > len(whole) / 2


@given(st.binary(max_size=64))
def test_random_bytes(data: bytes) -> None:
    """Bytes of any kind are a message or are refused, in either form."""
    for decode in (decode_protobuf, decode_json):
        try:
            decode(data)
        except MalformedEnvelope as error:
            refused(error)


@pytest.mark.parametrize("seconds", [2**62, -(2**62), YEAR_9999 + 1, YEAR_1 - 1])
def test_a_time_that_no_calendar_holds(seconds: int) -> None:
    """Protobuf can say it, and it is refused."""
    with pytest.raises(MalformedEnvelope) as caught:
        decode_protobuf(as_protobuf({"at": Moment(seconds)}, NAME))
    assert "time" in refused(caught.value)


def test_too_deep() -> None:
    """Maps that nest without end are refused in either form."""
    level = b'{"mapValue":{"fields":{"a":'
    text = b'{"value":{"fields":{"a":' + level * 300 + b'{"nullValue":null}' + b"}}}" * 300 + b"}}}"
    assert json.loads(text)
    data = message({}, NAME)
    value = data.value.fields["a"]
    for _ in range(300):
        value = value.map_value.fields["a"]
    value.null_value = 0
    for decode, given_data in ((decode_json, text), (decode_protobuf, data.SerializeToString())):
        with pytest.raises(MalformedEnvelope) as caught:
            decode(given_data)
        refused(caught.value)


NOT_DATA = [b"{", b"", b"{}x", b"\xff", b'{"value":NaN}', b"[" * 100_000, b'{"a":' * 100_000, b"\xef\xbb\xbf{}"]
WRONG_OBJECTS: list[Any] = [[], ["a"], 0, 5, "", "text", False, True]
WRONG_LISTS: list[Any] = [{}, {"a": {}}, 0, 5, "", "a", False, True]
WRONG_BY_TYPE: dict[str, list[Any]] = {
    "integerValue": [None, "", "a", "1.5", [], {}, 5.7, True, " 5 ", "1_000", 2**63, str(2**63), str(-(2**63) - 1)],
    "doubleValue": [None, "", "a", [], {}, True, "1_0"],
    "booleanValue": [None, "true", 1, []],
    "stringValue": [None, 1, [], {}],
    "referenceValue": [None, 1, []],
    "bytesValue": [None, 1, "!", "a", "YQ", "YQ==YQ==", "é", []],
    "timestampValue": [
        *(None, 1, [], "", "now", "2026-01-08", "2026-01-08T12:00:00", "2026-13-08T12:00:00Z"),
        *("0001-01-01T00:00:00+01:00", "2026-W02-4T12:00:00Z"),
    ],
    "geoPointValue": [None, [], "a", {"latitude": "north"}, {"longitude": []}, {"latitude": True}],
    "arrayValue": [None, [], "a", {"values": [1]}, *({"values": wrong} for wrong in WRONG_LISTS)],
    "mapValue": [None, [], "a", {"fields": {"a": 1}}, *({"fields": wrong} for wrong in WRONG_OBJECTS)],
}
WRONG_VALUES: list[Any] = [None, [], "text", 5, True]
WRONG_VALUES += [{kind: content} for kind, contents in WRONG_BY_TYPE.items() for content in contents]
WRONG_NAMES: list[Any] = [0, 5, [], {}, False]


def with_field(value: Any) -> Any:
    return {"value": {"name": NAME, "fields": {"field": value}}}


WRONG_DATA: list[Any] = [
    *WRONG_OBJECTS,
    *({"value": wrong} for wrong in WRONG_OBJECTS),
    *({"value": {"name": wrong}} for wrong in WRONG_NAMES),
    *({"value": {"name": NAME, "fields": wrong}} for wrong in WRONG_OBJECTS),
    *(with_field(value) for value in WRONG_VALUES),
]
WRONG_JSON = [json.dumps(data).encode() for data in WRONG_DATA]


@pytest.mark.parametrize("data", [*NOT_DATA, *WRONG_JSON], ids=lambda data: repr(data[-60:]))
def test_wrong_json(data: bytes) -> None:
    """What is not JSON, or of another type than its place asks for, is refused, and never quoted."""
    with pytest.raises(MalformedEnvelope) as caught:
        decode_json(data)
    assert NAME not in refused(caught.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"integerValue": 5}, 5),
        ({"integerValue": "-5"}, -5),
        ({"doubleValue": 5}, 5.0),
        ({"doubleValue": "-Infinity"}, float("-inf")),
        ({"bytesValue": base64.b64encode(b"a").decode()}, b"a"),
        ({"timestampValue": "2026-01-08T13:00:00+01:00"}, dt.datetime(2026, 1, 8, 12, tzinfo=dt.UTC)),
        ({"geoPointValue": {"latitude": 1}}, {"latitude": 1.0, "longitude": 0.0}),
        ({"arrayValue": {"values": None}}, []),
        ({"mapValue": {"fields": None}}, {}),
    ],
    ids=repr,
)
def test_what_other_writers_of_json_may_send(value: Any, expected: Any) -> None:
    """Numbers as numbers, offsets, and defaults left out or null: legal by protobuf's rules, and read so."""
    document = decode_json(json.dumps(with_field(value)).encode()).document
    assert document == {"field": expected}
    assert type((document or {})["field"]) is type(expected)
