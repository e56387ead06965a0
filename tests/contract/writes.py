"""What tests ask of stores: few documents, every type, each precondition, and the log with repeats."""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import time
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from millpond.core import timestamps
from millpond.core.model import (
    Delete,
    Delivery,
    Document,
    LogEntry,
    Outcome,
    Patch,
    Put,
    Ref,
    Result,
    Version,
    ViewResult,
    Write,
)

START = 1_767_876_000_000_000
# Some in one collection, one of which sorts after all ASCII; one further down; receipts, which SQLite keeps apart.
REFS = (
    *(Ref("ponds", "a"), Ref("ponds", "b"), Ref("ponds", "é"), Ref("ponds/a/fish", "x")),
    *(Ref("ops_dedupe", "r1"), Ref("ops_dedupe", "r2")),
)
ILLEGAL_REFS = (Ref("ponds", "__x__"), Ref("ponds", "a/b"), Ref("ponds/a", "b"))
# Message ids, event ids, and one that is both.
EVENTS = ("m1", "m2", "m3", "e1", "no-such-letter")


class Wish(enum.Enum):
    """Which version a write says its document has."""

    RIGHT = "the current one"
    STALE = "one it had before"
    ABSENT = "none"
    FOREIGN = "another document's"


KINDS = ("put", "patch", "delete")


class Wished(NamedTuple):
    kind: str
    ref: Ref
    wish: Wish
    # Which of the versions that fit the wish.
    pick: int
    content: Any


_EXPIRIES = st.integers(0, 3).map(lambda s: timestamps.to_datetime(START + s * 1_000_000 + 1)) | st.sampled_from(
    (timestamps.to_datetime(START), "soon", None)
)
_SCALARS = st.sampled_from(
    (None, True, False, 0, 1, 1.0, -0.0, -(2**63), 2**63 - 1, 1e300, "", "naïve 🌊\x00", b"", b"\x00\xff",
     timestamps.to_datetime(START + 1))
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.dictionaries(st.sampled_from(("n", "a.b", "ключ")), inner, max_size=2)
        | st.lists(_SCALARS | st.dictionaries(st.just("n"), inner, max_size=1), max_size=2)
    ),
    max_leaves=4,
)
_DOCUMENTS = st.fixed_dictionaries({}, optional={"n": _VALUES, "m": _VALUES, "a.b": _VALUES, "expireAt": _EXPIRIES})
_NAIVE = timestamps.to_datetime(START).replace(tzinfo=None)
_UNSTORABLE_VALUES = st.sampled_from(([[1]], 2**63, {"__x__": 1}, {"": 1}, _NAIVE, "\ud800", {1}))
_PATHS = st.sampled_from((("n",), ("m", "n"), ("m", "a.b"), ("a.b", "c`d\\", "e"), ("new",)))
_MANY_PATHS = st.lists(_PATHS, max_size=2, unique_by=lambda path: path[0])
RIGHT = (Wish.RIGHT,)
WRONG = (Wish.STALE, Wish.ABSENT, Wish.FOREIGN)
MOSTLY_RIGHT = (*RIGHT * 9, *WRONG)


@st.composite
def writes(
    draw: st.DrawFn, there: Collection[Ref], wishes: Sequence[Wish] = RIGHT, *, storable: bool = True
) -> Wished:
    """A write under one of the preconditions wished for. Of what is not `there` only a put can be right."""
    ref, wish = draw(st.sampled_from(REFS)), draw(st.sampled_from(wishes))
    kind = draw(st.sampled_from(KINDS if ref in there or wish is not Wish.RIGHT else KINDS[:1]))
    content: Any = None
    if kind == "put":
        content = draw(_DOCUMENTS)
    elif kind == "patch":
        content = {path: draw(_VALUES) for path in draw(_MANY_PATHS)}
        if draw(st.booleans()):
            content["expireAt",] = draw(_EXPIRIES)
    if not storable and kind == "delete":
        ref, wish = draw(st.sampled_from(ILLEGAL_REFS)), Wish.FOREIGN
    elif not storable:
        content[("bad",) if kind == "patch" else "bad"] = draw(_UNSTORABLE_VALUES)
    return Wished(kind, ref, wish, draw(st.integers(0, 20)), content)


_ENTRIES = st.fixed_dictionaries(
    {
        "message": st.sampled_from((("m1", None, None), ("m2", "e1", b'{"x":1}'), ("m3", "m1", b""))),
        "topic": st.sampled_from(("t", "t", "u", "")),
        "outcome": st.sampled_from((Outcome.APPLIED, Outcome.DUPLICATE, Outcome.POISON)),
        "replay": st.booleans(),
    }
)


def _replayed_alone(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A commit in which a message is buried and replayed at once is one no engine makes."""
    messages = [fields["message"] for fields in entries]
    return [{**fields, "replay": fields["replay"] and messages.count(fields["message"]) == 1} for fields in entries]


LOGS = st.lists(_ENTRIES, max_size=4).map(_replayed_alone)


def is_storable(one: Wished) -> bool:
    spoiled = one.content is not None and ("bad" in one.content or ("bad",) in one.content)
    return one.ref not in ILLEGAL_REFS and not spoiled


def write_of(one: Wished, base: Version | None) -> Write:
    if one.kind == "put":
        return Put(one.ref, base, one.content)
    assert base is not None
    return Patch(one.ref, base, one.content) if one.kind == "patch" else Delete(one.ref, base)


_ARRIVALS = itertools.count(1_000)


def now_us() -> int:
    """For the times of entries that are read on: Firestore's reader compares them with Firestore's time."""
    return time.time_ns() // 1_000


def entry(message_id: str, outcome: Outcome = Outcome.APPLIED, *, topic: str = "t", **more: Any) -> LogEntry:
    """What the log is told of a message; `more` are fields of the entry or of its delivery.

    Each arrives after the one before, unless its time is given: no two messages of a log arrive at once.
    """
    delivery = Delivery(
        message_id=message_id,
        publish_time=7,
        data=more.get("data", b'{"x":1}'),
        attributes={"k": "v"},
        subscription=more.get("subscription", ""),
        attempt=3,
    )
    named = more.get("views", {"v": outcome})
    views = [ViewResult(view, "ponds/a", became, "applied", "stamp", "winner") for view, became in named.items()]
    return LogEntry(
        delivery=delivery,
        topic=topic,
        event_id=more.get("event_id"),
        arrived_at=more["arrived_at"] if "arrived_at" in more else next(_ARRIVALS),
        result=Result(outcome, "applied", topic, views, buried=outcome is Outcome.POISON),
        replay=more.get("replay", False),
    )


def typed(value: Document | Any) -> Any:
    """A value with its types beside it: 1, 1.0 and True are equal, and not the same."""
    if isinstance(value, dict):
        return {name: typed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, dt.datetime):
        return (dt.datetime, timestamps.from_datetime(value))
    return (type(value), repr(value) if isinstance(value, float) else value)
