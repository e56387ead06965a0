"""Tables and progress bars for a terminal, drawn with rich. Imported only by `output`, and only for a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column as TableColumn
from rich.table import Table
from rich.text import Text

from millpond.cli.output import Advance, Column

# Characters between two columns, as the box draws them.
_GAP = 3
_PREVIEW_CHARS_MIN = 20
# The bar is short, to leave room for the text beside it. The rest of its line: the time, a slash and spaces.
_BAR_CHARS = 20
_REST_CHARS = 13


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    console = Console()
    texts = [[column.title, *(row[index] for row in rows)] for index, column in enumerate(columns)]
    room = console.width - _GAP * len(columns)
    words = [_longest_word(column, cells) for column, cells in zip(columns, texts, strict=True)]
    if sum(words) > room:
        _print_cards(console, columns, rows)
        return
    others = sum(max(map(len, cells)) for column, cells in zip(columns, texts, strict=True) if not column.clip)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, least in zip(columns, words, strict=True):
        table.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            no_wrap=column.clip,
            overflow="ellipsis" if column.clip else "fold",
            min_width=least,
            # A preview gets the width that the other columns leave.
            max_width=max(room - others, least) if column.clip else None,
        )
    for row in rows:
        # Text, not markup: a payload with [red] in it is printed as it is.
        table.add_row(*(Text(text) for text in row))
    console.print(table)


def _longest_word(column: Column, cells: Sequence[str]) -> int:
    if column.clip:
        return _PREVIEW_CHARS_MIN
    return max((len(word) for cell in cells for word in cell.split()), default=1)


def _print_cards(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """For a narrow terminal: a table would break or cut off words."""
    width = max(len(column.title) for column in columns)
    for row in rows:
        for number, (column, text) in enumerate(zip(columns, row, strict=True)):
            line = Text(f"{column.title.ljust(width)}  ", style="dim") + Text(text, style="" if number else "bold")
            console.print(line, soft_wrap=True)
        console.print()


class _Beside(ProgressColumn):
    """Text that changes while the bar is shown. Cut off on a narrow terminal: wrapped, it would make it jump."""

    def __init__(self, text: Callable[[], str], width: int) -> None:
        super().__init__(table_column=TableColumn(no_wrap=True))
        self._text = text
        self._width = width

    def render(self, task: Task) -> Text:
        others = _BAR_CHARS + _REST_CHARS + len(task.description) + 2 * len(f"{task.total}")
        text = Text(self._text())
        text.truncate(max(self._width - others, 0), overflow="ellipsis")
        return text


@contextlib.contextmanager
def progress(label: str, total: int | None, beside: Callable[[], str]) -> Iterator[Advance]:
    console = Console(stderr=True)
    bar_column, shown = BarColumn(bar_width=_BAR_CHARS), MofNCompleteColumn()
    text_column = _Beside(beside, console.width)
    columns = (TextColumn("{task.description}"), bar_column, shown, TimeRemainingColumn(), text_column)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda n: bar.advance(task, n)
