"""Progress of a part of the proof: a bar on a terminal, elsewhere a plain line at every tenth."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from millpond.cli.output import Advance, progress


@contextlib.contextmanager
def show_progress(what: str, total: int) -> Iterator[Advance]:
    """`what` is counted: "kills", "requests"."""
    if sys.stderr.isatty():
        with progress(what, total) as advance:
            yield advance
        return
    done = 0

    def advance_by(count: int) -> None:
        nonlocal done
        before, done = done, done + count
        if done * 10 // total > before * 10 // total:
            print(f"{done} of {total} {what}", file=sys.stderr, flush=True)

    yield advance_by
