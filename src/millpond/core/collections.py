"""The collections that Millpond owns: their names, and the refs of letters' parts. Pure.

All other collections belong to views, which must not write to these. No other module contains one of these names.
"""

from __future__ import annotations

from millpond.core.model import Ref

# Receipts: the outcome of each event.
RECEIPTS = "ops_dedupe"
# Dead letters. The parts of a letter that is too big for one document are in a collection below it.
LETTERS = "dead_letters"
LETTER_PARTS = "parts"
# The event log on Firestore, one document for each commit; the embedded store has a table instead.
EVENT_SEGMENTS = "millpond_event_segments"
# The event log of earlier builds, one document for each message. It is read, and no longer written.
EVENT_LOG = "millpond_event_log"
# One document for each view that was rebuilt, with the time of the rebuild.
REBUILDS = "ops_rebuilds"
FLOW_RUNS = "flow_runs"
# What happened in each minute of the last day, for the overview: one document for each hour of an instance.
HISTORY = "ops_history"
OWN = frozenset({RECEIPTS, LETTERS, EVENT_SEGMENTS, EVENT_LOG, REBUILDS, FLOW_RUNS, HISTORY})
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
