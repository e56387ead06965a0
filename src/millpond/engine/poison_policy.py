"""Whether a message that can never succeed is buried here, or refused so that its sender keeps it. Pure.

The only place that decides it, by POISON_POLICY and by the delivery. Called by the queue and the committer.
"""

from __future__ import annotations

from millpond.core import timestamps
from millpond.core.errors import AccessDenied, ViewError, WriteRefused
from millpond.core.model import Outcome, Result
from millpond.core.route import Fault, Item
from millpond.engine.rules import EngineRules


def refuse_or_bury(item: Item, fault: Fault, rules: EngineRules, now: int) -> Result | None:
    """The result of a faulty message that is refused or retried; None to bury it."""
    if isinstance(fault, ViewError):
        fault.in_full = rules.view_errors_in_full
    if isinstance(fault, AccessDenied):
        bury = rules.bury_when_denied and item.bury and item.letter is None
        return None if bury else item.unsettled(Outcome.RETRY, fault.reason, fault)
    if not item.bury:
        outcome = Outcome.RETRY if isinstance(fault, ViewError) else Outcome.POISON
        return item.unsettled(outcome, fault.reason, fault)
    if isinstance(fault, ViewError):
        age_s = (now - item.delivery.publish_time) / timestamps.SECOND_US
        if not item.replay and age_s < rules.view_error_park_after_s:
            return item.unsettled(Outcome.RETRY, fault.reason, fault)
        return None
    if isinstance(fault, WriteRefused) or item.replay:
        return None
    native = rules.poison_policy == "native" or (
        rules.poison_policy == "auto" and item.delivery.attempt is not None
    )
    return item.unsettled(Outcome.POISON, fault.reason, fault) if native else None
