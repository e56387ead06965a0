"""Documents as rows of a CSV file (RFC 4180). Pure. Used by the endpoint `export`.

The first column is the document's id, the last one `more`: as JSON, every field that has no column of its own, so
that none is lost. Text that a spreadsheet would take for a formula begins with an apostrophe; numbers stay numbers.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from millpond.core.model import Document
from millpond.http.api.document_filter import as_text

COLUMNS_MAX = 200
# A longer path is not worth a column.
_PATH_CHARS_MAX = 300
# What makes a spreadsheet compute a cell (tab and line ends, because they are skipped before it looks).
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
# A number that was sent as text is none of that, and must stay readable for programs.
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)


def leaves(value: Document, above: str = "") -> Iterator[tuple[str, Any]]:
    """Every field by its dotted path. A list is one value, as is an empty map."""
    for name, inner in value.items():
        path = f"{above}.{name}" if above else name
        if isinstance(inner, dict) and inner:
            yield from leaves(inner, path)
        else:
            yield path, inner


class CsvColumns:
    """The paths that have a column, in the order in which documents showed them."""

    def __init__(self) -> None:
        self.paths: dict[str, None] = {}

    def learn(self, document: Document) -> None:
        """Add the document's fields, while there is room."""
        for path, _ in leaves(document):
            if len(self.paths) < COLUMNS_MAX and len(path) <= _PATH_CHARS_MAX:
                self.paths.setdefault(path)

    def head(self) -> bytes:
        return _line(["id", *map(_title, self.paths), "more"])

    def row(self, document_id: str, document: Document) -> bytes:
        cells = dict.fromkeys(self.paths, "")
        filled: set[str] = set()
        more: dict[str, Any] = {}
        for path, value in leaves(document):
            if path in cells and path not in filled:
                filled.add(path)
                cells[path] = cell(value)
            else:
                # Also the second of two fields whose dotted paths are the same: names may contain dots.
                while path in more:
                    path += " (again)"  # noqa: PLW2901
                more[path] = value
        rest = msgspec.json.encode(more).decode() if more else ""
        return _line([harmless(document_id), *cells.values(), rest])


def cell(value: Any) -> str:
    """A value in a cell; null is empty, as is a field that the document does not have."""
    if value is None:
        return ""
    if isinstance(value, float):
        # JSON has no word for what is not finite.
        return str(value)
    if isinstance(value, bool | int):
        return as_text(value)
    return harmless(as_text(value))


def harmless(text: str) -> str:
    """The text, so that no spreadsheet computes it."""
    if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def _title(path: str) -> str:
    """The title of a field's column, unlike those of the two columns that every file has."""
    return f"{path} (field)" if path in {"id", "more"} else harmless(path)


def _line(cells: Sequence[str]) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue().encode()
