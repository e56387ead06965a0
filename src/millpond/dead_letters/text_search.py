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
from millpond.core.collections import LETTERS
from millpond.core.model import Snapshot
from millpond.core.ports import StoreWithCatalog
from millpond.dead_letters.correction import part_refs, unpack
from millpond.dead_letters.filter import views_text
from millpond.dead_letters.store import attributes_text

# Each may have almost a megabyte.
_READ_AT_ONCE = 25
# Opened in a thread from this size on.
_LARGE_BYTES = 64 * 1024
_BEFORE_CHARS, _AFTER_CHARS = 40, 80
# A document that another program, or an unknown build, wrote.
# Of a document that is no letter of ours: another program may write to the collection.
_UNREADABLE = (zlib.error, msgspec.MsgspecError, KeyError, TypeError, AttributeError)
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
            match = None
            try:
                match = find_in_fields(letter, text)
                if match is None and is_too_large:
                    unopened += 1
                elif match is None:
                    bytes_left -= size
                    match = await _find_in_payload(store, letter, text)
            except _UNREADABLE:
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


async def _find_in_payload(store: StoreWithCatalog, letter: Snapshot, text: str) -> FoundText | None:
    refs = part_refs(letter)
    snapshots = await store.read(refs) if refs else []
    parts = [part.data for part in snapshots if part.data is not None]
    if len(parts) < len(refs):
        # It was purged or edited meanwhile.
        return None

    def look() -> FoundText | None:
        delivery = unpack(letter.data or {}, parts)
        wanted = _as_in_json(text)
        for field, value in (
            ("payload", _decoded(delivery.data)),
            ("corrected payload", _decoded(delivery.correction)),
            ("attributes", attributes_text(delivery)),
        ):
            excerpt = _excerpt(value, wanted)
            if excerpt is not None:
                return FoundText(letter, field, excerpt)
        return None

    is_small = not parts and _size(letter) < _LARGE_BYTES
    return look() if is_small else await in_thread(look)


def _decoded(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _size(letter: Snapshot) -> int:
    """Bytes of its payload, and of the corrected one."""
    data = letter.data or {}
    edits = data.get("edits")
    last = edits[-1] if isinstance(edits, list) and edits and isinstance(edits[-1], dict) else {}
    return sum(size for size in (data.get("size"), last.get("size")) if isinstance(size, int))


def _as_in_json(text: str) -> list[str]:
    """The text, and the forms it has inside JSON: with escapes for quotes, and maybe for all but ASCII."""
    escaped = (json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True))
    return list(dict.fromkeys([text, *escaped]))


def _unfolded(whole: str, at: int) -> str:
    """The beginning of the text whose folded form has `at` characters, at least."""
    low, high = 0, len(whole)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(whole[:middle].casefold()) >= at else (middle + 1, high)
    return whole[:low]


def _excerpt(whole: str, wanted: list[str]) -> str | None:
    """The first place of one of the texts with what stands around it; None if there is none."""
    folded = whole.casefold()
    for text in wanted:
        at = folded.find(text.casefold())
        if at >= 0:
            if len(folded) != len(whole):
                # Folding made characters longer ("ß"), so the places differ.
                at = len(_unfolded(whole, at))
            start = max(0, at - _BEFORE_CHARS)
            end = at + len(text) + _AFTER_CHARS
            return ("…" if start else "") + whole[start:end] + ("…" if end < len(whole) else "")
    return None
