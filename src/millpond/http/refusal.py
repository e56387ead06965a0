"""The answer to a request that the connection refuses, and how the connection ends after it. Called by `limits`.

On every path the answer has the shape of a push answer.
"""

from __future__ import annotations

import asyncio
import http

import msgspec

from millpond.core.model import Outcome
from millpond.ingress.push import RETRY_AFTER_S, Refusal

LINGER_S = 2.0
RETRYABLE = frozenset({429, 503})


def refusal_bytes(status: int, *, reason: str, text: str) -> bytes:
    outcome = Outcome.RETRY if status in RETRYABLE else Outcome.POISON
    body = msgspec.json.encode(Refusal(outcome, reason, "", "", [], text))
    phrase = http.HTTPStatus(status).phrase
    head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    if status == 429:
        head += f"retry-after: {RETRY_AFTER_S}\r\n"
    return head.encode() + b"connection: close\r\n\r\n" + body


def write_and_linger(transport: asyncio.Transport, answer: bytes, loop: asyncio.AbstractEventLoop) -> None:
    """Write, and close after LINGER_S: closing with unread bytes would reset it, and lose the answer."""
    transport.write(answer)
    if transport.can_write_eof():
        transport.write_eof()
    loop.call_later(LINGER_S, transport.close)
