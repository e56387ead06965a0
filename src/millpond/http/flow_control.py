"""Flow control of a connection: uvicorn's, and holds on reading that uvicorn does not know about."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl


class HeldFlow(FlowControl):
    """Flow control in which reading can be held, whatever uvicorn thinks of it meanwhile."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._holds = 0
        # Since when what was written waits for the client to read it.
        self.unread_since: float | None = None

    def hold(self) -> None:
        self._holds += 1
        if not self._transport.is_closing():
            self.pause_reading()

    def let_go(self) -> None:
        self._holds = max(self._holds - 1, 0)
        self.resume_reading()

    def let_go_of_all(self) -> None:
        self._holds = 0
        self.resume_reading()

    def resume_reading(self) -> None:
        if not self._holds and not self._transport.is_closing():
            super().resume_reading()
