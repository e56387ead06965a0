"""Documents as rows of a CSV file: nothing is lost, nothing is computed, and a reader gets the values back."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from typing import Any

import pytest

from millpond.http.api.csv_rows import COLUMNS_MAX, CsvColumns, cell, harmless


def table(*documents: dict[str, Any], learned: int | None = None) -> list[list[str]]:
    """The file of these documents, read back; its columns are those of the first `learned`."""
    columns = CsvColumns()
    for document in documents[:learned]:
        columns.learn(document)
    rows = [columns.row(f"d{n}", document) for n, document in enumerate(documents)]
    text = b"".join([columns.head(), *rows]).decode()
    return list(csv.reader(io.StringIO(text, newline="")))


def test_columns_are_dotted_paths_in_the_order_of_the_documents() -> None:
    assert table({"b": 1, "a": {"x": "y", "z": {}}}, {"c": [1, "t"]}) == [
        ["id", "b", "a.x", "a.z", "c", "more"],
        ["d0", "1", "y", "{}", "", ""],
        ["d1", "", "", "", '[1,"t"]', ""],
    ]


def test_fields_that_appear_later_are_in_the_last_column() -> None:
    """The head of a streamed file is sent before its last documents are read."""
    head, _, row = table({"a": 1}, {"a": 2, "late": {"x": True}}, learned=1)
    assert head == ["id", "a", "more"]
    assert row[:2] == ["d1", "2"]
    assert json.loads(row[2]) == {"late.x": True}


def test_fields_beyond_the_columns_are_in_the_last_column() -> None:
    wide = {f"f{n}": n for n in range(COLUMNS_MAX + 3)}
    head, row = table(wide)
    assert len(head) == COLUMNS_MAX + 2
    assert json.loads(row[-1]) == {f"f{n}": n for n in range(COLUMNS_MAX, COLUMNS_MAX + 3)}


def test_fields_with_the_same_path_are_all_there() -> None:
    """A field's own name may contain dots."""
    _, row = table({"a.b.c": 1, "a": {"b.c": 2, "b": {"c": 3}}, "a.b": {"c": 4}})
    assert row[1] == "1"
    assert sorted(json.loads(row[2]).values()) == [2, 3, 4]


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-x", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-1+1", "-1e", "=", "--1"]
)
def test_text_that_would_be_a_formula_begins_with_an_apostrophe(text: str) -> None:
    """In values, ids and field names: all of them are what a sender wrote."""
    assert harmless(text) == f"'{text}"
    (head, row) = table({text: text})
    assert head[1] == row[1] == f"'{text}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (-5, "-5"),
        (-0.5, "-0.5"),
        ("-12.50", "-12.50"),
        (float("-inf"), "-inf"),
        (True, "true"),
        (None, ""),
        (2**63 - 1, "9223372036854775807"),
        ("a=1", "a=1"),
        (dt.datetime(2026, 1, 8, tzinfo=dt.UTC), "2026-01-08T00:00:00Z"),
        (b"\xfb\xff", "'+/8="),
    ],
    ids=str,
)
def test_values_stay_what_they_are(value: Any, shown: str) -> None:
    """A negative number is no formula, also if it was sent as text."""
    assert cell(value) == shown


def test_separators_quotes_and_line_ends_are_quoted() -> None:
    """By RFC 4180: lines end with CR LF, and a quote in a cell is doubled."""
    columns = CsvColumns()
    columns.learn({"a": 1})
    hostile = 'x,"y"\r\nz;\u2028\0'
    line = columns.row("i,d", {"a": hostile})
    assert line.endswith(b"\r\n")
    assert line.startswith(b'"i,d","x,""y""\r\n')
    assert table({"a": hostile})[1][1] == hostile


def test_fields_do_not_share_the_titles_of_the_columns_every_file_has() -> None:
    """A program that reads rows by title finds the document's id and its field of the same name."""
    columns = CsvColumns()
    columns.learn({"id": 1, "more": 2, "a": {"b": 3}})
    assert columns.head() == b"id,id (field),more (field),a.b,more\r\n"
