"""CloudEvents over HTTP: every form of the same event is the same event, and what is none is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.core.errors import MalformedEnvelope
from millpond.flow.event_filter import EventData
from millpond.ingress.cloudevent import CloudEvent, decode_http
from tests.common.eventarc import (
    FORMS,
    UPDATED,
    Form,
    Moment,
    Sent,
    as_json,
    as_protobuf,
    attributes,
    binary,
    full_name,
    structured,
)

RUN = {"flowKey": "nightly", "steps": {"a": {"status": "READY", "stepType": "GREET", "at": Moment(1, 5_000)}}}
NAME = full_name("run-1")
GIVEN = attributes(subject="documents/flow_runs/run-1")
PROTOBUF, JSON = as_protobuf(RUN, NAME), json.dumps(as_json(RUN, NAME)).encode()
REQUIRED = ("specversion", "id", "source", "type")
MALFORMED, UNSUPPORTED = "malformed_event", "unsupported_media_type"


def decoded(sent: Sent) -> CloudEvent:
    return decode_http(sent.raw_headers, sent.body)


def loaded(sent: Sent) -> EventData:
    return decoded(sent).load()


THE_RUN = loaded(binary(PROTOBUF, "application/protobuf", GIVEN))


# --- what is understood ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_is_the_same_event(form: Form) -> None:
    """Binary or structured, protobuf or JSON: the same attributes and the same document."""
    event = decoded(form(RUN, NAME, GIVEN))
    assert {name: event.attributes[name] for name in GIVEN} == GIVEN
    assert event.load() == THE_RUN
    assert THE_RUN.name == NAME
    assert THE_RUN.document is not None
    assert THE_RUN.document["steps"]["a"]["at"].microsecond == 5


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        *((kind, PROTOBUF) for kind in ("application/protobuf", "application/x-protobuf")),
        *((kind, PROTOBUF) for kind in ("application/vnd.google.protobuf", "APPLICATION/Protobuf")),
        ("application/protobuf; messageType=google.events.cloud.firestore.v1.DocumentEventData", PROTOBUF),
        ("application/protobuf;charset=utf-8", PROTOBUF),
        *((kind, JSON) for kind in ("application/json", "text/json", "Application/JSON", " application/json ")),
        *(
            (kind, JSON)
            for kind in ("application/json; charset=utf-8", "application/json ; x", "application/x+json")
        ),
        *((kind, JSON) for kind in (None, "")),
    ],
)
def test_content_types_that_are_understood(content_type: str | None, body: bytes) -> None:
    """Case, white space and parameters make no difference, and JSON needs no content type."""
    assert loaded(binary(body, content_type, GIVEN)) == THE_RUN


def test_the_case_of_headers() -> None:
    """Names of headers are the same however they are written."""
    headers = [(name.upper(), value) for name, value in binary(PROTOBUF, "application/protobuf", GIVEN).raw_headers]
    event = decode_http(headers, PROTOBUF)
    assert (event.attributes["id"], event.attributes["subject"]) == ("event-1", "documents/flow_runs/run-1")
    assert event.load() == THE_RUN


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("documents/flow_runs/%C3%A9", "documents/flow_runs/é"),
        ("documents/flow_runs/%f0%9f%98%80%20x", "documents/flow_runs/😀 x"),
        ("documents/flow_runs/é", "documents/flow_runs/é"),
        ("100%25", "100%"),
        ("100%", "100%"),
        ("%zz%", "%zz%"),
        ("a+b", "a+b"),
    ],
)
def test_escapes_in_headers(written: str, meant: str) -> None:
    """A binary event's attributes come percent-escaped; a structured one's mean what they say."""
    assert decoded(binary(JSON, None, attributes(subject=written))).attributes["subject"] == meant
    assert decoded(structured(attributes(subject=written))).attributes["subject"] == written


def test_data_is_decoded_only_when_asked_for() -> None:
    """Most events are ruled out by their attributes, and then it does not matter what they carry."""
    event = decoded(binary(b"\xff", "image/png", GIVEN))
    assert event.attributes["type"] == UPDATED
    with pytest.raises(MalformedEnvelope):
        event.load()


@pytest.mark.parametrize(
    "sent",
    [
        *(binary(b"", kind, GIVEN) for kind in (None, "application/json", "application/protobuf", "text/plain")),
        structured(GIVEN),
        structured({**GIVEN, "data": None}),
        structured({**GIVEN, "data_base64": None}),
        structured({**GIVEN, "data_base64": "", "datacontenttype": "application/protobuf"}),
    ],
)
def test_events_without_data(sent: Sent) -> None:
    """They are events, and carry no document."""
    assert loaded(sent) == EventData(None, None)


def test_extensions_of_any_type() -> None:
    """What we do not use may be anything; an attribute that is null is not there."""
    event = decoded(structured({**GIVEN, "subject": None, "sequence": 5, "flag": True, "data": as_json(RUN, NAME)}))
    assert "subject" not in event.attributes
    assert event.load() == THE_RUN


# --- what is not -------------------------------------------------------------------------------------------------


def refusal(headers: list[tuple[bytes, bytes]], body: bytes) -> MalformedEnvelope:
    """What an event that must be refused is told, by its attributes or at the latest by its data."""
    with pytest.raises(MalformedEnvelope) as caught:
        decode_http(headers, body).load()
    return caught.value


def check(sent: Sent, reason: str, mentions: str) -> None:
    error = refusal(sent.raw_headers, sent.body)
    assert error.reason == reason
    assert mentions in str(error)


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize("name", REQUIRED)
def test_required_attributes(name: str, value: str | None) -> None:
    """Without one of them, or with an empty one, it is no CloudEvent; the answer names it as a header too."""
    given_attributes = attributes(subject="documents/flow_runs/run-1", **{name: value})
    for sent in (binary(PROTOBUF, "application/protobuf", given_attributes), structured(given_attributes)):
        check(sent, MALFORMED, f"ce-{name}")


@pytest.mark.parametrize("version", ["0.3", "1", "1.1", "2.0", " 1.0", "v1.0"])
def test_other_versions(version: str) -> None:
    """Only 1.0 is understood, and the answer says so."""
    given_attributes = attributes(specversion=version)
    for sent in (binary(JSON, None, given_attributes), structured(given_attributes)):
        check(sent, MALFORMED, "specversion 1.0")


def test_an_ordinary_request() -> None:
    """A request without any of it is told what is missing."""
    check(Sent({"content-type": "application/json", "user-agent": "curl"}, b"{}"), MALFORMED, "ce-specversion")
    check(Sent({}, b""), MALFORMED, "ce-specversion")


@pytest.mark.parametrize("name", ["ce-id", "ce-type", "ce-subject", "CE-Source", "ce-whatever", "content-type"])
def test_headers_given_twice(name: str) -> None:
    """A proxy may have read the other one, so neither is believed, even where both say the same."""
    headers = [*binary(PROTOBUF, "application/protobuf", {**GIVEN, "whatever": "x"}).raw_headers]
    value = dict(headers)[name.lower().encode()]
    for second in (value, b"other"):
        error = refusal([*headers, (name.encode(), second)], PROTOBUF)
        assert (error.reason, name.lower() in str(error)) == (MALFORMED, True)


@pytest.mark.parametrize("value", [b"\xff", b"documents/flow_runs/\xe9", b"\xed\xa0\x80", b"%FF", b"%ED%A0%80"])
def test_headers_that_are_not_utf_8(value: bytes) -> None:
    """Neither as they come nor once their escapes are read."""
    headers = [*binary(JSON, "application/json", attributes()).raw_headers, (b"ce-subject", value)]
    error = refusal(headers, JSON)
    assert (error.reason, "ce-subject" in str(error)) == (MALFORMED, True)


def test_foreign_headers_may_be_anything() -> None:
    """Other headers than an event's are not looked at."""
    headers = [*binary(JSON, "application/json", GIVEN).raw_headers, (b"x-a", b"\xff"), (b"x-a", b"1")]
    assert decode_http(headers, JSON).load() == THE_RUN


