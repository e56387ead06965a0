"""One GET, for its status and headers, with our own clock before and after it."""

from __future__ import annotations

import time
from typing import NamedTuple

from millpond.http_client import Address, fetch

_TIMEOUT_S = 5.0


class ProbeAnswer(NamedTuple):
    status: int
    headers: dict[str, str]
    # Our clock, in seconds since 1970, just before the request and just after the answer.
    asked_at: float
    answered_at: float


async def probe(url: str) -> ProbeAnswer:
    """Takes five seconds at most. Raises OSError if there is no answer, or none in HTTP."""
    asked_at = time.time()
    reply = await fetch(Address.parse(url), timeout_s=_TIMEOUT_S)
    return ProbeAnswer(reply.status, reply.headers, asked_at, time.time())
