"""docs/faults.md shows the table that is tested."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from tests.wire.table import TIMES, expected, rows

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"


def test_the_page_shows_the_table() -> None:
    """Every combination with its first status and its word, and nothing else."""
    tables = [
        line.strip("| ").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if "|" in line
    ]
    shown: list[tuple[str, ...]] = []
    for kinds, calls, positions, *answers in (cells for cells in tables if len(cells) == 6):
        if kinds not in {"fault", "---"}:
            for kind, on, position in product(kinds.split(", "), calls.split(", "), positions.split(", ")):
                answered = zip(TIMES, answers, strict=True)
                shown += [(kind, on, position, times, *answer.split(" ")) for times, answer in answered]
    tested = [(*row[:4], f"{expected(row)[0].status}", row.word) for row in rows()]
    assert sorted(shown) == sorted(tested)
