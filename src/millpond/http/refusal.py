"""The answer to a request that the connection refuses: on every path it has the shape of a push answer.

Called by `limits`.
"""

from __future__ import annotations

import http

import msgspec

from millpond.core.model import Outcome
from millpond.ingress.push import RETRY_AFTER_S, Refusal

RETRYABLE = frozenset({429, 503})


def refusal_bytes(status: int, *, reason: str, text: str) -> bytes:
    outcome = Outcome.RETRY if status in RETRYABLE else Outcome.POISON
    body = msgspec.json.encode(Refusal(outcome, reason, "", "", [], text))
    phrase = http.HTTPStatus(status).phrase
    head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    if status == 429:
        head += f"retry-after: {RETRY_AFTER_S}\r\n"
    return head.encode() + b"connection: close\r\n\r\n" + body
