"""Checks of the world at rest: the documents are the fold of what arrived, and redelivery changes nothing.

Called by `world.py` once every message is settled. They raise Broken, and never change the world.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from millpond.core.collections import RECEIPTS
from millpond.core.model import LogEntry, Ref, Version
from millpond.sim import oracle
from millpond.sim.broker import Parcel
from millpond.sim.checks import OURS, Checks
from millpond.sim.facts import Fact, PublishedMessage, payload_of
from millpond.sim.oracle import KIND_OF, TALLIES
from millpond.sim.rules import Broken
from millpond.sim.store import Storehouse

ORACLE = "documents equal the oracle"
ONE_OUTCOME = "every message has one terminal outcome"
# Their events leave receipts.
_WITH_RECEIPTS = frozenset({"services", "pipelines", "bars", "signals", "doors", "gates"})
_WITH_TALLIES = frozenset({"gates"})


class Rest(NamedTuple):
    """The world at rest. `copies` are those of the broker's dead letters that were replayed."""

    house: Storehouse
    checks: Checks
    parcels: Sequence[Parcel]
    copies: Sequence[PublishedMessage]
    receipts_expire: bool

    def arrived(self) -> list[PublishedMessage]:
        """Messages that must have had their effect in every view that can take them."""
        found = [
            parcel.message for parcel in self.parcels if not parcel.dead or parcel.message.id in self.checks.written
        ]
        found += [message for message in self.checks.messages.values() if message.id.startswith("legacy")]
        return [*found, *self.copies]


def check_documents(rest: Rest) -> None:
    arrived, others = rest.arrived(), {ref.path for ref in rest.checks.unowned}
    expected = {path: document for path, document in oracle.fold(arrived).items() if path not in others}
    winners = oracle.winners(arrived)
    stored = [snapshot for kind in KIND_OF for snapshot in rest.house.all_of(kind)]
    found = {one.ref.path: one.data or {} for one in stored if one.ref.path not in others}
    for path in sorted(expected.keys() | found.keys()):
        if path not in found or path not in expected:
            raise Broken(ORACLE, f"{path} is {'missing' if path in expected else 'there, and should not be'}")
        document = {name: value for name, value in found[path].items() if name not in OURS}
        if document != expected[path]:
            raise Broken(ORACLE, f"{path} is {_shown(document)}, not {_shown(expected[path])}")
        if found[path]["source"]["messageId"] != winners[path]:
            raise Broken(ORACLE, f"{path} is {found[path]['source']['messageId']}'s, not {winners[path]}'s")


def check_tallies(rest: Rest) -> None:
    counted = {path: set(passes) for path, passes in _passes(rest).items()}
    known = [*(parcel.message for parcel in rest.parcels), *rest.copies]
    sure = [
        parcel.message
        for parcel in rest.parcels
        if not parcel.dead and TALLIES not in _refusing(rest, parcel.message)
    ]
    for path, passes in oracle.tallies(sure).items():
        if not passes <= counted.get(path, set()):
            missing = sorted(passes - counted.get(path, set()))
            raise Broken("tallies count each event once", f"{path} has not counted {missing}")
    sent = oracle.tallies(known)
    for path, passes in counted.items():
        if not passes <= sent.get(path, set()):
            raise Broken("tallies count each event once", f"{path} counts a pass that was never sent")


def check_outcomes(rest: Rest) -> None:
    """Each message was acknowledged or given up by the broker, and the log has one line about it.

    So has the log as Firestore keeps it: append-only, and merged when it is read.
    """
    merged = rest.house.merged_log()
    for parcel in rest.parcels:
        message = parcel.message
        if not parcel.settled:
            raise Broken(ONE_OUTCOME, f"{message.id} has none")
        if rest.house.swarm.keeps_log and parcel.acknowledged:
            entries = [e for e in rest.house.log_entries(message.id) if e.delivery.message_id == message.id]
            _check_logged(rest, message, entries)
            _check_logged(rest, message, merged.get(message.id, []))


