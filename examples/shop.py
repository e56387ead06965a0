"""The orders of a shop, whose documents another program has written until today."""

from millpond import Latest


class Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"
    time = "changedAt"
    adopt = "updatedAt"

    def document(self, event):
        return {"status": event.require("status"), "updatedAt": event.datetime("changedAt")}
