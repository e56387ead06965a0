"""What an examination finds: a state, what is so, and what to do about it. Pure."""

from __future__ import annotations

import enum
from typing import NamedTuple


class State(enum.StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    # Nobody can say from here; the advice is how to find out.
    UNCHECKED = "unchecked"


class Finding(NamedTuple):
    """One thing that was looked at. `advice` is empty where there is nothing to do."""

    check: str
    state: State
    found: str
    advice: str = ""


def fine(check: str, found: str) -> Finding:
    return Finding(check, State.OK, found)


def warning(check: str, found: str, advice: str) -> Finding:
    return Finding(check, State.WARNING, found, advice)


def problem(check: str, found: str, advice: str) -> Finding:
    return Finding(check, State.PROBLEM, found, advice)


def unchecked(check: str, found: str, advice: str) -> Finding:
    return Finding(check, State.UNCHECKED, found, advice)
