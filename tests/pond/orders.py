"""A view of a host's own, and ponds on it."""

from __future__ import annotations

from typing import Any

from millpond import DELETE, Document, Event, Latest, Pond, Tally


class Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"

    def document(self, event: Event) -> Any:
        if event.get("cancelled"):
            return DELETE
        return {"orderId": event.require("orderId"), "amount": event.get("amount")}


class Sales(Tally):
    topics = ("orders",)
    collection = "sales"
    key = ("shop", "day")

    def fold(self, event: Event, current: Document) -> Document:
        return {"count": current.get("count", 0) + 1, "amount": current.get("amount", 0) + event.require("amount")}


def memory_pond(**more: Any) -> Pond:
    return Pond(views=[Orders()], store="memory", **more)
