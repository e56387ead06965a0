"""Splits messages into parts that share no document, so that they can be committed apart. Pure. For `room`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from millpond.core.model import Ref

if TYPE_CHECKING:
    from millpond.engine.ticket import Ticket


def split_evenly(tickets: Sequence[Ticket], parts: int) -> list[list[Ticket]]:
    """At most so many parts of about the same size that share no document."""
    if parts == 1:
        return [list(tickets)]
    found: list[list[Ticket]] = [[] for _ in range(parts)]
    for group in groups_of(tickets):
        min(found, key=len).extend(group)
    return [part for part in found if part]


def groups_of(tickets: Sequence[Ticket]) -> list[list[Ticket]]:
    """Groups of tickets: two that share a document, directly or through others, are in one group."""
    parent = list(range(len(tickets)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]
        return index

    owner: dict[Ref, int] = {}
    for index, ticket in enumerate(tickets):
        for ref in ticket.refs:
            parent[root(index)] = root(owner.setdefault(ref, index))
    groups: dict[int, list[Ticket]] = {}
    for index, ticket in enumerate(tickets):
        groups.setdefault(root(index), []).append(ticket)
    return list(groups.values())
