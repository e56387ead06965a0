"""`GET /api/artifacts/{path}`: serves files that steps made. Never serves a file outside ARTIFACTS_DIR."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path, PurePosixPath

from starlette.requests import Request
from starlette.responses import Response

from millpond.concurrency import in_thread
from millpond.http.access import Access
from millpond.http.operation import NOT_FOUND, in_path, operation
from millpond.http.routing import Route, failure

ARTIFACT_BYTES_MAX = 20 * 1024 * 1024
_MEDIA_TYPES = {".png": "image/png", ".json": "application/json"}
_READ_AT_ONCE = 4


class Artifacts:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._slots = asyncio.Semaphore(_READ_AT_ONCE)

    def routes(self) -> list[Route]:
        return [Route("/api/artifacts/{path}", {"GET": self._artifact}, Access.ADMIN)]

    @operation(
        "artifact",
        NOT_FOUND,
        parameters=[
            in_path("path", "Its path below ARTIFACTS_DIR; a slash is `%2F`.", "example-1/a/manifest.json")
        ],
        media_types=sorted(_MEDIA_TYPES.values()),
    )
    async def _artifact(self, _: Request, path: str) -> Response:
        """A file that a step made.

        .png and .json below ARTIFACTS_DIR, at most 20 MiB.
        """
        media_type = _MEDIA_TYPES.get(PurePosixPath(path).suffix)
        content = None
        if media_type is not None:
            async with self._slots:
                content = await in_thread(lambda: read_inside(self._folder, path))
        if content is None:
            return failure(404, "not_found", "there is no such file: .png and .json below ARTIFACTS_DIR are served")
        return Response(content, media_type=media_type)


def read_inside(folder: Path, path: str) -> bytes | None:
    """The content of a regular file below the folder; None for any other path, also through links or dots."""
    parts = path.split("/")
    # The name of a file that is still being written begins with a dot.
    if "\0" in path or any(not part or part.startswith(".") for part in parts):
        return None
    try:
        root = folder.resolve(strict=True)
        found = root.joinpath(*parts).resolve(strict=True)
        if not found.is_relative_to(root):
            return None
        # Does not follow a link that was created meanwhile, and does not wait for the other end of a pipe.
        descriptor = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            content = file.read(ARTIFACT_BYTES_MAX + 1)
    except (OSError, ValueError, RuntimeError):
        return None
    return content if len(content) <= ARTIFACT_BYTES_MAX else None
