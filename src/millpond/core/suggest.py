"""Which name was probably meant: for the texts of errors about an unknown one. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# How similar two names must be for one to count as a typing error.
_ALIKE = 0.6


def suggest(name: str, known: Iterable[str]) -> str:
    """`did you mean "x"? ` and all known names, for the end of an error's text."""
    names = sorted(known)
    as_known = {other.lower(): other for other in names}
    found = difflib.get_close_matches(name[:255].lower(), as_known, n=1, cutoff=_ALIKE)
    meant = f'did you mean "{as_known[found[0]]}"? ' if found else ""
    return f"{meant}known: {', '.join(names)}"
