"""Watches what a call reads besides its arguments: the clock, the environment, randomness. Called by `asking`.

It uses the interpreter's profile hook, which sees every call of Python and of C functions in this thread. Nothing
is replaced, so a view runs exactly as it does in production, and the hook is gone after the call.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import opcode
import os
import random
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import PurePath
from types import FrameType
from typing import Any, NamedTuple

from millpond.testing.faults import READS_CLOCK, READS_ENVIRONMENT, READS_RANDOMNESS, Cause

_STDLIB = sysconfig.get_path("stdlib")
_SITE = sysconfig.get_path("purelib")
# They read the clock or files for their own purposes, never for the document.
_HARMLESS = tuple(
    f"{_STDLIB}/{name}" for name in ("logging/", "warnings.py", "traceback.py", "linecache.py", "importlib/")
)
_CLOCKS = {time.time: "time.time()", time.time_ns: "time.time_ns()"}
# They read the clock if they are called without the time to convert: name and the number of arguments then.
_CLOCKS_WITHOUT_TIME = {
    time.gmtime: ("time.gmtime()", 0),
    time.localtime: ("time.localtime()", 0),
    time.ctime: ("time.ctime()", 0),
    time.asctime: ("time.asctime()", 0),
    time.strftime: ("time.strftime()", 1),
}
_NOW = frozenset({"now", "utcnow", "today"})
_RANDOM = {os.urandom: "os.urandom()"}
_FILES = {io.open: "open()", os.listdir: "os.listdir()", os.getcwd: "os.getcwd()", os.stat: "os.stat()"}
# The generator of the functions of `random`. One that a view seeds from its event is repeatable.
_SHARED = getattr(random, "_inst")  # noqa: B009 - not part of the module's declared names
_ENVIRON = frozenset(
    getattr(type(os.environ), name).__code__ for name in ("__getitem__", "__iter__", "copy", "__len__")
)
_CALL = opcode.opmap["CALL"]


class OutsideRead(NamedTuple):
    """Something that was read: which function, and the line of the caller's file."""

    cause: Cause
    what: str
    where: str


@contextlib.contextmanager
def watched(*, on: bool = True) -> Iterator[list[OutsideRead]]:
    """Readings of the calls in this block, in order; none if it is not `on`."""
    found: list[OutsideRead] = []
    if not on:
        yield found
        return

    def look(frame: FrameType, event: str, function: Any) -> None:
        reading = _of_c(frame, function) if event == "c_call" else _of_python(frame) if event == "call" else None
        if reading is not None and (where := _place(frame)):
            found.append(OutsideRead(*reading, where))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(before)


def _of_c(frame: FrameType, function: Any) -> tuple[Cause, str] | None:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type):
        is_clock = function.__name__ in _NOW and issubclass(owner, dt.date)
        return (READS_CLOCK, f"{owner.__name__}.{function.__name__}()") if is_clock else None
    if owner is _SHARED or isinstance(owner, random.SystemRandom):
        return READS_RANDOMNESS, "random"
    if function is hash:
        return None if frame.f_code.co_name == "__hash__" else (READS_RANDOMNESS, "hash()")
    try:
        known = function in _CLOCKS, function in _CLOCKS_WITHOUT_TIME, function in _RANDOM, function in _FILES
    except TypeError:
        # A method of an object that cannot be hashed.
        return None
    if known[0]:
        return READS_CLOCK, _CLOCKS[function]
    if known[1]:
        name, arguments = _CLOCKS_WITHOUT_TIME[function]
        return (READS_CLOCK, name) if _arguments(frame) == arguments else None
    if known[2]:
        return READS_RANDOMNESS, _RANDOM[function]
    return (READS_ENVIRONMENT, _FILES[function]) if known[3] else None


def _arguments(frame: FrameType) -> int | None:
    """With how many arguments the caller calls now; None if its bytecode does not say."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at + 1] if code[at] == _CALL else None


def _of_python(frame: FrameType) -> tuple[Cause, str] | None:
    return (READS_ENVIRONMENT, "os.environ") if frame.f_code in _ENVIRON else None


def _place(frame: FrameType | None) -> str:
    """File and line of the first caller outside the standard library; empty if the reading is harmless."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_HARMLESS) or file.startswith("<frozen importlib"):
            return ""
        if not file.startswith("<frozen") and (not file.startswith(_STDLIB) or file.startswith(_SITE)):
            return f"{PurePath(file).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
