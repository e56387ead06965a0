"""Every fault on the wire and what must come of it: one table, a row for every combination.

`on` is the call that fails: the read before planning, or the commit. The words in the last three columns say what
the first delivery of the seven messages is answered while the fault strikes once, three times, or for ever:

    usual      200, as if nothing had happened: the call was repeated
    known      200, all duplicates: the commit had been applied, and reading again showed it
    away       503 store_unavailable: the tries were used up
    contended  503 contention: the time was used up
    denied     503 access_denied at once, CRITICAL: only people can heal it
    one        200: halving the batch left the first message alone with the refusal, so it is buried, ALERT;
               the others as usual, or known where the commit had been applied
    buried     200: each message alone is refused, and buried, ALERT. The second copy of one meets its own letter,
               which cannot be read either: 503 letter_refused
    refused    503 letter_refused, ALERT: not even a letter is taken

Where a commit fails *after* it was applied, fewer faults strike than could: reading again ends it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from grpc import StatusCode

from tests.common.firestore_proxy import COMMIT, READ

ONCE, THRICE, FOR_EVER = "once", "thrice", "for ever"
TIMES: dict[str, int | None] = {ONCE: 1, THRICE: 3, FOR_EVER: None}
METHODS = {"read": READ, "commit": COMMIT}
TABLE = """
kind                on      position  once    thrice  for ever
UNAVAILABLE         read    before    usual   usual   away
UNAVAILABLE         read    after     usual   usual   away
UNAVAILABLE         commit  before    usual   usual   away
UNAVAILABLE         commit  after     known   known   away
ABORTED             read    before    usual   usual   away
ABORTED             read    after     usual   usual   away
ABORTED             commit  before    usual   usual   contended
ABORTED             commit  after     known   known   contended
RESOURCE_EXHAUSTED  read    before    usual   usual   away
RESOURCE_EXHAUSTED  read    after     usual   usual   away
RESOURCE_EXHAUSTED  commit  before    usual   usual   away
RESOURCE_EXHAUSTED  commit  after     known   known   away
DEADLINE_EXCEEDED   read    before    usual   usual   away
DEADLINE_EXCEEDED   read    after     usual   usual   away
DEADLINE_EXCEEDED   commit  before    usual   usual   away
DEADLINE_EXCEEDED   commit  after     known   known   away
INTERNAL            read    before    usual   usual   away
INTERNAL            read    after     usual   usual   away
INTERNAL            commit  before    usual   usual   away
INTERNAL            commit  after     known   known   away
UNKNOWN             read    before    usual   usual   away
UNKNOWN             read    after     usual   usual   away
UNKNOWN             commit  before    usual   usual   away
UNKNOWN             commit  after     known   known   away
PERMISSION_DENIED   read    before    denied  denied  denied
PERMISSION_DENIED   read    after     denied  denied  denied
PERMISSION_DENIED   commit  before    denied  denied  denied
PERMISSION_DENIED   commit  after     denied  denied  denied
INVALID_ARGUMENT    read    before    denied  denied  denied
INVALID_ARGUMENT    read    after     denied  denied  denied
INVALID_ARGUMENT    commit  before    usual   one     refused
INVALID_ARGUMENT    commit  after     known   one     refused
hang                read    before    usual   usual   away
hang                read    after     usual   usual   away
hang                commit  before    usual   usual   away
hang                commit  after     known   known   away
reset               read    before    usual   usual   away
reset               read    after     usual   usual   away
reset               commit  before    usual   usual   away
reset               commit  after     known   known   away
lost reply          read    after     usual   usual   away
lost reply          commit  after     known   known   away
"""
# 10 kinds, before and after, on read and commit, and a lost reply only after; each once, thrice and for ever.
ROWS = 126
# What the client makes of a connection that says nothing, or is gone.
_CODES = {"hang": "DEADLINE_EXCEEDED", "reset": "UNAVAILABLE", "lost reply": "UNAVAILABLE"}


class Row(NamedTuple):
    kind: str
    on: str
    position: str
    times: str
    word: str

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.on}, {self.position}, {self.times}"

    @property
    def code(self) -> str:
        """The gRPC status the client sees."""
        return _CODES.get(self.kind, self.kind)

    @property
    def applied_first(self) -> bool:
        """Whether the commit that failed first had been applied."""
        return self.on == "commit" and self.position == "after"

    @property
    def strike(self) -> StatusCode | str:
        return self.kind if self.kind in _CODES else StatusCode[self.kind]


def rows() -> list[Row]:
    head, *lines = (re.split(r" {2,}", line) for line in TABLE.strip().splitlines())
    return [
        Row(kind, on, position, times, word)
        for kind, on, position, *words in lines
        for times, word in zip(head[3:], words, strict=True)
    ]


class Line(NamedTuple):
    """What one delivery is answered, and its log line says."""

    status: int
    outcome: str
    reason: str
    severity: str = "INFO"
    error_code: str | None = None


_APPLIED = Line(200, "applied", "applied")
_SAME_MESSAGE = Line(200, "duplicate", "duplicate_message_noop")
SAME_EVENT = Line(200, "duplicate", "duplicate_event_noop")
_STALE = Line(200, "stale_ignored", "stale_event_ignored")
# Of the seven messages in `traffic.FIRST`, in their order.
USUAL = [_APPLIED, _APPLIED, _STALE, _APPLIED, _SAME_MESSAGE, SAME_EVENT, _APPLIED]
KNOWN = [_SAME_MESSAGE] * 5 + [SAME_EVENT, _SAME_MESSAGE]


def expected(row: Row) -> list[Line]:
    """The lines of the first delivery, by message."""
    if row.word == "usual":
        return USUAL
    if row.word == "known":
        return KNOWN
    buried = Line(200, "poison", "write_refused", "ALERT", row.code)
    refused = Line(503, "retry", "letter_refused", "ALERT", row.code)
    if row.word == "one":
        return [buried, *(KNOWN if row.applied_first else USUAL)[1:]]
    same = {
        "away": Line(503, "retry", "store_unavailable", "ERROR", row.code),
        "contended": Line(503, "retry", "contention", "ERROR"),
        "denied": Line(503, "retry", "access_denied", "CRITICAL", row.code),
        "refused": refused,
    }
    return [same[row.word]] * len(USUAL)
