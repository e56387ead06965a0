"""All exit codes. Scripts depend on them: a code never changes its meaning. Used by every command."""

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
    (BROKEN_PIPE, "the reader of the output closed it, as `head` does"),
)


class NegativeAnswer(MillpondError):
    """The requested object does not exist, or part of the work failed."""


class WrongUsage(MillpondError):
    """The command can never do this with these arguments and settings."""


class ReaderGone(Exception):
    """The reader of our standard output has closed it. No message is printed."""


def leave(code: int) -> NoReturn:
    """End now. Python would first wait for every thread and pool that a step left behind, perhaps forever."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def code_of(error: MillpondError) -> int:
    if isinstance(error, NegativeAnswer | RunExists):
        return NEGATIVE
    if isinstance(error, Unreachable | StoreError | StoreInUse):
        return UNREACHABLE
    return USAGE
