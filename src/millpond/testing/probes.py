"""Asks a view about each event several times, and finds the faults that one event shows. Called by `check`.

Each probe changes one thing that must not matter: the call is repeated, what was returned is changed, the message
is republished, other events come between. So the probe names the cause, which a world alone cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from millpond.core.document import check_ref, encode_document
from millpond.core.errors import WriteRefused
from millpond.core.model import Delivery, Document, Ref
from millpond.core.timestamps import DAY_US, SECOND_US
from millpond.core.view import DELETE, METHOD_OF_KIND, Merge, Tally, View
from millpond.testing import faults, state
from millpond.testing.asking import Asked, EventDecoder, ask
from millpond.testing.describe import Evidence, Shown
from millpond.testing.events import SentEvent, republished
from millpond.testing.faults import Cause
from millpond.testing.reference import Take, take
from millpond.testing.watch import OutsideRead

# Every part of a time differs then.
_MUCH_LATER_US = DAY_US + 3_661 * SECOND_US
_TIMES = {"time_of", "sequence_of", "identity_time_of"}
_KEYS = ("collection_of", "id_of")
_TYPES = (
    ("time_of", int | None, "microseconds since 1970 (an integer) or None: use event.time(...)"),
    ("sequence_of", int | None, "an integer or None"),
    ("collection_of", str, "text"),
    ("id_of", str, "text"),
)


class FaultFound(Exception):
    """Ends a check. `check` turns it into a ViewFault."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence.headline)
        self.evidence = evidence


