"""What a check ends with: its report, the fault it found, or an error about its arguments. Imports no engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from millpond.core.errors import MillpondError


class CheckError(MillpondError, ValueError):
    """The arguments of a check cannot be used. The text names the argument and what is allowed."""


class NoEvents(CheckError):
    """None of the events is for the view."""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """A check that found no fault. Events are counted once each, without their copies.

    `poison` has the text of InvalidEvent for each event that raised it, by its number from 1 (its line, if the
    events are a file): a test that expects poison asserts it here.
    """

    view: str
    events: int
    applied: int
    filtered: int
    too_old: int
    poison: dict[int, str]
    documents: int
    worlds: int


class Cause(NamedTuple):
    """Why a view is at fault: a stable word, why it matters, and what to do."""

    word: str
    why: str
    remedy: str


_ALONE = "Every instance, redelivery and rebuild calls the view again, and each would get something else."
READS_CLOCK = Cause(
    "reads_clock",
    f"A view must be a function of its event alone. {_ALONE}",
    "Take the time from the event: event.time(...), or event.publish_time.",
)
READS_ENVIRONMENT = Cause(
    "reads_environment",
    f"A view must be a function of its event alone. {_ALONE}",
    "Read it once: in __init__, or in views(settings), and keep the value on the view.",
)
READS_RANDOMNESS = Cause(
    "reads_randomness",
    f"A view must be a function of its event alone. {_ALONE}",
    "Derive the value from the event: a field, event.event_id, or hash_of(event.payload).",
)
CHANGES_EVENT = Cause(
    "changes_event",
    "Several views get the same event, and copies of it are recognised by its content.",
    "Copy before you change: dict(...), list(...), or copy.deepcopy(...).",
)
KEEPS_STATE = Cause(
    "keeps_state",
    "Another instance, a restart and a rebuild begin without that state, so their documents differ.",
    "Keep nothing between calls: make lists and dicts inside the method. Use a Tally to fold events together.",
)
DIFFERS = Cause(
    "gives_two_answers",
    f"The view gave two answers to one event. {_ALONE}",
    "Compute everything from the event, and in a fold from `current`.",
)
KEY_DIFFERS = Cause(
    "key_differs",
    "A redelivery or a republished copy of the event would make a second document.",
    "Make the key from the payload: message_id, publish_time and anything random or timed differ between copies.",
)
TIME_DIFFERS = Cause(
    "time_differs",
    "Copies of one event would be taken for two events: a tally counts both.",
    "Take the time from the payload; return None from time_of to order by publish time.",
)
COPY_DIFFERS = Cause(
    "copy_differs",
    "A tally counts the copy that arrives first, so its document would depend on the order of arrival.",
    "Use only the payload in fold: message_id and publish_time differ between copies of one event.",
)
DEPENDS_ON_ORDER = Cause(
    "depends_on_order",
    "Events arrive in any order, and each order must end with the same document.",
    "Use operations that commute (counts, sums, minimum, maximum, sorted unions); for the last value use a Latest.",
)
ROUNDS_FLOATS = Cause(
    "rounds_floats",
    "It adds floats, and a float sum is rounded differently in each order.",
    "Add integers (event.integer: cents, not euros), or decimals kept as text: str(Decimal(a) + event.decimal(b)).",
)
UNSTORABLE = Cause(
    "unstorable",
    "No store holds this document: the message would be buried as write_refused.",
    "Documents hold None, bool, 64-bit integers, float, text, bytes, aware datetimes, lists and dicts by text.",
)
RAISES = Cause(
    "raises",
    "Millpond takes it for a bug of the view: the message is retried for an hour, then buried as view_error.",
    "Handle the event; raise InvalidEvent (event.require does) if it can never be right; or say False in wants.",
)
ONE_STAMP = Cause(
    "one_stamp",
    "Nothing in these events says which of them is the later one: the message id decides, which is chance.",
    "Declare `sequence`, or a finer `time`; give the events times that differ if only the test data is wrong.",
)
ONE_IDENTITY = Cause(
    "one_identity",
    "Millpond takes them for copies of one event, so a tally counts only the one that arrives first.",
    "Give each event an eventId, time or sequence of its own.",
)
NOTHING_APPLIED = Cause(
    "nothing_applied",
    "A check of events that the view does not take shows nothing.",
    "Give events that make documents.",
)
WORLD_DIFFERS = Cause(
    "world_differs",
    "Each method gives the same answer when it is asked twice, and yet the documents differ from the fold.",
    "Look for state outside the view that its methods use. If there is none, it is a bug of Millpond: report it.",
)
CAUSES = tuple(value for value in list(globals().values()) if isinstance(value, Cause))


class ViewFault(AssertionError):
    """A view breaks a rule. `cause` is a stable word, `events` are the payloads of the smallest history."""

    def __init__(self, text: str, *, view: str, cause: str, events: Sequence[Any]) -> None:
        super().__init__(text)
        self.view = view
        self.cause = cause
        self.events = list(events)
