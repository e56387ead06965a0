"""An in-memory pond for synchronous tests: publish events, read documents. The pytest plugin opens it.

It is a `Pond` on an event loop of its own, which runs only during a call.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar

from millpond.core import timestamps
from millpond.core.collections import LETTERS
from millpond.core.model import Delivery, Document, Result
from millpond.core.view import View
from millpond.pond import Pond
from millpond.testing.faults import CheckError

T = TypeVar("T")
# Tests have fixed dates: a tally must count an event of any year.
_RECEIPT_TTL_DAYS = 36_500
_LISTED_MAX = 1_000_000


class SyncPond:
    """A pond that a synchronous test calls. Every call returns when its result is durable."""

    def __init__(self, views: Sequence[View | type[View] | str]) -> None:
        _refuse_running_loop()
        self._pond = Pond(views=views, store="memory", settings={"RECEIPT_TTL_DAYS": _RECEIPT_TTL_DAYS})
        self._runner = asyncio.Runner()
        self._run(self._pond.__aenter__())

    def publish(
        self,
        topic: str,
        payload: Mapping[str, Any],
        *,
        event_id: str | None = None,
        attributes: Mapping[str, str] | None = None,
        publish_time: str | dt.datetime | None = None,
        message_id: str | None = None,
    ) -> Result:
        """Publish an event, as `Pond.publish` does. A publish time may be text."""
        if isinstance(publish_time, str):
            publish_time = timestamps.to_datetime(timestamps.parse(publish_time, "publish_time"))
        return self._run(
            self._pond.publish(
                topic,
                payload,
                event_id=event_id,
                attributes=attributes,
                publish_time=publish_time,
                message_id=message_id,
            )
        )

    def handle(self, delivery: Delivery) -> Result:
        """Deliver a message as a broker would."""
        return self._run(self._pond.handle(delivery))

    def get(self, view: str, key: object) -> Document | None:
        """The document with this key, or None."""
        return self._run(self._pond.get(view, key))

    def documents(self, collection: str) -> dict[str, Document]:
        """All documents of a collection, by id."""
        return self._run(self._list(collection))

    def letters(self) -> list[Document]:
        """The dead letters: `reason`, `error`, `messageId` and more."""
        return list(self.documents(LETTERS).values())

    def close(self) -> None:
        self._run(self._pond.__aexit__(None, None, None))
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _list(self, collection: str) -> dict[str, Document]:
        store = self._pond._service().store  # noqa: SLF001 - a host has no use for it, a test has
        found = await store.list_documents(collection, _LISTED_MAX, None)
        return {snapshot.ref.id: snapshot.data or {} for snapshot in found}

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(call)


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise CheckError(
        "this pond is for synchronous tests, and an event loop is running: make the test a plain def, or use "
        'Pond(views=[…], store="memory") in it'
    )