def _check_logged(rest: Rest, message: PublishedMessage, entries: Sequence[LogEntry]) -> None:
    outcomes = [str(entry.result.outcome) for entry in entries]
    if len(outcomes) != 1 or outcomes[0] == "retry":
        raise Broken(ONE_OUTCOME, f"the log says of {message.id}: {outcomes}")
    event = entries[0].result.event
    if event is not None and event.message_id != message.id:
        raise Broken(ONE_OUTCOME, f"the log says of {message.id} what became of {event.message_id}")
    if outcomes[0] == "poison" and message.id not in rest.checks.buried:
        raise Broken(ONE_OUTCOME, f"the log says of {message.id} that it was buried, and it was not")
    _check_logged_views(rest, message, {view.view: str(view.outcome) for view in entries[0].result.views})


def _check_logged_views(rest: Rest, message: PublishedMessage, logged: Mapping[str, str]) -> None:
    """The log has an outcome for every view, and says poison only of views that cannot take the message."""
    if not logged:
        return
    if sorted(logged) != sorted(oracle.views_of(message)):
        raise Broken(ONE_OUTCOME, f"the log says of {message.id} what became of it in {sorted(logged)}")
    refusing = _refusing(rest, message)
    wrong = [
        view for view, outcome in logged.items() if outcome == "retry" or (outcome == "poison") > (view in refusing)
    ]
    if wrong:
        raise Broken(ONE_OUTCOME, f"the log says of {message.id} in {wrong[0]}: {logged[wrong[0]]}")


def _refusing(rest: Rest, message: PublishedMessage) -> set[str]:
    """The views that may refuse the message for ever: a tally also if it was too old when it was asked."""
    views = oracle.views_of(message)
    refusing = {
        view for view in views if oracle.never_takes(message, view) or rest.checks.is_unowned(message, view)
    }
    return refusing | ({TALLIES} if message.id in rest.checks.buried and rest.receipts_expire else set())


def _passes(rest: Rest) -> dict[str, list[int]]:
    """The passes that each tally has counted."""
    stored = rest.house.all_of(TALLIES)
    return {one.ref.path: (one.data or {})["passes"] for one in stored if one.ref not in rest.checks.unowned}


def check_receipts(rest: Rest) -> None:
    """If receipts do not expire: one for each logical event that was taken, and no others."""
    if rest.receipts_expire:
        return
    receipts = [snapshot.data or {} for snapshot in rest.house.all_of(RECEIPTS)]
    vouched = {_logical(rest.checks.messages[receipt["messageId"]]) for receipt in receipts}
    if len(vouched) != len(receipts):
        raise Broken("receipts agree", f"{len(receipts)} receipts for {len(vouched)} events")
    with_receipts = _WITH_TALLIES if rest.house.swarm.receipts_of_tallies_only else _WITH_RECEIPTS
    for parcel in rest.parcels:
        message = parcel.message
        taken = parcel.acknowledged and message.id not in rest.checks.buried and message.fact.flaw is None
        if taken and message.fact.topic in with_receipts and _logical(message) not in vouched:
            raise Broken("receipts agree", f"there is none for {message.id}")
    counted = sum(map(len, _passes(rest).values()))
    applied = sum(receipt["views"].get(TALLIES, {}).get("outcome") == "applied" for receipt in receipts)
    if counted != applied:
        raise Broken("receipts agree", f"{applied} passes have a receipt, {counted} are counted")


def photograph(house: Storehouse, collections: Iterable[str]) -> dict[Ref, Version | None]:
    """The version of every document in these collections. Any change changes it."""
    return {snapshot.ref: snapshot.version for kind in collections for snapshot in house.all_of(kind)}


def check_unchanged(before: Mapping[Ref, Version | None], after: Mapping[Ref, Version | None], when: str) -> None:
    changed = sorted(ref.path for ref in before.keys() | after.keys() if before.get(ref) != after.get(ref))
    if changed:
        raise Broken("redelivery changes nothing", f"{when}, {', '.join(changed[:3])} changed")


def _logical(message: PublishedMessage) -> tuple[object, ...]:
    """Equal for messages of one logical event: an id with its time and sequence, or the same content."""
    fact: Fact = message.fact
    if fact.event_id is not None:
        return fact.topic, fact.event_id, fact.at, fact.sequence
    return fact.topic, msgspec.json.encode(payload_of(fact), order="sorted"), fact.at or message.id


def _shown(document: oracle.Document) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(document.items()) if name != "data")
