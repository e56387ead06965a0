"""The plan of a message that is buried: whether its letter may be stored. Pure; `plan` calls it.

A letter in parts is stored only by a commit that deletes its token (`letters/in_store.py` says why).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millpond import timestamps
from millpond.errors import Unavailable
from millpond.model import Document, Outcome, Ref, Result
from millpond.route import Item, Letter
from millpond.shape import is_expired

if TYPE_CHECKING:
    from millpond.plan import Desk


def refs_of_letter(letter: Letter) -> tuple[list[Ref], int]:
    """The documents its plan looks at, and how many of them, from the front, must be read."""
    if letter.ref is None:
        return [], 0
    refs = [letter.ref] if letter.token is None else [letter.ref, letter.token.ref]
    # What is stored already, in part or whole, decides whether the letter may be: its absence is not assumed.
    return refs, 0 if letter.document is not None and letter.token is None else len(refs)


def plan_burial(item: Item, letter: Letter, desk: Desk, now: int) -> Result:
    """`buried` if the letter is there or is now put; RETRY if it was there, and is no longer."""
    if letter.ref is None:
        return item.buried(letter)
    there = desk.look(letter.ref)
    if there is not None and timestamps.from_datetime(there["expireAt"]) > now:
        # Buried by an earlier delivery whose acknowledgement got lost. One that has expired may go any moment, and
        # does not count.
        if _is_of_another(there, letter):
            text = f"another message of the same id was buried as {letter.ref.id} at the same time"
            return item.unsettled(Outcome.RETRY, "letter_not_stored", Unavailable(text))
        return item.buried(letter)
    if letter.document is None or is_expired(letter.document, now) or not _may_be_stored(letter, desk):
        text = f"the letter {letter.ref.id} was purged, or expired, while it was being buried again"
        return item.unsettled(Outcome.RETRY, "letter_not_stored", Unavailable(text))
    desk.put(letter.ref, letter.document)
    if letter.token is not None:
        desk.remove(letter.token)
    return item.buried(letter)


def _is_of_another(there: Document, letter: Letter) -> bool:
    """Without a subscription two messages may share an id. When this one comes again, its letter has another id."""
    mine = None if letter.document is None else letter.document.get("dataMark")
    return mine is not None and there.get("dataMark") not in {None, mine}


def _may_be_stored(letter: Letter, desk: Desk) -> bool:
    """Whether its parts are there. A purge takes them along with the letter, whose commit has deleted the token."""
    return letter.token is None or desk.holds(letter.token)
