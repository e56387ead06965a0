"""Colours, for a terminal that wants them."""

from __future__ import annotations

import os

import click


def print_coloured(*parts: tuple[str, str | None]) -> None:
    """One line of (text, colour) parts. A pipe, and whoever sets NO_COLOR, gets the text alone."""
    text = "".join(click.style(text, fg=colour) if colour else text for text, colour in parts)
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)
