"""What a message weighs, and the line in front of the waiting room: a FIFO for messages that find it full.

A commit takes milliseconds and makes room for many messages. A refusal costs more: Pub/Sub backs off, and a client
that does not back off sends its next request at once. So a message waits here for a short, bounded time. Each
connection has at most one request in the line, so FIFO order is fair between connections. `queue` owns it.
"""

from __future__ import annotations

import asyncio
from collections import deque

from millpond.core.errors import Overloaded
from millpond.core.model import Delivery, Outcome, Result
from millpond.engine.ticket import Arrival

ROOM_WAIT_S = 1.0
# Messages in the line for each place in the room: about as many as an instance stores within ROOM_WAIT_S.
LINE_PER_PLACE = 16
# Bytes in memory for each byte of the message: its document, its log entry and its receipt.
_WEIGHT_PER_BYTE = 3
_WEIGHT_FIXED = 1_024
SHUTTING_DOWN = Result(Outcome.RETRY, "shutting_down", error=Overloaded("the server is shutting down"))


class WaitingLine:
    """Arrivals in order, each for at most ROOM_WAIT_S. The queue calls `pop` when there is room."""

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._bytes = 0
        # Each with its deadline. All wait equally long, so deadlines are in order.
        self._waiting: deque[tuple[float, Arrival]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, arrival: Arrival) -> bool:
        """Append the arrival; False if the line itself is full, by number or by bytes."""
        if len(self._waiting) >= self._count_max or self._bytes + arrival.weight > self._bytes_max:
            return False
        loop = asyncio.get_running_loop()
        self._waiting.append((loop.time() + ROOM_WAIT_S, arrival))
        self._bytes += arrival.weight
        if self._timer is None:
            self._timer = loop.call_at(self._waiting[0][0], self._expire)
        return True

    def pop(self) -> Arrival:
        """The first arrival of the line. IndexError if there is none."""
        _, arrival = self._waiting.popleft()
        self._bytes -= arrival.weight
        return arrival

    def refuse_all(self, result: Result) -> None:
        """Answer every arrival in the line with `result`."""
        while self._waiting:
            self.pop().answer(result)

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        # Deadlines within the next millisecond count as passed, so that not every arrival needs its own timer.
        due = loop.time() + 0.001
        text = f"no room after {ROOM_WAIT_S:g} s: {len(self)} messages wait in front of the waiting room"
        while self._waiting and self._waiting[0][0] <= due:
            error = Overloaded(text)
            self.pop().answer(Result(Outcome.RETRY, error.reason, error=error))
        self._timer = loop.call_at(self._waiting[0][0], self._expire) if self._waiting else None


def weigh(delivery: Delivery) -> int:
    """About how many bytes of memory a message costs until it is settled: the room and the line count these."""
    return _WEIGHT_FIXED + _WEIGHT_PER_BYTE * (len(delivery.data or b"") + len(delivery.correction or b""))
