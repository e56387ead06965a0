"""A pond with the built-in views, one message at a time, its documents as JSON shows them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from millpond.core import timestamps
from millpond.core.model import Delivery, Document, Result
from tests.common.pond import Pond
from tests.views.examples import PUBLISHED, Example

_ids = itertools.count(1)


class Viewed(Pond):
    """The built-in views under these settings."""

    def __init__(self, **environment: str) -> None:
        super().__init__(None, **environment)

    def sent(
        self, payload: Document, message_id: str = "", published: str = PUBLISHED, topic: str | None = None
    ) -> Result:
        """What became of a message, which has an id of its own unless one is given; poison is raised."""
        message = Delivery(
            message_id=message_id or f"m-{next(_ids)}",
            publish_time=timestamps.parse(published, "publishTime"),
            data=json.dumps(payload).encode(),
            attributes={} if topic is None else {"topic": topic},
            subscription="projects/p/subscriptions/s",
        )
        return self.send(message)[0]

    def reason(self, payload: Document, **message: Any) -> str:
        """The reason of the first view that the message feeds."""
        return self.sent(payload, **message).views[0].reason

    def applied(self, payload: Document, **message: Any) -> list[str]:
        """The documents of a message that was applied in every view."""
        result = self.sent(payload, **message)
        assert {view.outcome for view in result.views} == {"applied"}, result
        return [view.doc for view in result.views]

    def shown(self, path: str) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.get(path)))
        return document

    def plain(self, path: str) -> dict[str, Any]:
        """A document without what no table lists in full: our clock and the stamps."""
        document = self.shown(path)
        document.pop("ingestedAt", None)
        for name in ("stamp", "stamps", "key"):
            document["source"].pop(name, None)
        return document


def check_example(example: Example) -> None:
    """Every field of the view's table, and nothing else."""
    pond = Viewed()
    paths = pond.applied(example.payload, message_id=example.message_id)
    assert {path: pond.plain(path) for path in paths} == example.documents


def check_order_times(names: Sequence[str], topic: str, payload: Document, field: str) -> None:
    """The view takes the first of these times that is there, in this order, then publish time.

    In an envelope and flat; null and blank times are missing.
    """
    flat = [name for name in names if name != "envelope"]
    blanks: tuple[Any, ...] = ({}, None, "", " \t ")
    for blank in blanks:
        _check_order_times(names, topic, payload, field, {"event_type": "x", "agent_name": "a"}, blank)
        _check_order_times(flat, topic, payload, field, {}, blank)


def _check_order_times(
    names: Sequence[str], topic: str, payload: Document, field: str, envelope: Document, blank: Any
) -> None:
    """`blank` stands in the place of every earlier time; an empty map leaves them out."""
    pond = Viewed()
    for first in range(len(names), -1, -1):
        times = {} if blank == {} else dict.fromkeys(names[:first], blank)
        # The preferred one is the newest of what is left, so that each message supersedes the one before.
        for rank, name in enumerate(names[first:]):
            times[name] = f"2026-01-08T12:00:{(len(names) - first) * 2 - rank:02d}Z"
        outer = {**envelope, "ts": times.pop("envelope")} if "envelope" in times else envelope
        inner = {**payload, **times}
        view = pond.sent({**outer, "payload": inner} if envelope else inner, topic=topic).views[0]
        assert view.reason == "applied", first
        document = pond.shown(view.doc)
        found = document["source"].get(field) or document[field]
        assert found == f"2026-01-08T12:00:{(len(names) - first) * 2:02d}Z"


def check_adopted(stored: Document, path: str, older: Document, newer: Document, **environment: str) -> None:
    """A document that an earlier consumer wrote is ordered by its own times: `older` is stale, `newer` applied."""
    pond = Viewed(**environment)
    pond.put(path, stored)
    assert pond.reason(older, published="2026-01-08T12:30:00Z") == "stale_event_ignored"
    (doc,) = pond.applied(newer, published="2026-01-08T12:30:00Z")
    assert doc == path
