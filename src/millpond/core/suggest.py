"""Which name was probably meant: for the texts of errors about an unknown one. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache

# How similar two names must be for one to count as a typing error.
_ALIKE = 0.6
_CHARS_MAX = 255


def suggest(name: str, known: Iterable[str]) -> str:
    """`did you mean "x"? ` and all known names, for the end of an error's text."""
    names = tuple(sorted(known))
    meant = nearest(name, names, _ALIKE)
    return f"{did_you_mean(meant)}known: {', '.join(names)}"


def did_you_mean(meant: str | None) -> str:
    """The question, with a space behind it; empty if no name resembles the one that was given."""
    return f'did you mean "{meant}"? ' if meant else ""


def nearest(name: str, known: tuple[str, ...], alike: float) -> str | None:
    """The known name that resembles this one most, in any case of letters; None if none does."""
    return _nearest(name[:_CHARS_MAX].lower(), known, alike)


@lru_cache(maxsize=256)
def _nearest(name: str, known: tuple[str, ...], alike: float) -> str | None:
    as_known = {other.lower(): other for other in known}
    return next((as_known[found] for found in difflib.get_close_matches(name, as_known, n=1, cutoff=alike)), None)
