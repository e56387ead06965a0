"""A stamp as people read it."""

from __future__ import annotations

from millpond.core import timestamps
from millpond.core.stamp import decode_stamp


def taken_apart(stamp: str | None) -> tuple[str, str, str, str]:
    """Event time, sequence, publish time and message id, each as text; dashes where there is none."""
    if stamp is None:
        return ("-", "-", "-", "-")
    try:
        parts = decode_stamp(stamp)
    except ValueError:
        return (stamp, "-", "-", "-")
    sequence = "-" if parts.sequence is None else str(parts.sequence)
    return timestamps.to_text(parts.event_time), sequence, timestamps.to_text(parts.publish_time), parts.message_id


def stamp_cell(stamp: str | None) -> str | None:
    """A stamp in one cell: what mostly decides, and whose it is."""
    if stamp is None:
        return None
    event_time, sequence, _, message_id = taken_apart(stamp)
    return f"{event_time} {message_id}" if sequence == "-" else f"{event_time} #{sequence} {message_id}"
