"""Views as a user would write them, for what the built-in ones do not do: deletion, a tally, a bug.

Named by `VIEWS` in every simulated instance, and loaded like anybody's.
"""

from __future__ import annotations

from typing import Any

from millpond.core.model import Document, Event
from millpond.core.view import DELETE, Latest, Tally


class Doors(Latest):
    """One document per door; `removed` deletes it. Fails on doors whose state is `bug`, until that is mended."""

    topics = ("doors",)
    collection = "doors"
    key = "door"
    time = "at"
    sequence = "seq"
    mended = False

    def document(self, event: Event) -> Any:
        state = event.require("state")
        if state == "bug" and not self.mended:
            raise ZeroDivisionError("the view has a bug")
        return DELETE if state == "removed" else {"door": event.require("door"), "state": state}


class GateLast(Latest):
    """The last pass of each gate: a second view of the same events, which must never get ahead of the first."""

    topics = ("gates",)
    collection = "gate_last"
    key = "gate"
    time = "at"

    def document(self, event: Event) -> Document:
        return {"gate": event.require("gate"), "pass": event.require("pass")}


class GatePasses(Tally):
    """How many passed each gate. Names every pass it has counted, so that one counted twice is seen."""

    topics = ("gates",)
    collection = "gate_passes"
    key = "gate"
    time = "at"

    def fold(self, event: Event, current: Document) -> Document:
        # In place, as users do: what is given to a fold is its own.
        passes = current.setdefault("passes", [])
        passes.append(event.require("pass"))
        passes.sort()
        current["count"] = current.get("count", 0) + 1
        return current
