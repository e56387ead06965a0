"""Finds letters by text in their fields and their payloads. Reads only. Called by the API's search.

Letters hold their delivery compressed, and no index holds its words: each is opened in turn, by id. A call is
bounded in letters, bytes and time, and says how far it came, so that the next one can continue. Large payloads are
opened in a thread: the event loop goes on.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from millpond.concurrency import in_thread
from millpond.core.collections import LETTERS, part_ref
from millpond.core.model import Delivery, Document, Snapshot
from millpond.core.ports import StoreWithCatalog
from millpond.dead_letters.filter import views_text
from millpond.dead_letters.store import attributes_text

# Each may have almost a megabyte.
_READ_AT_ONCE = 25
# Opened in a thread from this size on.
_LARGE_BYTES = 64 * 1024
_BEFORE_CHARS, _AFTER_CHARS = 40, 80
_FIELDS = ("messageId", "reason", "error", "topic", "eventType", "subscription", "orderingKey", "attributes")


class SearchLimits(NamedTuple):
    letters: int = 2_000
    # Of payloads, before they were compressed.
    payload_bytes: int = 64 * 1024 * 1024
    seconds: float = 2.0
    found: int = 50


LIMITS = SearchLimits()


class FoundText(NamedTuple):
    """A letter that holds the text: in which field, and what stands around it."""

    letter: Snapshot
    field: str
    excerpt: str


class TextSearch(NamedTuple):
    """`unopened` letters were skipped: too large, or damaged. `position` is where to continue; None at the end."""

    found: list[FoundText]
    scanned: int
    unopened: int
    position: str | None


async def find_text(
    store: StoreWithCatalog,
    text: str,
    after: str | None = None,
    limits: SearchLimits = LIMITS,
    clock: Callable[[], float] = time.monotonic,
) -> TextSearch:
    """The letters that hold the text, without regard to case, by id."""
    found: list[FoundText] = []
    scanned = unopened = 0
    bytes_left, ends_at, position = limits.payload_bytes, clock() + limits.seconds, after
    while True:
        page = await store.list_documents(LETTERS, _READ_AT_ONCE, position)
        for letter in page:
            size = _size(letter)
            is_too_large = size > limits.payload_bytes
            if scanned and (
                scanned == limits.letters
                or len(found) == limits.found
                or (size > bytes_left and not is_too_large)
                or clock() >= ends_at
            ):
                return TextSearch(found, scanned, unopened, position)
            match = find_in_fields(letter, text)
            if match is None and is_too_large:
                unopened += 1
            elif match is None:
                bytes_left -= size
                try:
                    match = await _find_in_payload(store, letter, text, limits.payload_bytes)
                except (zlib.error, msgspec.MsgspecError):
                    unopened += 1
            scanned += 1
            position = letter.ref.id
            if match is not None:
                found.append(match)
        if len(page) < _READ_AT_ONCE:
            return TextSearch(found, scanned, unopened, None)


def find_in_fields(letter: Snapshot, text: str) -> FoundText | None:
    """The first field that holds the text."""
    for field, value in _texts(letter):
        excerpt = _excerpt(value, [text])
        if excerpt is not None:
            return FoundText(letter, field, excerpt)
    return None


def _texts(letter: Snapshot) -> Iterator[tuple[str, str]]:
    data = letter.data or {}
    yield "id", letter.ref.id
    yield from ((name, value) for name in _FIELDS if isinstance(value := data.get(name), str))
    yield "view", views_text(data)
    yield from (("error", str(refusal.get("error") or "")) for refusal in data.get("refusals") or ())


async def _find_in_payload(
    store: StoreWithCatalog, letter: Snapshot, text: str, bytes_max: int
) -> FoundText | None:
    packed = await _packed(store, letter)
    if packed is None:
        return None
    size = max(_size(letter), len(packed))

    def look() -> FoundText | None:
        delivery = _unpack(packed, bytes_max)
        for field, value in (
            ("payload", (delivery.data or b"").decode("utf-8", "replace")),
            ("attributes", attributes_text(delivery)),
        ):
            excerpt = _excerpt(value, _as_in_json(text))
            if excerpt is not None:
                return FoundText(letter, field, excerpt)
        return None

    return look() if size < _LARGE_BYTES else await in_thread(look)


async def _packed(store: StoreWithCatalog, letter: Snapshot) -> bytes | None:
    """The compressed delivery; None if it is not there, or was purged meanwhile."""
    data: Document = letter.data or {}
    packed = data.get("delivery")
    if isinstance(packed, bytes):
        return packed
    refs = [part_ref(letter.ref, name) for name in data.get("parts") or ()]
    contents = [(part.data or {}).get("delivery") for part in await store.read(refs)]
    parts = [content for content in contents if isinstance(content, bytes)]
    return b"".join(parts) if parts and len(parts) == len(refs) else None


def _unpack(packed: bytes, bytes_max: int) -> Delivery:
    unpacker = zlib.decompressobj()
    # The delivery has its attributes too, and they are small beside this.
    content = unpacker.decompress(packed, 2 * bytes_max)
    if unpacker.unconsumed_tail:
        raise zlib.error("larger than it says")
    return msgspec.msgpack.decode(content, type=Delivery)


def _size(letter: Snapshot) -> int:
    size = (letter.data or {}).get("size")
    return size if isinstance(size, int) else 0


def _as_in_json(text: str) -> list[str]:
    """The text, and the forms it has inside JSON: with escapes for quotes, and maybe for all but ASCII."""
    escaped = (json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True))
    return list(dict.fromkeys([text, *escaped]))


def _excerpt(whole: str, wanted: list[str]) -> str | None:
    """The first place of one of the texts with what stands around it; None if there is none."""
    folded = whole.casefold()
    for text in wanted:
        at = folded.find(text.casefold())
        if at >= 0:
            start = max(0, at - _BEFORE_CHARS)
            end = at + len(text) + _AFTER_CHARS
            return ("…" if start else "") + whole[start:end] + ("…" if end < len(whole) else "")
    return None
