"""Whether a message that views refuse is retried, refused so that its sender keeps it, or buried here. Pure.

The only place that decides it, by POISON_POLICY, by the delivery, and by what the other views did with the message.
Called by the queue and the committer, once every view has been asked.
"""

from __future__ import annotations

from millpond.core import timestamps
from millpond.core.errors import AccessDenied, UnownedDocument, ViewError, WriteRefused, allow_details, gravest
from millpond.core.item import Item
from millpond.core.model import Outcome, Result
from millpond.engine.rules import EngineRules

# A broker that redelivers, or keeps, such a message changes nothing: an operator has to act first.
_ALWAYS_BURIED = (WriteRefused, UnownedDocument)
# A dead-letter policy of Pub/Sub allows five attempts at least, and counts them only approximately.
_ATTEMPTS_MAX = 4


def refuse_or_bury(item: Item, rules: EngineRules, now: int) -> Result | None:
    """The result of a message with faults that is refused or retried; None to bury it."""
    fault = gravest(item.faults)
    allow_details(item.faults, in_full=rules.view_errors_in_full)
    if isinstance(fault, AccessDenied):
        bury = rules.bury_when_denied and item.bury and item.letter is None
        return None if bury else item.unsettled(Outcome.RETRY, fault.reason, fault)
    bug = next((one for one in item.faults if isinstance(one, ViewError)), None)
    if bug is not None and (not item.bury or _is_retried(item, rules, now)):
        return item.unsettled(Outcome.RETRY, bug.reason, bug)
    if not item.bury:
        return item.unsettled(Outcome.POISON, fault.reason, fault)
    if bug is not None or item.replay or any(isinstance(one, _ALWAYS_BURIED) for one in item.faults):
        return None
    # The broker's copy has a new id: a view that has taken the event could count it a second time.
    if item.is_taken:
        return None
    native = rules.poison_policy == "native" or (
        rules.poison_policy == "auto" and item.delivery.attempt is not None
    )
    return item.unsettled(Outcome.POISON, fault.reason, fault) if native else None


def _is_retried(item: Item, rules: EngineRules, now: int) -> bool:
    """Whether a deploy may still fix the view before the message is buried."""
    age_s = (now - item.delivery.publish_time) / timestamps.SECOND_US
    # The next attempt may be the last: then the broker makes a copy with a new id, which a view that has taken the
    # event could count a second time.
    is_last = item.is_taken and (item.delivery.attempt or 0) >= _ATTEMPTS_MAX
    return not item.replay and age_s < rules.view_error_park_after_s and not is_last
