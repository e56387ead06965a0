"""The collections that Millpond itself owns: their names, and where letters' parts lie. Pure.

All other collections are those of views, which must stay out of these. No other module spells one of these names.
"""

from __future__ import annotations

from millpond.core.model import Ref

# What became of each event.
RECEIPTS = "ops_dedupe"
# Dead letters. One that is too big for a document has its parts in a collection below it.
LETTERS = "dead_letters"
LETTER_PARTS = "parts"
# On Firestore; the embedded store has a table.
EVENT_LOG = "millpond_event_log"
# One document for each view that was rebuilt, with when that was.
REBUILDS = "ops_rebuilds"
FLOW_RUNS = "flow_runs"
OWN = frozenset({RECEIPTS, LETTERS, EVENT_LOG, REBUILDS, FLOW_RUNS})
# Read to learn whether a store answers. It need not exist.
PROBE = Ref("ops_services", "probe")


def root_of(collection: str) -> str:
    """The first part of a collection's path. Everything below it belongs to the same view, or to Millpond."""
    return collection.split("/", 1)[0]


def is_own(collection: str) -> bool:
    return root_of(collection) in OWN


def part_ref(letter: Ref, name: str) -> Ref:
    return Ref(f"{letter.path}/{LETTER_PARTS}", name)


def token_ref(letter: Ref, mark: str) -> Ref:
    """The token of one attempt to bury: stored with the attempt's last part, deleted with the letter's commit."""
    return part_ref(letter, f"{mark}-token")
