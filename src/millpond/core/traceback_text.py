"""An exception in words: its text, and the calls that led to it in a view's code. Pure. Called by `errors`."""

from __future__ import annotations

from pathlib import PurePath
from typing import NamedTuple

_DETAIL_CHARS_MAX = 1_000
# A traceback keeps its first and its last calls, each on one line of bounded length.
_FRAMES_MAX = 20
_FRAMES_FIRST = 5
_FRAME_CHARS_MAX = 300
_OWN_PACKAGE = f"{__name__.rpartition('.')[0]}."


def text_of(cause: BaseException) -> str:
    try:
        # Text with a lone surrogate could be neither stored nor logged.
        return f"{cause}"[:_DETAIL_CHARS_MAX].encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 - a view's own exception may have a bug of its own
        return ""


class Frame(NamedTuple):
    file: str
    line: int
    function: str


def frames_of_view(cause: BaseException) -> list[Frame]:
    """The calls from the view's method inward, without those of this package: they say nothing about the bug."""
    frames = []
    trace = cause.__traceback__
    while trace is not None:
        if not trace.tb_frame.f_globals.get("__name__", "").startswith(_OWN_PACKAGE):
            code = trace.tb_frame.f_code
            frames.append(Frame(code.co_filename, trace.tb_lineno, code.co_qualname))
        trace = trace.tb_next
    return frames


def trace_text(frames: list[Frame], exception: str) -> str:
    """The lines of Python's traceback, the last call last, without source: the core reads no files. Bounded."""
    lines = [f'File "{frame.file}", line {frame.line}, in {frame.function}' for frame in frames]
    if len(lines) > _FRAMES_MAX:
        left_out = len(lines) - _FRAMES_MAX
        lines[_FRAMES_FIRST : _FRAMES_FIRST + left_out] = [f"... {left_out} calls are left out"]
    bounded = [line[:_FRAME_CHARS_MAX].encode(errors="replace").decode() for line in lines]
    return "\n".join([*bounded, exception])


def place_of(frames: list[Frame]) -> str:
    return f" at {PurePath(frames[-1].file).name}:{frames[-1].line}" if frames else ""


def where(cause: BaseException) -> str:
    trace = cause.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" at {PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
