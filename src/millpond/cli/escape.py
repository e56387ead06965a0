"""Escapes text that came with a message, so that no payload can move the cursor, change colours or fake a line."""

from __future__ import annotations


def clean(text: str) -> str:
    """The text on one line, with unprintable characters as escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def clean_block(text: str, margin: str = "  | ") -> str:
    """Text of several lines with a margin, so that it cannot be mistaken for our own lines."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(margin + clean(line.expandtabs(4)) for line in lines)
