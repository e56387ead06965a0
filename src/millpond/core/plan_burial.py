"""The plan of a message that is buried: whether its letter may be stored. Pure; `plan` calls it.

A letter in parts is stored only by a commit that deletes its token (`dead_letters/store.py` explains why).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millpond.core.document import is_expired
from millpond.core.errors import Unavailable
from millpond.core.item import DeadLetter, Item, Needs
from millpond.core.model import Document, Outcome, Result

if TYPE_CHECKING:
    from millpond.core.working_set import WorkingSet


def needs_of_letter(letter: DeadLetter) -> Needs:
    """The documents that its plan uses."""
    token = None if letter.token is None else letter.token.ref
    refs = [ref for ref in (letter.ref, letter.aside, token) if ref is not None]
    # Whether the letter may be stored depends on what is stored already, so absence is not assumed.
    return Needs([], refs) if letter.document is not None and token is None else Needs(refs, [])


def plan_burial(item: Item, letter: DeadLetter, working: WorkingSet, now: int) -> Result:
    """`buried` if the letter is stored or is written now; RETRY if it was stored and is gone."""
    if letter.ref is None:
        return item.buried(letter)
    ref = letter.ref
    if letter.aside is not None and _is_of_another(working.look(ref), letter, now):
        ref = letter.aside
    there = working.look(ref)
    if _is_of_another(there, letter, now):
        return _again(item, f"another message of the same id was buried as {ref.id} at the same time")
    if there is not None and not is_expired(there, now):
        # An earlier delivery buried it, and its acknowledgement was lost. An expired letter does not count: the
        # store may delete it at any moment.
        completed = _with_refusals(there, letter)
        if completed is not None:
            working.put(ref, completed)
        return item.buried(letter)
    if letter.document is None or is_expired(letter.document, now) or not _may_be_stored(letter, working):
        return _again(item, f"the letter {ref.id} was purged, or expired, while it was being buried again")
    working.put(ref, letter.document)
    if letter.token is not None:
        working.remove(letter.token)
    return item.buried(letter)


def _with_refusals(there: Document, letter: DeadLetter) -> Document | None:
    """The stored letter with the views that refused the message only now; None if it lists them all.

    A letter without a list is about the whole message: its replay asks every view.
    """
    listed = there.get("refusals")
    if not listed:
        return None
    known = {refusal["view"] for refusal in listed}
    new = [refusal for refusal in letter.refusals if refusal["view"] not in known]
    if letter.refusals and not new:
        return None
    # A replay before this refusal says nothing about it: the letter must not count as replayed successfully. If the
    # whole message is at fault now, the list stays: the other views have taken it, and must not be asked again with
    # a payload that an operator corrects.
    kept = {name: value for name, value in there.items() if name not in {"replayOutcome", "replayReason"}}
    return {**kept, "refusals": [*listed, *new]}


def _again(item: Item, text: str) -> Result:
    return item.unsettled(Outcome.RETRY, "letter_not_stored", Unavailable(text))


def _is_of_another(there: Document | None, letter: DeadLetter, now: int) -> bool:
    """Whether the stored letter is of another message: without a subscription two messages may share an id."""
    mine = None if letter.document is None else letter.document.get("dataMark")
    if there is None or mine is None or is_expired(there, now):
        return False
    return there.get("dataMark") not in {None, mine}


def _may_be_stored(letter: DeadLetter, working: WorkingSet) -> bool:
    """Whether its parts are stored. A purge deletes them with the letter, and then the token is gone too."""
    return letter.token is None or working.holds(letter.token)
