"""One GET: its status and headers, and our clock before and after it. Called by the checks of clock and server."""

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
    """Takes five seconds at most. Raises OSError if there is no answer, or it is not HTTP."""
    asked_at = time.time()
    reply = await fetch(Address.parse(url), timeout_s=_TIMEOUT_S)
    return ProbeAnswer(reply.status, reply.headers, asked_at, time.time())
