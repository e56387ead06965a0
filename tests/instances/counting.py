"""A view of the test's own, loaded by `VIEWS` as a user's would be: it shows what is counted twice, or never."""

from __future__ import annotations

from typing import Any

from millpond import Event, Tally


class Fills(Tally):
    """How many fills a day had, and their quantity."""

    topics = ("fills",)
    collection = "fills_by_day"
    key = "day"
    time = "filledAt"

    def fold(self, event: Event, current: dict[str, Any]) -> dict[str, Any]:
        return {
            "fills": current.get("fills", 0) + 1,
            "quantity": current.get("quantity", 0) + event.require("quantity"),
        }
