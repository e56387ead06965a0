"""Faults that two or three events show: a fold that depends on their order, and events with one stamp.

Called by `check` with events that each alone are sound.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from millpond.core.document import same_value
from millpond.core.model import Document, Ref
from millpond.core.view import Merge, Tally, View
from millpond.testing import faults
from millpond.testing.asking import EventDecoder, ask, fold_all
from millpond.testing.describe import Evidence, Shown, text_of
from millpond.testing.events import SentEvent
from millpond.testing.probes import FaultFound, unstorable
from millpond.testing.reference import TAKEN, Take, take

# Groups of two and of three events that are folded in every order; more of them find little more.
_GROUPS_MAX = 400
# Two floats that differ by less are the same sum, rounded differently.
_ROUNDING = 1e-9
# They differ between copies of one event without any effect.
_PROVENANCE = frozenset({"source", "ingestedAt", "expireAt"})

Taken = tuple[SentEvent, Take]


def by_document(events: Sequence[SentEvent], takes: Sequence[Take]) -> dict[Ref, list[Taken]]:
    """The events that each document is made of."""
    found: defaultdict[Ref, list[Taken]] = defaultdict(list)
    for event, one in zip(events, takes, strict=True):
        if one.state == TAKEN:
            found[one.ref].append((event, one))
    return dict(found)


def check_fold(view: Tally, decoder: EventDecoder, documents: dict[Ref, list[Taken]], dice: random.Random) -> None:
    """Fold two and three events of a document in every order. Raises FaultFound."""
    once = {
        ref: list({one.identity: (event, one) for event, one in group}.values()) for ref, group in documents.items()
    }
    for size in (2, 3):
        for ref, group in _some(once, size, dice):
            _check_orders(view, decoder, ref, [event for event, _ in group])


def check_identities(view: Tally, decoder: EventDecoder, documents: dict[Ref, list[Taken]]) -> None:
    """Two events that Millpond takes for copies of one, and that would count differently."""
    for group in documents.values():
        known: dict[str, Taken] = {}
        for event, one in group:
            earlier, _ = known.setdefault(one.identity, (event, one))
            mine, theirs = (fold_all(view, [decoder.decode(e.delivery)]) for e in (earlier, event))
            if earlier is not event and not same_value(mine[0], theirs[0]):
                text = f"events #{earlier.number} and #{event.number} have one identity, and count differently"
                shown = [Shown(f"#{earlier.number} alone", mine[0]), Shown(f"#{event.number} alone", theirs[0])]
                raise FaultFound(Evidence(faults.ONE_IDENTITY, text, [earlier, event], shown))


def check_stamps(view: View, decoder: EventDecoder, documents: dict[Ref, list[Taken]]) -> None:
    """Two events of one document that nothing in the data orders, and that say different things."""

    def said_by(event: SentEvent, instead_of: Taken) -> Document:
        """What it says under the other's message id and publish time, which may be in the document."""
        held = instead_of[0].delivery
        delivery = msgspec.structs.replace(
            event.delivery, message_id=held.message_id, publish_time=held.publish_time
        )
        return take(view, ask(view, lambda: decoder.decode(delivery))).content

    for ref, group in documents.items():
        ties: defaultdict[Any, list[Taken]] = defaultdict(list)
        for event, one in group:
            if one.asked.said["time_of"] is not None:
                published = one.rank[2] if event.publish_time_given else None
                ties[(*one.rank[:2], published)].append((event, one))
        for tied in ties.values():
            for (mine, my_take), (other, their_take) in itertools.combinations(tied, 2):
                if _disagree(view, my_take.content, said_by(other, (mine, my_take))):
                    _blame_stamp(view, ref, (mine, my_take), (other, their_take))


def _blame_stamp(view: View, ref: Ref, mine: Taken, other: Taken) -> None:
    (event, one), (second, another) = mine, other
    what = "the same time" + ("" if one.asked.said["sequence_of"] is None else " and sequence")
    text = f"events #{event.number} and #{second.number} have one stamp: {what}, for {ref.path}"
    if not (view.sequence or view.time):
        text += " (the view declares neither)"
    shown = [Shown(f"#{event.number} says", one.content), Shown(f"#{second.number} says", another.content)]
    raise FaultFound(Evidence(faults.ONE_STAMP, text, [event, second], shown))


def _disagree(view: View, one: Document, other: Document) -> bool:
    names = (one.keys() & other.keys() if isinstance(view, Merge) else one.keys() | other.keys()) - _PROVENANCE
    return any(name not in one or name not in other or not same_value(one[name], other[name]) for name in names)


def _check_orders(view: Tally, decoder: EventDecoder, ref: Ref, events: Sequence[SentEvent]) -> None:
    first: tuple[Document, list[str]] | None = None
    for order in itertools.permutations(events):
        folded = fold_all(view, [decoder.decode(event.delivery) for event in order])
        problem = unstorable(ref, folded[0])
        if problem is not None:
            text = f"fold() returns what no store holds: {problem}"
            raise FaultFound(Evidence(faults.UNSTORABLE, text, list(order), [Shown("fold() returned", folded[0])]))
        raised = [text for text in folded[1] if not text.startswith("InvalidEvent")]
        if raised:
            text = f"fold() raises {raised[0]}, after other events of the document"
            raise FaultFound(Evidence(faults.RAISES, text, list(order), history=_arrivals(order)))
        if first is None:
            first, began = folded, order
        elif not same_value(first[0], folded[0]) or first[1] != folded[1]:
            _blame_order(first, folded, began, order)


def _blame_order(
    first: tuple[Document, list[str]],
    second: tuple[Document, list[str]],
    one: Sequence[SentEvent],
    other: Sequence[SentEvent],
) -> None:
    rounded = _only_rounding(first[0], second[0]) and first[1] == second[1]
    cause = faults.ROUNDS_FLOATS if rounded else faults.DEPENDS_ON_ORDER
    text = "fold() depends on the order of events" + (": it adds floats" if rounded else "")
    names = [f"in the order {', '.join(f'#{event.number}' for event in order)}" for order in (one, other)]
    shown = [Shown(names[0], first[0]), Shown(names[1], second[0])]
    if first[1] != second[1]:
        shown = [Shown(names[0], first[1]), Shown(names[1], second[1])]
    raise FaultFound(Evidence(cause, text, list(one), shown))


def _only_rounding(one: Any, other: Any) -> bool:
    """Whether two different values differ only in the last digits of floats."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return all(_only_rounding(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return all(_only_rounding(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_ROUNDING) or same_value(one, other)
    return same_value(one, other)


def _arrivals(events: Iterable[SentEvent]) -> list[str]:
    return [f"#{event.number} arrives  {text_of(event.shown)}" for event in events]


def _some(
    documents: dict[Ref, list[Taken]], size: int, dice: random.Random
) -> Iterator[tuple[Ref, Sequence[Taken]]]:
    """Groups of events of one document: all if they are few, else some at random."""
    total = sum(math.comb(len(group), size) for group in documents.values())
    if total <= _GROUPS_MAX:
        for ref, group in documents.items():
            yield from ((ref, chosen) for chosen in itertools.combinations(group, size))
        return
    refs = [ref for ref, group in documents.items() if len(group) >= size]
    for _ in range(_GROUPS_MAX):
        ref = dice.choice(refs)
        yield ref, dice.sample(documents[ref], size)