@pytest.mark.parametrize(
    ("headers", "mentions"),
    [
        ({"content-type": "application/cloudevents-batch+json"}, "one by one"),
        ({"content-type": "application/cloudevents-batch+protobuf"}, "one by one"),
        ({"content-type": "application/cloudevents+avro"}, "application/cloudevents+json"),
        ({"content-type": "application/cloudevents+protobuf"}, "application/cloudevents+json"),
        ({"content-type": "application/cloudevents; charset=utf-8"}, "application/cloudevents+json"),
        *(({"content-encoding": encoding}, "Content-Encoding") for encoding in ("gzip", "GZIP", "br", "deflate")),
        *(
            ({"content-type": kind}, "application/protobuf or")
            for kind in ("text/plain", "image/png", "json", "*/*")
        ),
        ({"content-type": "application/x-www-form-urlencoded"}, "application/protobuf or"),
    ],
)
def test_forms_that_are_not_understood(headers: dict[str, str], mentions: str) -> None:
    """Another form of the same event might be, so the reason is another one, and the answer says which."""
    usual = binary(JSON, "application/json", GIVEN)
    check(Sent({**usual.headers, **headers}, JSON), UNSUPPORTED, mentions)


def test_identity_is_no_encoding() -> None:
    """A body that says it is not encoded is taken."""
    usual = binary(JSON, "application/json", GIVEN)
    assert loaded(Sent({**usual.headers, "content-encoding": "Identity"}, JSON)) == THE_RUN


