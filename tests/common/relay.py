"""A TCP relay in front of an emulator: the network can be cut, mended at the same address, or swallow all bytes."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

from tests.common.process import free_port


class Relay:
    """While cut, connections are refused, and those there were are gone."""

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = (host, int(port))
        self._port = free_port()
        self._listener: socket.socket | None = None
        self._sockets: list[socket.socket] = []
        self._swallowed: set[socket.socket] = set()
        self.address = f"127.0.0.1:{self._port}"
        # How long it takes until a new connection carries its first byte.
        self.connect_s = 0.0
        self.mend()

    def mend(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        sockets, self._sockets = self._sockets, []
        for each in [self._listener, *sockets]:
            if each is not None:
                # Closing alone does not wake the thread that waits for it.
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
        self._listener = None

    def swallow(self) -> None:
        """Connections made until now stay open, and nothing comes through."""
        self._swallowed = set(self._sockets)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                self._sockets.append(near)
                time.sleep(self.connect_s)
                far = socket.create_connection(self._upstream)
                self._sockets.append(far)
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while some := source.recv(65_536):
                if source not in self._swallowed:
                    target.sendall(some)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def relayed(upstream: str) -> Iterator[Relay]:
    relay = Relay(upstream)
    try:
        yield relay
    finally:
        relay.cut()
