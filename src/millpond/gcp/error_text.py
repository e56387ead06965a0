"""The text of a Google client's error, for logs and answers. Pure."""

from __future__ import annotations

_TEXT_CHARS_MAX = 300


def error_text(error: BaseException | None, chars_max: int = _TEXT_CHARS_MAX) -> str:
    """The text of a client library's error on one line, cut to `chars_max`."""
    return " ".join(f"{getattr(error, 'message', None) or error}".split())[:chars_max]
