"""One GET, for its status and headers. Plain `http.client`: what is asked here is asked once."""

from __future__ import annotations

import contextlib
import http.client
import time
from typing import NamedTuple
from urllib.parse import urlsplit

_TIMEOUT_S = 5.0


class ProbeAnswer(NamedTuple):
    status: int
    headers: dict[str, str]
    # Our clock, in seconds since 1970, just before the request and just after the answer.
    asked_at: float
    answered_at: float


def fetch(url: str) -> ProbeAnswer:
    """Blocks for five seconds at most. Raises OSError where there is no answer, or none in HTTP."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    with contextlib.closing(kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)) as connection:
        asked_at = time.time()
        try:
            connection.request("GET", parts.path or "/")
            response = connection.getresponse()
        except http.client.HTTPException as error:
            raise OSError(f"it does not speak HTTP ({type(error).__name__})") from None
        headers = {name.lower(): value for name, value in response.getheaders()}
        return ProbeAnswer(response.status, headers, asked_at, time.time())
