"""The lease of a step that a worker has claimed: who has it, until when, and whether that is believed. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, NamedTuple

from millpond.core import timestamps
from millpond.flow.statuses import RUNNING

# The longest lease there can be (FLOW_LEASE_S), and the same again for clock skew.
LEASE_BELIEVED_US = 2 * 3_600 * timestamps.SECOND_US


class Lease(NamedTuple):
    """Our fields in a RUNNING step: who has it, by which token, how often it was claimed, and until when."""

    owner: str
    token: str
    attempt: int
    until: int

    def is_over(self, now: int) -> bool:
        """Also True if it ends later than any lease can: one wrong clock must not hold a step for years."""
        return self.until <= now or self.until > now + LEASE_BELIEVED_US


def lease_of(step: Mapping[str, Any]) -> Lease | None:
    """The lease of a RUNNING step; None if it is not RUNNING, or has none of the fields we write."""
    claim = step.get("claim")
    if step.get("status") != RUNNING or not isinstance(claim, dict):
        return None
    token, attempt, until = claim.get("token"), claim.get("attempt"), claim.get("leaseUntil")
    if not isinstance(token, str) or type(attempt) is not int or not isinstance(until, dt.datetime):
        return None
    return Lease(str(claim.get("owner")), token, attempt, timestamps.from_datetime(until))
