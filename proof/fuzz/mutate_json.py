"""A JSON tree that may hold duplicate keys and invalid text, and mutations of it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Raw(NamedTuple):
    """Bytes written into the JSON unchanged, in place of a value or a name."""

    text: bytes


class Fields(list[list[Any]]):
    """An object as a list of name and value, so that a name may come twice."""


def tree(value: Any) -> Any:
    """A plain value as a tree of `Fields` and lists."""
    if isinstance(value, dict):
        return Fields([name, tree(inner)] for name, inner in value.items())
    if isinstance(value, list):
        return [tree(inner) for inner in value]
    return value


def written(node: Any, *, ascii_only: bool = True) -> bytes:
    """The tree as bytes."""
    if isinstance(node, Raw):
        return node.text
    if isinstance(node, Fields):
        pairs = (
            written(name, ascii_only=ascii_only) + b":" + written(inner, ascii_only=ascii_only)
            for name, inner in node
        )
        return b"{" + b",".join(pairs) + b"}"
    if isinstance(node, list):
        return b"[" + b",".join(written(inner, ascii_only=ascii_only) for inner in node) + b"]"
    return json.dumps(node, ensure_ascii=ascii_only).encode(errors="surrogatepass")


def nested(levels: int, opening: bytes = b"[", closing: bytes = b"]") -> Raw:
    return Raw(opening * levels + (b"1" if b":" in opening else b"") + closing * levels)


ODD_TEXTS: tuple[Any, ...] = (
    *("", " ", "\t", "a\nb", "a\x00b", "\x7f", "\u2028", "\ufeff", "\u200b", "é", "💥", "ﬃ", "İ", "ß", "\u0661"),
    *(".", "..", "/", "a/b", "%", "%2F", "__", "__x__", "_a_", "a__b", "-", "null", "true", "NaN", "1e5", "0x10"),
    *("x" * 256, "x" * 257, "é" * 129, "x" * 1_501, "/" * 600, "%" * 256, "x" * 3_000, "'; DROP TABLE events;--"),
    *("market-ticks", "system.events", "topic", "market.tick", "projects/p/subscriptions/s", "\x1b[2J", "<b>"),
    Raw(rb'"\ud800"'),
    Raw(rb'"\udc00\ud800"'),
    Raw(rb'"\u0000"'),
    Raw(rb'"\uD83D\uDCA5"'),
    Raw(rb'"\x"'),
    Raw(b'"\xff"'),
    Raw(b'"\xed\xa0\x80"'),
    Raw(b'"\xc0\xaf"'),
    Raw(b'"a\nb"'),
    Raw(b'"open'),
)
ODD_NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 1.5, -0.0, 2**31, 2**31 + 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30),
    *(1e300, 5e-324, 1767873600, 1767873600000, 1767873600.5, 99999999999, 10**18),
    *(Raw(text) for text in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"01", b"+1", b"1.", b".5")),
    *(Raw(text) for text in (b"0x10", b"1_000", b"-", b"1e", b"1" + b"0" * 400, b"0." + b"1" * 400, b"1E+2")),
)
ODD_TIMES: tuple[Any, ...] = (
    *("2026-01-08T12:00:00Z", "2026-01-08t12:00:00z", "2026-01-08 12:00:00+00:00", "2026-01-08T12:00:00.1Z"),
    *("2026-01-08T12:00:00.123456789Z", "2026-01-08T12:00:00+14:00", "2026-01-08T12:00:00-23:59"),
    *("2026-01-08T12:00:00", "2026-01-08", "2026-01-08T12:00Z", "20260108T120000Z", "2026-W02-4T12:00:00Z"),
    *("2026-01-08T24:00:00Z", "2026-01-08T23:59:60Z", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z"),
    *("1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "2199-12-31T23:59:59.999999Z", "2200-01-01T00:00:00Z"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z"),
    *("yesterday", "", " 2026-01-08T12:00:00Z", "2026-01-08T12:00:00Z\n", "2026-01-08T12:00:00.Z", "1767873600"),
    *("٢٠٢٦-01-08T12:00:00Z", 0, 1, -1, 1767873600, 1767873600000, 1767873600000000, 1e300, True, None, [], {}),
)
ODD_KINDS: tuple[Any, ...] = (
    *(None, True, False, Fields(), [], [[]], [None], [[[1]]]),
    *(nested(levels) for levels in (30, 101, 1_000, 20_000)),
    *(nested(levels, b'{"a":', b"}") for levels in (19, 25, 101, 1_000)),
    *(Raw(text) for text in (b"", b"nul", b"undefined", b"'a'", b"{,}", b"[1,]", b"/**/1", b"\x00", b"{}{}")),
)
ODD_NAMES: tuple[Any, ...] = (
    *("", "__x__", "__proto__", "a.b", "a/b", "`", "messageid", "MESSAGEID", "message_id", "publish_time", "é"),
    *("payload", "event_type", "eventType", "eventId", "topic", "data", "deleted", "source", "x" * 1_501),
    *(Raw(text) for text in (rb'"\ud800"', b"1", b"'a'", b"null", b'"\xff"', b'"data"')),
)
_ANYTHING = (ODD_TEXTS, ODD_NUMBERS, ODD_TIMES, ODD_KINDS)
_TIMELY = ("time", "ts", "at", "attempt")


class Place(NamedTuple):
    """The position of a value: an index in an object or a list."""

    holder: Any
    at: int

    @property
    def value(self) -> Any:
        held = self.holder[self.at]
        return held[1] if isinstance(self.holder, Fields) else held

    @property
    def name(self) -> str:
        name = self.holder[self.at][0] if isinstance(self.holder, Fields) else ""
        return name.lower() if isinstance(name, str) else ""

    def put(self, value: Any) -> None:
        if isinstance(self.holder, Fields):
            self.holder[self.at] = [self.holder[self.at][0], value]
        else:
            self.holder[self.at] = value


def places(node: Any) -> Iterator[Place]:
    """Every value below this one."""
    if not isinstance(node, list):
        return
    for index in range(len(node)):
        place = Place(node, index)
        yield place
        yield from places(place.value)


def odd_value(rng: random.Random, name: str = "") -> Any:
    """An unexpected value; in place of a time, often an unusual time."""
    if name.endswith(_TIMELY) and rng.random() < 0.7:
        return tree(rng.choice(ODD_TIMES))
    return tree(copy.deepcopy(rng.choice(rng.choice(_ANYTHING))))


def _delete(rng: random.Random, place: Place, _: Any) -> None:
    del rng, place.holder[place.at]


def _repeat(rng: random.Random, place: Place, _: Any) -> None:
    again = copy.deepcopy(place.holder[place.at])
    if isinstance(place.holder, Fields) and rng.random() < 0.6:
        again[1] = odd_value(rng, place.name)
    place.holder.insert(rng.randint(0, len(place.holder)), again)


def _retype(rng: random.Random, place: Place, _: Any) -> None:
    place.put(odd_value(rng, place.name))


def _swap(rng: random.Random, place: Place, root: Any) -> None:
    other = rng.choice([*places(root)])
    mine, theirs = copy.deepcopy(place.value), copy.deepcopy(other.value)
    place.put(theirs)
    if other.at < len(other.holder):
        other.put(mine)


def _nest(rng: random.Random, place: Place, _: Any) -> None:
    value = place.value
    for _level in range(rng.choice((1, 1, 2, 5, 22))):
        value = [value] if rng.random() < 0.5 else Fields([["a", value]])
    place.put(value)


def _rename(rng: random.Random, place: Place, root: Any) -> None:
    if not isinstance(place.holder, Fields):
        _retype(rng, place, root)
        return
    name = place.holder[place.at][0]
    if isinstance(name, str) and name and rng.random() < 0.5:
        renamed: Any = rng.choice((name.upper(), name.lower(), name + " ", name[:-1], name.swapcase()))
    else:
        renamed = rng.choice(ODD_NAMES)
    place.holder[place.at] = [renamed, place.value]


def _lengthen(rng: random.Random, place: Place, _: Any) -> None:
    if isinstance(place.value, str):
        place.put(place.value + rng.choice((" ", "\x00", "é", "=", "Z", "0")) * rng.choice((1, 1, 40, 400)))
    else:
        place.put("x" * rng.choice((10, 300, 5_000)))


def _add(rng: random.Random, place: Place, _: Any) -> None:
    extra: Any = odd_value(rng)
    if isinstance(place.holder, Fields):
        extra = [rng.choice(ODD_NAMES), extra]
    place.holder.insert(rng.randint(0, len(place.holder)), extra)


_WAYS: tuple[Callable[[random.Random, Place, Any], None], ...] = (
    *(_delete, _delete, _repeat, _retype, _retype, _retype, _swap, _nest, _rename, _rename, _lengthen, _add, _add),
)


def spoil(rng: random.Random, root: Any, times: int) -> None:
    """Mutate the tree in place, this many times, at random positions."""
    for _ in range(times):
        found = [*places(root)]
        if not found:
            return
        rng.choice(_WAYS)(rng, rng.choice(found), root)
