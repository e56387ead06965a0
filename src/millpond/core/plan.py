"""plan(items, snapshots, now) → Plan: a batch's writes, and the result of each event. Pure; the engine calls it.

The items are decided one by one on a working set of copies. So a batch has the same outcomes as its events one at
a time, and each document is written at most once. A verdict depends only on documents that the plan writes, or on
stamps, which only grow. So a plan that commits was right, even if its snapshots were old.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import msgspec

from millpond.core import timestamps
from millpond.core.document import same_value
from millpond.core.errors import (
    Fault,
    InvalidEvent,
    Poison,
    UnownedDocument,
    ViewError,
    WriteRefused,
    gravest,
    refused_by,
)
from millpond.core.event_identity import content_mark
from millpond.core.item import TAKEN, Item, Needs, Target, refused_views
from millpond.core.model import (
    OUTCOME_RANK,
    Document,
    LogEntry,
    Outcome,
    Ref,
    Result,
    Snapshot,
    ViewResult,
    Write,
)
from millpond.core.plan_burial import needs_of_letter, plan_burial
from millpond.core.receipts import Receipts, settled_by
from millpond.core.replay_record import record_ref, record_taken, taken_by
from millpond.core.returned import check_document
from millpond.core.stamp import decode_stamp
from millpond.core.stored_stamps import field_holders, merged_source, owned, stamp_and_key
from millpond.core.view import Latest, Merge, Tally
from millpond.core.working_set import WorkingSet

# Fields that may differ between two copies of an event.
_PROVENANCE = frozenset({"source", "ingestedAt", "expireAt"})
_ABSENT = object()
_NO_VIEWS: frozenset[str] = frozenset()


class Plan(NamedTuple):
    writes: list[Write]
    log: list[LogEntry]
    results: list[Result]


class Verdict(msgspec.Struct, frozen=True):
    """The outcome of one target: the document to write, if any, and the stamp of the document afterwards."""

    outcome: Outcome
    reason: str
    document: Document | None = None
    winner: str | None = None


def plan(items: Sequence[Item], snapshots: Mapping[Ref, Snapshot], now: int, receipts: Receipts) -> Plan:
    """`snapshots` must hold every ref of every item."""
    working = WorkingSet(snapshots)
    log: list[LogEntry] = []
    results: list[Result] = []
    for item in items:
        result = _plan_item(item, working, now, receipts)
        results.append(result)
        # Every view that has an effect must be in the log with it: rebuild reads nothing else.
        if result.error is None or result.settled or _has_effect(item, result):
            log.append(_log_entry(item, result))
    return Plan(working.writes(), log, results)


def needs_of(item: Item) -> Needs:
    """The documents that an item's plan uses."""
    if item.letter is not None:
        return needs_of_letter(item.letter)
    read: list[Ref] = []
    assumed: list[Ref] = []
    for target in item.targets:
        if target.settled is None:
            (assumed if target.view.one_per_event else read).append(target.ref)
            if target.receipt is not None:
                assumed.append(target.receipt)
    if item.replay and item.targets:
        read.append(record_ref(item.delivery))
    return Needs(read, assumed)


def _has_effect(item: Item, result: Result) -> bool:
    """Whether a view wrote its document or a receipt: next time it calls the event a duplicate."""
    recorded = {target.view.name for target in item.targets if target.receipt is not None}
    return any(
        view.wrote or view.outcome is Outcome.APPLIED or (view.outcome is Outcome.STALE and view.view in recorded)
        for view in result.views
    )


def _log_entry(item: Item, result: Result) -> LogEntry:
    delivery = item.delivery
    corrected: dict[str, bytes] = {}
    if delivery.correction is not None:
        # The views that this replay does not ask took the message as it arrived, or as it was corrected before.
        took = [view.view for view in result.views if view.outcome in TAKEN]
        corrected = dict.fromkeys(took, delivery.correction)
        delivery = msgspec.structs.replace(delivery, correction=None)
    return LogEntry(
        delivery=delivery,
        topic=item.topic,
        event_id=item.event.event_id if item.event is not None else None,
        arrived_at=item.arrived_at,
        result=result,
        replay=item.replay,
        corrected=corrected,
    )


