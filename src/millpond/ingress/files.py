"""Decodes files of messages: one JSON object a line → Delivery, or the line's fault. Pure. Called by `ingest`.

A line is either a push body as Pub/Sub sends it,

    {"message": {"data": "…base64…", "messageId": "1", "publishTime": "…"}, "subscription": "…"}

or the short form, whose data is the event itself:

    {"topic": "system.events", "data": {"service": "api", …}, "publishTime": "2026-01-08T12:34:56Z"}

Reading a file twice must change nothing, so everything about a delivery comes from the line. A missing message id
becomes a hash of the line and its number. A missing publish time is a fault, never "now".
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from millpond.core import timestamps
from millpond.core.decode import checked_message_id, decode_push
from millpond.core.errors import Poison
from millpond.core.model import Delivery

# The limits of the server for one request, and of Pub/Sub for one message.
LINE_BYTES_MAX = 14 * 1024 * 1024
DATA_BYTES_MAX = 10_000_000
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class FileLine(NamedTuple):
    """One line that is not blank: its delivery, or its fault."""

    number: int
    delivery: Delivery | None
    fault: str | None = None


class _ShortForm(msgspec.Struct, forbid_unknown_fields=True):
    """Unknown names are refused: a misspelt publishTime must not silently become another one."""

    data: msgspec.Raw
    topic: str | None = None
    attributes: dict[str, str] | None = None
    messageId: str | None = None  # noqa: N815 - the wire's names
    publishTime: str | int | float | None = None  # noqa: N815
    subscription: str = ""
    orderingKey: str | None = None  # noqa: N815


class _Probe(msgspec.Struct):
    """Distinguishes the two forms without decoding the content."""

    message: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_probe = msgspec.json.Decoder(_Probe).decode
_short_form = msgspec.json.Decoder(_ShortForm).decode


class LineCutter:
    """Chunks of bytes → whole lines. A line over the limit is cut short, so that memory stays bounded."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        lines = (self._rest + chunk).split(b"\n")
        # One byte over the limit is enough for `decode_lines` to see that it is over.
        self._rest = lines.pop()[: LINE_BYTES_MAX + 1]
        return lines

    def end(self) -> list[bytes]:
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


def decode_lines(lines: Iterable[bytes], *, first: int = 1, publish_time: int | None = None) -> Iterator[FileLine]:
    """`first`: the number of the first line; `publish_time`: for lines in the short form that have none."""
    for number, raw in enumerate(lines, start=first):
        line = raw.strip()
        if number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            continue
        try:
            yield FileLine(number, _decode(line, number, publish_time))
        except Poison as error:
            yield FileLine(number, None, str(error))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            yield FileLine(number, None, f"{error!s:.200}")
        except RecursionError:
            yield FileLine(number, None, "it nests too deeply")


def _decode(line: bytes, number: int, publish_time: int | None) -> Delivery:
    if len(line) > LINE_BYTES_MAX:
        raise Poison(f"it is over {LINE_BYTES_MAX} bytes")
    if _probe(line).message is msgspec.UNSET:
        return _from_short_form(_short_form(line), line, number, publish_time)
    # A file has no dead-letter policy: without an attempt number, poison is kept as a letter.
    return msgspec.structs.replace(decode_push(line), attempt=None)


def _from_short_form(short: _ShortForm, line: bytes, number: int, publish_time: int | None) -> Delivery:
    data = bytes(short.data).strip()
    if not data.startswith(b"{"):
        raise Poison("data must be a JSON object")
    if len(data) > DATA_BYTES_MAX:
        raise Poison(f"data is over {DATA_BYTES_MAX} bytes")
    if short.publishTime is not None:
        publish_time = timestamps.parse(short.publishTime, "publishTime")
    if publish_time is None:
        raise Poison("publishTime is missing: put it on the line, or give --publish-time for all that have none")
    attributes = dict(short.attributes or {})
    if short.topic is not None:
        attributes["topic"] = short.topic
    return Delivery(
        message_id=checked_message_id(short.messageId) if short.messageId else _message_id(line, number),
        publish_time=publish_time,
        data=data,
        attributes=attributes,
        subscription=short.subscription,
        ordering_key=short.orderingKey,
    )


def _message_id(line: bytes, number: int) -> str:
    digest = hashlib.sha256(b"%d\n%b" % (number, line)).digest()
    return f"line-{number}-{base64.b32encode(digest)[:26].decode().lower()}"
