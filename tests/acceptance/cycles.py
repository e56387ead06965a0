"""A server that collects no cyclic garbage, and says at the end what there would have been to collect.

`python -m acceptance.cycles FILE`: a JSON list of conversations, each a list of texts (latin-1) that are sent over
one connection, one after the other, reading what is answered within a moment; then the connection is closed.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from millpond import settings
from millpond.http import server
from millpond.service.service import Service

_OURS = ("millpond", "uvicorn", "starlette", "asyncio", "_asyncio", "uvloop", "httptools")


def converse(port: int, parts: list[str]) -> None:
    """Send each part; read whatever is answered within a moment."""
    with socket.create_connection(("127.0.0.1", port), timeout=0.15) as connection:
        for part in parts:
            with contextlib.suppress(OSError):
                connection.sendall(part.encode("latin-1"))
            with contextlib.suppress(TimeoutError, OSError):
                while connection.recv(65_536):
                    pass


def garbage() -> dict[str, int]:
    """What only the cyclic collector would free, by type; of texts and bytes, how many bytes."""
    gc.collect()
    found: collections.Counter[str] = collections.Counter()
    for thing in gc.garbage:
        kind = type(thing)
        if kind.__module__.partition(".")[0] in _OURS:
            found[f"{kind.__module__}.{kind.__qualname__}"] += 1
        held = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list | tuple) else ()
        for value in held:
            if isinstance(value, bytes | bytearray | str) and len(value) > 10_000:
                found["bytes"] += len(value)
    return dict(found)


def main(conversations: list[list[str]]) -> None:
    async def beside(service: Service, url: str) -> None:
        del service
        port = int(url.rpartition(":")[2])
        # Once for what is only made the first time.
        for _ in range(2):
            gc.collect()
            gc.garbage.clear()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            for parts in conversations:
                await asyncio.to_thread(converse, port, parts)
            await asyncio.sleep(2.5)
        found: dict[str, Any] = {"garbage": garbage()}
        gc.set_debug(0)
        gc.garbage.clear()
        print(f"CYCLES {json.dumps(found)}", flush=True)  # noqa: T201
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    server.serve(settings.load(), beside=beside)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