def _plan_item(item: Item, working: WorkingSet, now: int, receipts: Receipts) -> Result:
    if item.letter is not None:
        return plan_burial(item, item.letter, working, now)
    views: list[ViewResult] = []
    decided: list[tuple[Target, Verdict]] = []
    faults: list[Fault] = []
    taken = taken_by(item, working) if item.replay else _NO_VIEWS
    for target in item.targets:
        try:
            verdict = _decide(item, target, working, now, receipts, taken)
        except (Poison, ViewError, UnownedDocument) as fault:
            # It holds up no other view.
            faults.append(refused_by(target.view.name, fault) if isinstance(fault, Poison) else fault)
            continue
        except Exception as error:  # noqa: BLE001 - such as stamps that another program has damaged
            faults.append(ViewError(target.view.name, error))
            continue
        decided.append((target, verdict))
        if verdict.document is not None:
            working.put(target.ref, verdict.document, checked=target.view.representable)
        views.append(_view_result(target, verdict))
    receipt = receipts.record(item, decided, working, now)
    if item.replay:
        record_taken(item, views, working, now)
    if faults or item.faults or item.committed or item.later:
        return _in_parts(item, views, [*item.faults, *faults], receipt)
    top = views[0] if len(views) == 1 else min(views, key=_rank)
    return Result(top.outcome, top.reason, item.topic, views, receipt=receipt, event=item.event)


def _in_parts(item: Item, mine: Sequence[ViewResult], faults: Sequence[Fault], receipt: str | None) -> Result:
    """The result of a message that not all of its views settle in one commit."""
    later = [ViewResult(target.view.name, target.path, Outcome.RETRY, WriteRefused.reason) for target in item.later]
    views = [*item.committed, *mine, *refused_views(faults), *later]
    top, error = min(views, key=_rank), gravest(faults) if faults else None
    return Result(top.outcome, top.reason, item.topic, views, error, faults, receipt, item.event)


def _rank(view: ViewResult) -> int:
    return OUTCOME_RANK[view.outcome]


def _view_result(target: Target, verdict: Verdict) -> ViewResult:
    return ViewResult(
        target.view.name,
        target.path,
        verdict.outcome,
        verdict.reason,
        target.stamp or None,
        verdict.winner,
        verdict.document is not None,
    )


def _decide(
    item: Item, target: Target, working: WorkingSet, now: int, receipts: Receipts, taken: frozenset[str]
) -> Verdict:
    if target.settled is Outcome.TOO_OLD:
        return Verdict(Outcome.TOO_OLD, "too_old_ignored")
    if target.settled is Outcome.FILTERED:
        return Verdict(Outcome.FILTERED, "event_filtered")
    view = target.view
    current = owned(view, working.look(target.ref), target.path)
    if view.name in taken:
        return Verdict(Outcome.DUPLICATE, "duplicate_message_noop", None, stamp_and_key(view, current)[0])
    if isinstance(view, Latest):
        verdict = _decide_latest(target, current, now)
    elif isinstance(view, Merge):
        verdict = _decide_merge(target, current, now)
    else:
        return _decide_tally(item, cast("Tally", view), target, current, working, now, receipts)
    if verdict.outcome is Outcome.STALE:
        known = receipts.known(target, working, now)
        if known is not None:
            return Verdict(Outcome.DUPLICATE, _duplicate_reason(target, known), None, verdict.winner)
    return verdict


def _decide_latest(target: Target, current: Document | None, now: int) -> Verdict:
    stored, stored_key = stamp_and_key(target.view, current)
    stamp = target.stamp
    if stored is None or stamp > stored:
        # The copy with the greater stamp is written even if it is the same event: the document must be the
        # maximum over all copies, and two copies of one event may differ.
        document = _stamped_now(target, target.content, now)
        if stored is not None and stored_key == target.key and current is not None:
            names = document.keys() | current.keys()
            if all(_says_the_same(name, target, document, current, stored) for name in names):
                return Verdict(Outcome.DUPLICATE, "duplicate_event_noop", document, stamp)
        return Verdict(Outcome.APPLIED, "applied", document, stamp)
    if stamp == stored:
        return Verdict(Outcome.DUPLICATE, "duplicate_message_noop", None, stored)
    return Verdict(Outcome.STALE, "stale_event_ignored", None, stored)


