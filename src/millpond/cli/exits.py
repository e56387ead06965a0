"""Exit codes, in one place: scripts depend on them, so a code never changes its meaning."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from millpond.core.errors import MillpondError, RunExists, StoreError, Unreachable
from millpond.stores.sqlite.lock import StoreInUse

OK = 0
NEGATIVE = 1
USAGE = 2
UNREACHABLE = 3
INTERRUPTED = 130
BROKEN_PIPE = 141

TABLE = (
    (OK, "it worked"),
    (NEGATIVE, "the answer is no: not found, or some of it failed"),
    (USAGE, "wrong usage or a wrong setting"),
    (UNREACHABLE, "the server or the store could not be reached"),
    (INTERRUPTED, "interrupted with Ctrl-C"),
    (BROKEN_PIPE, "whoever read the output went away, as `head` does"),
)


class NegativeAnswer(MillpondError):
    """What was asked for is not there, or some of what was to be done failed."""


class WrongUsage(MillpondError):
    """The command cannot do this as it was called, whatever the world looks like."""


class ReaderGone(Exception):
    """Whoever read our standard output has gone. No error of ours, and none to talk about."""


def leave(code: int) -> NoReturn:
    """End now. Python would first wait for every thread and pool that a step left behind, for ever perhaps."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def code_of(error: MillpondError) -> int:
    if isinstance(error, NegativeAnswer | RunExists):
        return NEGATIVE
    if isinstance(error, Unreachable | StoreError | StoreInUse):
        return UNREACHABLE
    return USAGE