NOT_EVENTS = [b"", b"{", b"{}x", b"null", b"[]", b'"text"', b"5", b"\xff", b"[" * 100_000, b'{"data":' * 100_000]


@pytest.mark.parametrize("body", NOT_EVENTS, ids=lambda body: repr(body[:20]))
def test_structured_bodies_that_are_no_event(body: bytes) -> None:
    """A body that is not one JSON object is refused."""
    check(structured(body), MALFORMED, "")


@pytest.mark.parametrize("wrong", [5, 1.5, True, [], {}, [UPDATED]])
@pytest.mark.parametrize("name", [*REQUIRED, "subject", "document", "datacontenttype"])
def test_structured_attributes_of_another_type(name: str, wrong: Any) -> None:
    """An attribute that is not text is refused by name."""
    check(structured({**GIVEN, name: wrong}), MALFORMED, name)


@pytest.mark.parametrize("data", ["text", 5, True, [], {"value": 5}, {"value": {"fields": {"a": 5}}}])
def test_structured_data_of_another_type(data: Any) -> None:
    """Data in JSON is held to the same rules as in a body of its own."""
    check(structured({**GIVEN, "data": data}), MALFORMED, "must be an object")


@pytest.mark.parametrize("data", ["!", "YQ", "YQ==YQ==", "é", 5, True, [], {}])
def test_structured_data_that_is_not_base64(data: Any) -> None:
    """Nothing is guessed from base64 that is none."""
    check(structured({**GIVEN, "data_base64": data}), MALFORMED, "data_base64")


def test_structured_data_given_twice() -> None:
    """Of two forms of the data neither is believed."""
    check(structured({**GIVEN, "data": as_json(RUN, NAME), "data_base64": "e30="}), MALFORMED, "not both")


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        ("application/protobuf", "/w==", MALFORMED),
        ("application/json", "/w==", MALFORMED),
        ("text/plain", "YQ==", UNSUPPORTED),
    ],
)
def test_structured_data_under_another_name(kind: str, data: str, reason: str) -> None:
    """The data's own content type decides how its bytes are read."""
    check(structured({**GIVEN, "datacontenttype": kind, "data_base64": data}), reason, "")


@pytest.mark.parametrize("form", ["binary JSON", "structured"])
def test_data_that_nests_without_end(form: str) -> None:
    """Depth that JSON allows and Python does not is refused like any other nonsense."""
    level = '{"mapValue":{"fields":{"a":'
    data = '{"value":{"fields":{"a":' + level * 300 + '{"nullValue":null}' + "}}}" * 300 + "}}}"
    usual = FORMS[form]({}, NAME, GIVEN)
    body = data if form == "binary JSON" else json.dumps({**GIVEN, "data": 0})[:-2] + data + "}"
    assert json.loads(body)
    check(Sent(usual.headers, body.encode()), MALFORMED, "deep")


names = st.sampled_from([b"ce-id", b"CE-type", b"ce-source", b"ce-specversion", b"ce-subject", b"content-type"])
values = st.sampled_from([b"1.0", b"application/json", b"application/cloudevents+json", b"%ff", b""]) | st.binary()
bodies = st.binary() | st.sampled_from([PROTOBUF, JSON, json.dumps(GIVEN).encode()])


@given(st.lists(st.tuples(names | st.binary(min_size=1), values)), bodies)
def test_anything_at_all(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Whatever is sent is an event, or is refused with one of the two reasons."""
    try:
        decode_http(headers, body).load()
    except MalformedEnvelope as error:
        reasons = {error.reason}
    else:
        reasons = set()
    assert reasons <= {MALFORMED, UNSUPPORTED}
