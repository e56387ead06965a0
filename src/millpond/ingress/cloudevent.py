"""Decodes CloudEvents 1.0 from HTTP, binary and structured: headers and body become attributes and data.

The data is decoded only when the caller loads it: the attributes alone filter out most events. Called by the HTTP
endpoint for events, and by `functions`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from millpond.core.errors import MalformedEnvelope, json_type
from millpond.flow.event_filter import EventData
from millpond.ingress import document_event
from millpond.ingress.document_event import NO_DATA, REASON

Headers = list[tuple[bytes, bytes]]
_REQUIRED = ("specversion", "id", "source", "type")
_PROTOBUF = frozenset({"application/protobuf", "application/x-protobuf", "application/vnd.google.protobuf"})
_STRUCTURED = "application/cloudevents+json"
UNSUPPORTED = "unsupported_media_type"


class CloudEvent(NamedTuple):
    attributes: Mapping[str, str]
    load: Callable[[], EventData]


def decode_http(headers: Headers, body: bytes) -> CloudEvent:
    """Raises MalformedEnvelope, with the reason `unsupported_media_type` if another form might be accepted."""
    found = _by_name(headers)
    if found.get("content-encoding", "identity").strip().lower() != "identity":
        raise MalformedEnvelope("send the body without Content-Encoding", UNSUPPORTED)
    media_type = _media_type(found.get("content-type", ""))
    if media_type.startswith("application/cloudevents-batch"):
        raise MalformedEnvelope("events are taken one by one, not in batches", UNSUPPORTED)
    if media_type == _STRUCTURED:
        return _structured(body)
    if media_type.startswith("application/cloudevents"):
        raise MalformedEnvelope(f"of structured events only {_STRUCTURED} is understood", UNSUPPORTED)
    attributes = {
        name.removeprefix("ce-"): _unescaped(name, value) for name, value in found.items() if name.startswith("ce-")
    }
    return from_parts(attributes, found.get("content-type", ""), body)


def from_parts(attributes: Mapping[str, str], content_type: str, data: Any) -> CloudEvent:
    """An event that the caller has already split into parts: `data` is bytes, or decoded JSON."""
    for name in _REQUIRED:
        if not attributes.get(name):
            raise MalformedEnvelope(f"not a CloudEvent: {name} is missing (as a header: ce-{name})", REASON)
    if attributes["specversion"] != "1.0":
        raise MalformedEnvelope("only CloudEvents with specversion 1.0 are understood", REASON)
    return CloudEvent(attributes, lambda: _load(_media_type(content_type), data))


def _load(media_type: str, data: Any) -> EventData:
    if not isinstance(data, bytes):
        return document_event.from_json(data)
    if not data:
        return NO_DATA
    if media_type in _PROTOBUF:
        try:
            return document_event.decode_protobuf(data)
        except ModuleNotFoundError:
            text = "this server does not read protobuf: pip install 'millpond[gcp]', or have the trigger send JSON"
            raise MalformedEnvelope(text, UNSUPPORTED) from None
    if media_type in {"", "application/json", "text/json"} or media_type.endswith("+json"):
        return document_event.decode_json(data)
    raise MalformedEnvelope("send the event's data as application/protobuf or application/json", UNSUPPORTED)


def _structured(body: bytes) -> CloudEvent:
    try:
        event = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise MalformedEnvelope("the body is not a CloudEvent in JSON", REASON) from None
    if not isinstance(event, dict):
        raise MalformedEnvelope(f"a CloudEvent is a JSON object, not {json_type(event)}", REASON)
    data = event.pop("data", None)
    encoded = event.pop("data_base64", None)
    if encoded is not None:
        if data is not None:
            raise MalformedEnvelope("a CloudEvent has data or data_base64, not both", REASON)
        try:
            data = base64.b64decode(encoded, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise MalformedEnvelope("data_base64 is not base64", REASON) from None
    for name, value in event.items():
        if name in {*_REQUIRED, "subject", "document", "datacontenttype"} and not isinstance(value, str | None):
            raise MalformedEnvelope(f"{name} must be text, not {json_type(value)}", REASON)
    attributes = {name: value for name, value in event.items() if isinstance(value, str)}
    return from_parts(attributes, attributes.get("datacontenttype", ""), data)


def _by_name(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower()
        if name in found and (name.startswith("ce-") or name == "content-type"):
            # A proxy in between may have used the other value.
            raise MalformedEnvelope(f"the header {name} is given twice", REASON)
        try:
            found[name] = raw_value.decode()
        except UnicodeDecodeError:
            if name.startswith("ce-"):
                raise MalformedEnvelope(f"the header {name} is not UTF-8", REASON) from None
    return found


def _unescaped(name: str, value: str) -> str:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise MalformedEnvelope(f"the header {name} is not UTF-8 once its escapes are read", REASON) from None


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
