"""The last known place of each parcel, from scans that arrive twice, late and out of order."""

from millpond import DELETE, Latest


class Parcels(Latest):
    topics = ("parcel-scans",)
    collection = "parcels"
    key = "parcelId"
    time = "scannedAt"

    def document(self, event):
        if event.get("status") == "delivered":
            return DELETE
        return {"parcelId": event.require("parcelId"), "depot": event.require("depot")}
