"""Flow control of a connection: uvicorn's, plus our own holds on reading. Used by `limits`."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl


class HeldFlow(FlowControl):
    """Reading resumes only when all holds are released, even if uvicorn asks for it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._holds = 0
        # Since when written bytes wait for the client to read them.
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
