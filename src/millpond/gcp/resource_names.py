"""Names of Pub/Sub's topics and subscriptions. Pure."""

from __future__ import annotations


def full_name(kind: str, name: str, project: str) -> str:
    """`projects/P/topics/T` of a topic's id; a path stays as it is. The same for subscriptions."""
    return name if "/" in name else f"projects/{project}/{kind}/{name}"
