"""How many people passed each station on each day; a passage reported twice counts once."""

from millpond import Tally


class Passages(Tally):
    topics = ("turnstiles",)
    collection = "passages_by_day"
    key = ("station", "day")
    time = "passedAt"

    def fold(self, event, current):
        return {"people": current.get("people", 0) + event.integer("people", 1)}
