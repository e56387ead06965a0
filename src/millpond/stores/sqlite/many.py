"""Many rows in few statements. Used by `rows` and `log`.

`executemany` releases and takes the GIL for every row. While the event loop is busy, the writer thread waits each
time, so a flood of requests would delay the commits that make room for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import apsw

# Rows per statement: few sizes, so that all statements stay in SQLite's statement cache.
_SIZES = (64, 16, 4, 1)


def execute_many(connection: apsw.Connection, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Execute `sql` for all rows; `{values}` in it is replaced by placeholders for them."""
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