class Probes:
    def __init__(self, view: View, decoder: EventDecoder, fresh: Callable[[], View | None]) -> None:
        """`fresh` makes a copy of the view as it was before the check; None if it cannot be copied."""
        self._view = view
        self._fresh = fresh
        self._decoder = decoder
        self._method = METHOD_OF_KIND[view.kind]
        self._before = state.photograph(view)

    def examine(self, event: SentEvent) -> Asked:
        """What the view says of the event. Raises FaultFound."""
        first = self._ask(event.delivery)
        self._is_sound(event, first)
        second = self._ask(event.delivery, watch=True)
        if second.readings:
            self._read(event, *second.readings[0], first, second)
        self._is_the_same(event, first, second)
        third = self._ask(event.delivery)
        self._does_not_leak(event, first, third)
        copied = self._ask(republished(event.delivery, _MUCH_LATER_US))
        self._is_sound(event, copied)
        if first.raised is None and copied.raised is None:
            self._knows_its_copy(event, first, copied)
        return first

    def take(self, event: SentEvent, delivery: Delivery) -> Take:
        """What the message means to the view; `late_time_of` is asked here."""
        asked = self._ask(delivery)
        self._is_sound(event, asked)
        try:
            return take(self._view, asked)
        except Exception as error:  # noqa: BLE001 - a view may raise anything
            self._fail(faults.RAISES, f"late_time_of() raises {type(error).__name__}: {error}", [event])

    def ask_again(self, events: Sequence[SentEvent], asked: Sequence[Asked]) -> None:
        """In reverse order, on a fresh copy of the view: what other events left behind must not matter."""
        view = self._fresh()
        for at in reversed(range(len(events))):
            again = self._ask(events[at].delivery, view=view)
            if asked[at].differs_from(again) is not None:
                self._blame_another(events, at, asked[at])

    def _ask(self, delivery: Delivery, *, watch: bool = False, view: View | None = None) -> Asked:
        return ask(view or self._view, lambda: self._decoder.decode(delivery), watch=watch)

    def _is_sound(self, event: SentEvent, asked: Asked) -> None:
        """One answer, by itself: no exception, no changed event, a document that a store can hold."""
        raised = asked.raised
        if raised is not None and not raised.is_poison:
            what = f"{type(raised.error).__name__}: {raised.text}" if raised.text else type(raised.error).__name__
            where = f" at {raised.where}" if raised.where else ""
            self._fail(faults.RAISES, f"{self._named(raised.method)} raises {what}{where}", [event])
        if asked.changed_by is not None:
            shown = Shown("the event afterwards", asked.event.payload)
            self._fail(faults.CHANGES_EVENT, f"{self._named(asked.changed_by)} changes its event", [event], [shown])
        if raised is None and asked.said["wants"] is not False:
            self._has_right_types(event, asked)
            self._can_be_stored(event, asked)

    def _has_right_types(self, event: SentEvent, asked: Asked) -> None:
        for method, kind, words in _TYPES:
            value = asked.said[method]
            if not isinstance(value, kind) or isinstance(value, bool):
                text = f"{self._named(method)} returns {type(value).__name__}, not {words}"
                self._fail(faults.RAISES, text, [event], [Shown(f"{method}() returned", value)])

    def _can_be_stored(self, event: SentEvent, asked: Asked) -> None:
        content = asked.content
        if content is None or content is DELETE or (isinstance(self._view, Merge) and content == {}):
            return
        if type(content) is not dict:
            kind = type(content).__name__
            self._fail(faults.UNSTORABLE, f"{self._method}() returns {kind}, not a dict", [event])
        ref = Ref(asked.said["collection_of"], asked.said["id_of"])
        problem = unstorable(ref, content)
        if problem is not None:
            shown = Shown(f"{self._method}() returned", content)
            self._fail(
                faults.UNSTORABLE, f"{self._method}() returns what no store holds: {problem}", [event], [shown]
            )

    def _read(self, event: SentEvent, method: str, reading: OutsideRead, first: Asked, second: Asked) -> NoReturn:
        what = f"{self._named(method)} reads {_OBJECTS[reading.cause]}: {reading.what} at {reading.where}"
        shown = _both(first, second, method) if first.differs_from(second) == method else []
        self._fail(reading.cause, what + _effect(method), [event], shown)

    def _is_the_same(self, event: SentEvent, first: Asked, second: Asked) -> None:
        method = first.differs_from(second)
        if method is None:
            return
        shown = _both(first, second, method)
        before = state.photograph(self._view)
        self._ask(event.delivery)
        changed = state.changed(before, state.photograph(self._view))
        if changed:
            text = f"{self._named(method)} keeps state between calls: it changes {', '.join(changed[:3])}"
            self._fail(faults.KEEPS_STATE, text + _effect(method), [event], shown)
        cause = (
            faults.KEY_DIFFERS if method in _KEYS else faults.TIME_DIFFERS if method in _TIMES else faults.DIFFERS
        )
        self._fail(cause, f"{self._named(method)} gives two answers to one event{_effect(method)}", [event], shown)

    def _does_not_leak(self, event: SentEvent, first: Asked, third: Asked) -> None:
        method = first.differs_from(third)
        if method is not None:
            text = (
                f"{self._named(method)} returns an object that it keeps: what Millpond adds to the document stays"
            )
            self._fail(faults.KEEPS_STATE, text, [event], _both(first, third, method))

    def _knows_its_copy(self, event: SentEvent, first: Asked, copied: Asked) -> None:
        """A republished copy has another message id and publish time, and is the same event."""
        said, other = first.said, copied.said
        if said["wants"] is False or other["wants"] is False or first.content is None or copied.content is None:
            return
        has_id, tally = first.event.event_id is not None, isinstance(self._view, Tally)
        timed = not (_is_published_time(first) and _is_published_time(copied))
        if said["identity_time_of"] != other["identity_time_of"] and (timed or (tally and has_id)):
            self._blame_copy(faults.TIME_DIFFERS, "time_of", event, first, copied)
        if not timed and not has_id:
            # Each message is then an event: a copy cannot be recognised.
            return
        for method in _KEYS:
            if said[method] != other[method] and not self._view.one_per_event:
                self._blame_copy(faults.KEY_DIFFERS, method, event, first, copied)
        if tally and first.differs_from(copied) == "fold":
            self._blame_copy(faults.COPY_DIFFERS, "fold", event, first, copied)

    def _blame_copy(self, cause: Cause, method: str, event: SentEvent, first: Asked, copied: Asked) -> NoReturn:
        what = f"{self._named(method)} differs between a message and its republished copy"
        mine, theirs = first.event, copied.event
        names = (f"message {mine.message_id}", f"its copy {theirs.message_id}")
        self._fail(cause, what, [event], _both(first, copied, method, names))

    def _blame_another(self, events: Sequence[SentEvent], at: int, first: Asked) -> NoReturn:
        """Find an event that changes the answer to this one."""
        names = state.changed(self._before, state.photograph(self._view))
        again, chosen = self._ask(events[at].delivery), []
        for culprit in events:
            view = self._fresh() or self._view
            alone = self._ask(events[at].delivery, view=self._fresh())
            self._ask(culprit.delivery, view=view)
            after = self._ask(events[at].delivery, view=view)
            if culprit is not events[at] and alone.differs_from(after) is not None:
                first, again, chosen = alone, after, [culprit]
                break
        method = first.differs_from(again) or self._method
        text = f"{self._named(method)} keeps state between calls"
        text += f": it changes {', '.join(names[:3])}" if names else ""
        shown = _both(first, again, method, ("asked first", "asked after the other event"))
        self._fail(faults.KEEPS_STATE, text + _effect(method), [*chosen, events[at]], shown)

    def _named(self, method: str) -> str:
        if method == "id_of":
            return "key_of()" if type(self._view).key_of is not View.key_of else "id_of()"
        return f"{method}()"

    def _fail(self, cause: Cause, headline: str, events: list[SentEvent], shown: Sequence[Shown] = ()) -> NoReturn:
        raise FaultFound(Evidence(cause, headline, events, shown))


_OBJECTS = {
    faults.READS_CLOCK: "the clock",
    faults.READS_ENVIRONMENT: "the environment",
    faults.READS_RANDOMNESS: "randomness",
}


def unstorable(ref: Ref, content: Document) -> str | None:
    """What makes the document unstorable, or None."""
    try:
        check_ref(ref)
        encode_document(ref, content)
    except WriteRefused as error:
        return str(error)
    return None


def _is_published_time(asked: Asked) -> bool:
    """Whether the event has no time of its own: a view that returns publish time means the same as with None."""
    return asked.said["identity_time_of"] in {None, asked.event.publish_time}


def _effect(method: str | None) -> str:
    if method in _KEYS:
        return "; the key differs between a message and its redelivery"
    return "; the time differs between a message and its redelivery" if method in _TIMES else ""


def _both(
    one: Asked, other: Asked, method: str, names: tuple[str, str] = ("first call", "second call")
) -> list[Shown]:
    return [Shown(names[0], _answer(one, method)), Shown(names[1], _answer(other, method))]


def _answer(asked: Asked, method: str) -> Any:
    if method in asked.said:
        return asked.said[method]
    raised = asked.raised
    return f"{type(raised.error).__name__}: {raised.text}" if raised is not None else "not called"
