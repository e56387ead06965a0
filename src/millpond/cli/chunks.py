"""A file or a pipe, read in chunks without ever holding up the event loop that sends what was read before."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from typing import BinaryIO

CHUNK_BYTES = 256 * 1024


class ChunkSource:
    """What is read. `size` is known for files on disk only."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        status = os.fstat(file.fileno())
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        # Files on disk are always ready; whoever writes into a pipe may take their time.
        self.may_wait = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode) or file.isatty()


async def read_chunks(source: ChunkSource) -> AsyncIterator[bytes]:
    """Every chunk, then one that is empty."""
    if not source.may_wait:
        while chunk := source.file.read(CHUNK_BYTES):
            yield chunk
            await asyncio.sleep(0)
        yield b""
        return
    reader = asyncio.StreamReader(limit=CHUNK_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source.file)
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            yield chunk
        yield b""
    finally:
        transport.close()
