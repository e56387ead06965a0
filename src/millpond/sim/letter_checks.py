"""Checks of dead letters: each is whole, the only one of its message, and for views that may refuse the message.

Owned by `checks.py`.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence

import msgspec

from millpond.core import timestamps
from millpond.core.collections import LETTERS, RECEIPTS, part_ref
from millpond.core.model import Delivery, Ref, Snapshot
from millpond.sim import oracle
from millpond.sim.facts import BUG, LAST_FAILS, PASSES_FAIL, REFUSED, PublishedMessage
from millpond.sim.oracle import TALLIES, Document
from millpond.sim.rules import AT_ONCE_S, Broken, Rules
from millpond.sim.store import Storehouse

ONE_LETTER = "one letter for each message"
WHOLE = "letters are whole"
RIGHTLY_BURIED = "no good message in the letters"
# Flaws of the letters whose message was refused before any view was asked.
_WHOLE = ("no JSON", "no topic")
# The fewest attempts that a dead-letter policy can allow are five.
_LAST_ATTEMPT = 4
_BUGS = {BUG: "doors", LAST_FAILS: "gate_last", PASSES_FAIL: TALLIES}


def letter_of(message: PublishedMessage) -> Ref:
    """The ref of its letter, if it has one: there is one subscription."""
    return Ref(LETTERS, f"all__{message.id}")


def check_whole(house: Storehouse, message: PublishedMessage, letter: Snapshot) -> None:
    """A letter must hold the delivery exactly as it was sent."""
    head = letter.data or {}
    parts = [house.get(part_ref(letter.ref, name)).data or {} for name in head["parts"]]
    packed = head["delivery"] or b"".join(part.get("delivery", b"") for part in parts)
    try:
        kept = msgspec.msgpack.decode(zlib.decompress(packed), type=Delivery)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise Broken(WHOLE, f"{letter.ref.id} cannot be opened: {error}") from None
    sent = message.id, message.published_at, message.data, message.attributes
    if (kept.message_id, kept.publish_time, kept.data, kept.attributes) != sent:
        raise Broken(WHOLE, f"{letter.ref.id} does not hold {message.id} as it was sent")


class LetterChecks:
    def __init__(
        self,
        house: Storehouse,
        rules: Rules,
        seen: Counter[str],
        messages: Mapping[str, PublishedMessage],
        is_unowned: Callable[[PublishedMessage, str], bool],
        is_forgotten: Callable[[Ref], bool],
    ) -> None:
        self._house = house
        self._rules = rules
        self._seen = seen
        self._messages = messages
        self._is_unowned = is_unowned
        self._is_forgotten = is_forgotten
        self.buried: set[str] = set()

    def check(self, old: Snapshot, new: Snapshot) -> None:
        letter = new.data or {}
        message = self._messages[letter["messageId"]]
        self.buried.add(message.id)
        if new.ref != letter_of(message):
            raise Broken(ONE_LETTER, f"{message.id} is in {new.ref.id}")
        self._is_whole(message, new)
        refusals = {refusal["view"]: refusal["reason"] for refusal in letter["refusals"]}
        before = {refusal["view"] for refusal in (old.data or {}).get("refusals", ())}
        self._note_letter(message, letter, before, refusals)
        if message.fact.flaw in _WHOLE:
            if refusals:
                raise Broken(RIGHTLY_BURIED, f"{message.id} was refused by no view, and {new.ref.id} lists some")
            return
        if not refusals:
            raise Broken(RIGHTLY_BURIED, f"{message.id} is buried as {letter['reason']}, for no view")
        views = oracle.views_of(message)
        for view, reason in refusals.items():
            # Before its last attempt, a message that another view has taken is not left to the broker.
            is_new = view not in before and not (
                len(views) > 1 and (letter["deliveryAttempt"] or 0) >= _LAST_ATTEMPT
            )
            if not self._may_refuse(message, view, reason, is_new=is_new):
                raise Broken(RIGHTLY_BURIED, f"{message.id} is buried as {reason} for {view}")

    def _may_refuse(self, message: PublishedMessage, view: str, reason: str, *, is_new: bool) -> bool:
        """Whether this view may refuse the message for this reason, now."""
        flaw = message.fact.flaw
        if reason == "view_error":
            age = self._rules.now() + self._rules.skew_max - message.published_at
            return _BUGS.get(flaw or "") == view and (age >= self._rules.parked_after or not is_new)
        if reason == "too_old_to_count":
            oldest = self._rules.now() - self._rules.receipts_kept + self._rules.skew_allowed + self._rules.skew_max
            if is_new:
                self._has_no_receipt(message)
            return view == TALLIES and oracle.happened(message) < oldest
        if reason == "unowned_document":
            return self._is_unowned(message, view)
        wanted = "write_refused" if flaw == REFUSED else "invalid_event"
        return oracle.never_takes(message, view) and reason == wanted

    def _note_letter(
        self, message: PublishedMessage, letter: Document, before: Container[str], refusals: Mapping[str, str]
    ) -> None:
        if letter["replays"] == 0:
            for reason in refusals.values() or (letter["reason"],):
                self._seen[f"buried: {reason}"] += 1
        views = oracle.views_of(message)
        self._seen["letter about one of two views"] += 0 < len(refusals) < len(views)
        self._seen["refusal added to a letter"] += bool(before) and any(view not in before for view in refusals)

    def _is_whole(self, message: PublishedMessage, letter: Snapshot) -> None:
        self._seen["letter in parts"] += bool((letter.data or {})["parts"])
        check_whole(self._house, message, letter)

    def check_listed(self, message: PublishedMessage, refusing: Sequence[str]) -> None:
        """The message was answered as buried for these views: a replay of its letter must ask them."""
        listed = self.views_in_letter(message)
        forgotten = [view for view in refusing if view not in listed]
        if forgotten and self._house.get(letter_of(message)).data is not None:
            raise Broken(ONE_LETTER, f"{message.id} is buried for {forgotten[0]}, and its letter does not say so")

    def views_in_letter(self, message: PublishedMessage) -> Container[str]:
        """The views that its letter will be replayed to. An expired letter may be swept, so it has none.

        All of them if it was just purged, or is about the whole message.
        """
        alive_at = timestamps.to_datetime(self._rules.now() - self._rules.skew_max)
        found = self._house.get(letter_of(message))
        if found.data is None:
            return oracle.views_of(message) if self._is_forgotten(found.ref) else ()
        if found.data["expireAt"] <= alive_at:
            return ()
        self._is_whole(message, found)
        return [refusal["view"] for refusal in found.data["refusals"]] or oracle.views_of(message)

    def _has_no_receipt(self, message: PublishedMessage) -> None:
        """An event with a live receipt was counted, so it is a duplicate at any age, and must not be buried.

        The exception: two instances had it at once, and by one instance's clock it was too old. Then it is counted
        and has a letter, and a replay of the letter is a duplicate.
        """
        now = self._rules.now()
        alive_at = timestamps.to_datetime(now + self._rules.skew_max)
        known_since = timestamps.to_datetime(now - self._rules.skew_max - AT_ONCE_S * timestamps.SECOND_US)
        for receipt in self._house.all_of(RECEIPTS):
            known = receipt.data or {}
            same = self._messages[known["messageId"]].fact == message.fact
            counted = TALLIES in known["views"] and known["createdAt"] < known_since
            if same and counted and known["expireAt"] > alive_at:
                raise Broken("receipts agree", f"{message.id} is buried, and {receipt.ref.id} says it was counted")
