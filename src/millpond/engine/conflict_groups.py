"""Which tickets of a batch can part ways: those that share no document, directly or through others. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from millpond.core.model import Ref

if TYPE_CHECKING:
    from millpond.engine.ticket import Ticket


def split(tickets: Sequence[Ticket], culprits: frozenset[Ref]) -> list[list[Ticket]]:
    """Groups that share no document: each that somebody else works on alone, and all others together.

    Where nobody can tell who the culprits are, two halves: a commit for each of hundreds would make it worse.
    """
    groups = groups_of(tickets)
    if not culprits:
        halves = ([ticket for group in groups[at::2] for ticket in group] for at in (0, 1))
        return [half for half in halves if half]
    hot: list[list[Ticket]] = []
    calm: list[Ticket] = []
    for group in groups:
        if any(ref in culprits for ticket in group for ref in ticket.refs):
            hot.append(group)
        else:
            calm += group
    return [*hot, calm] if calm else hot


def groups_of(tickets: Sequence[Ticket]) -> list[list[Ticket]]:
    """Tickets that share documents, directly or through others, stay together; the rest part ways."""
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
