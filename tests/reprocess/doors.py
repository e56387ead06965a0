"""Events about doors, and views of them: as they are, and as their author changed them later."""

from __future__ import annotations

from typing import Any

from millpond import DELETE, Event, Latest, Merge, Tally
from millpond.core.model import Delivery, Document
from tests.common.pond import SECOND, at, delivery

DAY_US = 86_400 * SECOND


class Doors(Latest):
    """The latest state of each door."""

    name = collection = "doors"
    topics = ("doors",)
    key = "door"
    time: Any = "at"

    def document(self, event: Event) -> Any:
        return DELETE if event.get("state") == "gone" else {"state": event.require("state")}


class DoorsWithRoom(Doors):
    """With one more field."""

    def document(self, event: Event) -> Document:
        return {"state": event.require("state"), "room": event.get("room")}


class LenientDoors(Doors):
    """Takes a door without a state, which was poison before."""

    def document(self, event: Event) -> Document:
        return {"state": event.get("state", "unknown")}


class Owners(Merge):
    name = collection = "owners"
    topics = ("doors",)
    key = "door"
    time = "at"

    def fields(self, event: Event) -> Document:
        return {name: event.payload[name] for name in ("state", "room", "owner") if name in event.payload}


class Passes(Tally):
    name = collection = "passes"
    topics = ("doors",)
    key = "door"
    time = "at"

    def fold(self, event: Event, current: Document) -> Document:
        return {
            "n": current.get("n", 0) + 1,
            "sum": current.get("sum", 0.0) + float(event.get("weight", 0.1)),
            "states": sorted([*current.get("states", []), event.require("state")]),
        }


def older_doors() -> Doors:
    """The same documents in another collection: a view that was there before the one under test."""
    view = Doors()
    view.collection = view.name = "older"
    return view


def door(message_id: str, state: str, at_s: float, name: str = "d", **more: Any) -> Delivery:
    """Published when it happened."""
    payload = {"topic": "doors", "door": name, "state": state, "at": at(at_s), **more}
    return delivery(payload, message_id, at_s)


def late_door(message_id: str, name: str = "d") -> Delivery:
    """Published a quarter of an hour after it happened."""
    return delivery({"topic": "doors", "door": name, "state": "open", "at": at(-1_000)}, message_id)


def stateless_door(message_id: str) -> Delivery:
    """Poison, except for the lenient view."""
    return delivery({"topic": "doors", "door": "d", "at": at(1)}, message_id)
