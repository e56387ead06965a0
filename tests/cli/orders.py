"""A view of a user's own, as a module beside the store."""

from __future__ import annotations

ORDERS = """
from millpond import Latest


class Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"
    time = "at"

    def document(self, event):
        return {"orderId": event.require("orderId"), "quantity": event.get("quantity")}
"""
# An order without a quantity is poison.
STRICT = ORDERS.replace('event.get("quantity")', 'event.require("quantity")')
# One field more.
CHANGED = ORDERS.replace('"quantity": ', '"depot": event.get("depot"), "quantity": ')
