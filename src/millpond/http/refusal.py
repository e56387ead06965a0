"""The answer to a request that is refused unread, and how the connection ends after it. Called by `limits`.

On every path the answer has the shape of a push answer.
"""

from __future__ import annotations

import asyncio
import http

import msgspec

from millpond.core.ack import Settlement
from millpond.core.errors import MillpondError
from millpond.core.model import Outcome, Result
from millpond.ingress.push import RETRY_AFTER_S, Refusal
from millpond.live.outcomes import Outcomes

LINGER_S = 2.0
RETRYABLE = frozenset({429, 503})


def publish_refusal(outcomes: Outcomes, status: int, reason: str, text: str) -> None:
    """Publish the outcome of a request that was refused before a message was read from it."""
    result = Result(_outcome(status), reason, error=MillpondError(text))
    outcomes.publish(None, result, Settlement(status, None, retryable=status in RETRYABLE), 0.0, counts=False)


def refusal_body(status: int, reason: str, text: str) -> bytes:
    return msgspec.json.encode(Refusal(_outcome(status), reason, "", "", [], text))


def _outcome(status: int) -> Outcome:
    return Outcome.RETRY if status in RETRYABLE else Outcome.POISON


def refusal_bytes(status: int, *, reason: str, text: str) -> bytes:
    body = refusal_body(status, reason, text)
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
