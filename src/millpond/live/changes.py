"""Which documents changed, gathered for all open pages together. Subscribes to outcomes; owned by the monitor."""

from __future__ import annotations

from typing import Any

from millpond.core.ack import Answered

CHANGED_MAX = 500
CHANGED_CHARS_MAX = 64 * 1024


class Changes:
    """The documents that changed since the last `take`."""

    def __init__(self) -> None:
        self._docs: dict[str, None] = {}
        self._chars = 0
        self._more = False
        self._letters = False

    def on_outcome(self, answered: Answered) -> None:
        for view in answered.result.views:
            if view.wrote:
                self._add(view.doc)
        if answered.result.buried:
            self._letters = True

    def letters(self) -> None:
        """An operator purged or replayed letters."""
        self._letters = True

    def _add(self, doc: str) -> None:
        if doc in self._docs or self._more:
            return
        self._chars += len(doc)
        if len(self._docs) >= CHANGED_MAX or self._chars > CHANGED_CHARS_MAX:
            self._more = True
        else:
            self._docs[doc] = None

    def take(self) -> dict[str, Any] | None:
        """What changed, in the form that pages get; None if nothing did. Forgets it."""
        if not self._docs and not self._letters and not self._more:
            return None
        taken = {"docs": list(self._docs), "more": self._more, "letters": self._letters}
        self._docs, self._chars, self._more, self._letters = {}, 0, False, False
        return taken
