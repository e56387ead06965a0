"""Many rows in few statements.

`executemany` gives the interpreter away and asks for it again around every row. While the event loop is busy each
time costs the thread a wait, and a flood of requests would hold up the very commits that make room for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import apsw

# Sizes of one statement, so that few texts serve every number of rows and stay in the statement cache.
_SIZES = (64, 16, 4, 1)


def execute_many(connection: apsw.Connection, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Execute `sql`, in which `{values}` stands for the rows, for all of them."""
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            chunk = rows[start : start + size]
            connection.execute(_text(sql, size, len(chunk[0])), tuple(chain.from_iterable(chunk)))
            start += size


@lru_cache(maxsize=256)
def _text(sql: str, rows: int, columns: int) -> str:
    row = "(" + ", ".join("?" * columns) + ")"
    return sql.format(values=", ".join([row] * rows))
