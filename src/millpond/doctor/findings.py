"""The result of a check: a state, what was found, and what to do about it. Pure. Used by all checks and the CLI."""

from __future__ import annotations

import enum
from typing import NamedTuple


class State(enum.StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    # The check could not be made; the advice says how to make it by hand.
    UNCHECKED = "unchecked"


class Finding(NamedTuple):
    """One result of a check. `advice` is empty if there is nothing to do."""

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