def _decide_merge(target: Target, current: Document | None, now: int) -> Verdict:
    fields = {k: v for k, v in (target.content or {}).items() if k != "source"}
    holders = field_holders(target.view, current)
    won = [name for name in fields if name not in holders or target.stamp > holders[name]["stamp"]]
    stored = stamp_and_key(target.view, current)[0]
    if not won:
        if any(holders[name]["stamp"] == target.stamp for name in fields):
            return Verdict(Outcome.DUPLICATE, "duplicate_message_noop", None, stored)
        return Verdict(Outcome.STALE, "stale_event_ignored", None, stored)
    same_event = all(
        name in holders
        and holders[name]["key"] == target.key
        and _says_the_same(name, target, fields, current or {}, holders[name]["stamp"])
        for name in won
    )
    mine = {"stamp": target.stamp, "key": target.key}
    for name in won:
        holders[name] = mine
    newest = current is None or stored is None or target.stamp > stored
    winner = target.stamp if newest else stored
    source = merged_source(target.view, target.source if newest else (current or {}).get("source"), winner, holders)
    document = {**(current or {}), **{name: fields[name] for name in won}, "source": source}
    document = _stamped_now(target, document, now)
    if same_event:
        return Verdict(Outcome.DUPLICATE, "duplicate_event_noop", document, winner)
    return Verdict(Outcome.APPLIED, "applied", document, winner)


def _says_the_same(name: str, target: Target, mine: Document, stored: Document, stored_stamp: str) -> bool:
    """Whether a field is equal in this copy of the event and in the stored one: then only provenance changes.

    A view fills in publish time if the event has no time of its own. Two copies differ in publish time.
    """
    if name in _PROVENANCE:
        return True
    one, other = mine.get(name, _ABSENT), stored.get(name, _ABSENT)
    if same_value(one, other):
        return True
    published = timestamps.to_datetime(decode_stamp(stored_stamp).publish_time)
    return bool(one == target.source["publishedAt"] and other == published)


def _decide_tally(
    item: Item,
    view: Tally,
    target: Target,
    current: Document | None,
    working: WorkingSet,
    now: int,
    receipts: Receipts,
) -> Verdict:
    stored = stamp_and_key(view, current)[0]
    known = receipts.known(target, working, now)
    assert item.event is not None  # noqa: S101 - items with targets have an event
    if known is not None:
        counted = known["views"][view.name].get("content") if isinstance(known.get("views"), dict) else None
        if counted is not None and counted != content_mark(item.event):
            # A copy with other content was counted, and a fold cannot be undone.
            return Verdict(Outcome.DUPLICATE, "other_content_not_counted", None, stored)
        return Verdict(Outcome.DUPLICATE, _duplicate_reason(target, known), None, stored)
    if target.event_time < receipts.counted_from(now):
        # Its receipt may have expired, so whether it was counted is unknown: it is buried, and an operator decides.
        old = "the event is older than RECEIPT_TTL_DAYS, so no receipt can tell whether it was counted"
        raise InvalidEvent(old, reason="too_old_to_count")
    # A deep copy through bytes: the fold may change its argument, and must not change the snapshot.
    before = msgspec.msgpack.decode(msgspec.msgpack.encode(current or {}), type=dict)
    source = before.pop("source", None)
    try:
        document = check_document(view, "fold", view.fold(item.event, before))
    except Poison:
        raise
    except Exception as error:
        raise ViewError(view.name, error) from error
    newest = stored is None or target.stamp > stored
    document["source"] = _counted(target.source if newest else source, current)
    document = _stamped_now(target, document, now)
    return Verdict(Outcome.APPLIED, "applied", document, target.stamp if newest else stored)


def _counted(source: Document | None, current: Document | None) -> Document:
    """The `source` of a tally, with the number of events counted, so that a rebuild can compare it with the log.

    A tally that another program began has no such number, and none is added.
    """
    held = (current or {}).get("source")
    before = held.get("events") if isinstance(held, dict) else None
    if current is None:
        before = 0
    return {**(source or {}), "events": before + 1} if isinstance(before, int) else dict(source or {})


def _duplicate_reason(target: Target, known: Document) -> str:
    same_message = settled_by(known, target.view.name) == target.source["messageId"]
    return "duplicate_message_noop" if same_message else "duplicate_event_noop"


def _stamped_now(target: Target, document: Document | None, now: int) -> Document:
    assert document is not None  # noqa: S101 - views that are not tallies always have content here
    if target.view.ingested_at:
        return {**document, "ingestedAt": timestamps.to_datetime(now)}
    return document
