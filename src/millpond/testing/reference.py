"""What the documents of a view must be: everything that arrived, sorted by one tuple and folded. Pure.

It shares no deciding code with the product (`plan`, `stamp`, `receipts`, `event_identity`), because it would share
its mistakes. Called by the worlds and, with several views, by the simulation of a user's views.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from millpond.core.errors import Poison
from millpond.core.model import Document, Ref
from millpond.core.timestamps import DAY_US, SECOND_US
from millpond.core.view import DELETE, Merge, Tally, View
from millpond.testing.asking import Asked

TAKEN, FILTERED, TOO_OLD, POISON = "taken", "filtered", "too old", "poison"
FUTURE_MAX_US = 300 * SECOND_US
# Fields that Millpond adds.
OURS = frozenset({"source", "ingestedAt"})
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# Sorts: (time, sequence, publish time, message id), or with the sequence first.
Rank = tuple[int, int, int, str]


class Take(msgspec.Struct, frozen=True, kw_only=True):
    """What one message means to one view."""

    asked: Asked
    state: str
    ref: Ref = Ref("", "")
    rank: Rank = (0, -1, 0, "")
    # Whether the payload has a time or an id of its own, by which copies of one event are recognised.
    identified: bool = False
    # Equal for the copies of one event.
    identity: str = ""
    content: Document = {}


def take(view: View, asked: Asked) -> Take:
    """The meaning of a message about which the view was asked, and raised nothing but InvalidEvent."""
    said, event = asked.said, asked.event
    if asked.is_poison:
        return Take(asked=asked, state=POISON)
    if said["wants"] is False or _is_unwanted(view, asked.content):
        return Take(asked=asked, state=FILTERED)
    own, sequence, published = said["time_of"], said["sequence_of"], event.publish_time
    happened = published if own is None else own
    if view.late_after_s:
        late = view.late_time_of(event, happened)
        if late < published - round(view.late_after_s * SECOND_US):
            return Take(asked=asked, state=TOO_OLD)
    at = published if happened > published + FUTURE_MAX_US else happened
    counter = -1 if sequence is None else sequence
    first, second = (counter, at) if view.sequence_first else (at, counter)
    identified = event.event_id is not None or said["identity_time_of"] is not None
    return Take(
        asked=asked,
        state=TAKEN,
        ref=Ref(said["collection_of"], said["id_of"]),
        rank=(first, second, published, event.message_id),
        identified=identified,
        identity=_identity(asked) if identified else event.message_id,
        content={} if isinstance(view, Tally) else _content(view, asked),
    )


def fold(view: View, takes: Iterable[Take]) -> dict[Ref, Document]:
    """Every document, without the fields that Millpond adds."""
    taken = sorted((one for one in takes if one.state == TAKEN), key=lambda one: one.rank)
    documents: dict[Ref, Document] = {}
    if isinstance(view, Tally):
        return _tally(view, taken)
    for one in taken:
        before = documents.get(one.ref, {}) if isinstance(view, Merge) else {}
        documents[one.ref] = {**before, **one.content}
    return documents


def _tally(view: Tally, taken: Iterable[Take]) -> dict[Ref, Document]:
    """Each event once. The fold must not depend on the order, so the order here is any."""
    documents: dict[Ref, Document] = {}
    counted: set[tuple[Ref, str]] = set()
    for one in taken:
        if (one.ref, one.identity) not in counted:
            counted.add((one.ref, one.identity))
            try:
                folded = view.fold(one.asked.event, copy.deepcopy(documents.get(one.ref, {})))
            except Poison:
                continue
            documents[one.ref] = {name: value for name, value in folded.items() if name not in OURS}
    return copy.deepcopy(documents)


def _is_unwanted(view: View, content: Any) -> bool:
    return content is None or (isinstance(view, Merge) and not content)


def _content(view: View, asked: Asked) -> Document:
    said = asked.content
    content = {"deleted": True} if said is DELETE else {k: v for k, v in said.items() if k not in OURS}
    if view.retention_days is not None:
        keep_us = round(view.retention_days * DAY_US)
        content["expireAt"] = _EPOCH + dt.timedelta(microseconds=asked.event.publish_time + keep_us)
    return content


def _identity(asked: Asked) -> str:
    event, said = asked.event, asked.said
    if event.event_id is not None:
        return json.dumps([event.event_id, said["identity_time_of"], said["sequence_of"]])
    return json.dumps([event.payload, said["identity_time_of"]], sort_keys=True)
