"""Views as a user would write them, for cases the built-in views lack: deletion, a tally, a bug.

Named by `VIEWS` in every simulated instance, and loaded like a user's module.
"""

from __future__ import annotations

from typing import Any

from millpond.core.errors import InvalidEvent
from millpond.core.model import Document, Event
from millpond.core.view import DELETE, Latest, Tally


class Doors(Latest):
    """One document per door; `removed` deletes it. Fails on doors whose state is `bug`, until the view is fixed."""

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
    """The last pass of each gate. It shares its events with `GatePasses`, and each must go on without the other."""

    topics = ("gates",)
    collection = "gate_last"
    key = "gate"
    time = "at"
    mended = False

    def document(self, event: Event) -> Document:
        if event.get("last") == "bug" and not self.mended:
            raise ZeroDivisionError("the view has a bug")
        # The store refuses one value of it.
        note = {"note": event.get("last")} if "last" in event.payload and event.get("last") != "bug" else {}
        return {"gate": event.require("gate"), "pass": event.require("pass"), **note}


class GatePasses(Tally):
    """How many passed each gate. Lists every pass it has counted, so that a double count is visible."""

    topics = ("gates",)
    collection = "gate_passes"
    key = "gate"
    time = "at"
    mended = False

    def fold(self, event: Event, current: Document) -> Document:
        if event.get("passes") == "bug" and not self.mended:
            raise ZeroDivisionError("the view has a bug")
        if event.get("passes") == "odd":
            raise InvalidEvent("a pass that cannot be counted")
        # Changed in place, as users do: a fold may change the document it is given.
        passes = current.setdefault("passes", [])
        passes.append(event.require("pass"))
        passes.sort()
        current["count"] = current.get("count", 0) + 1
        return current
