"""Splits a batch after conflicts into groups that share no document. Pure; the committer calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from millpond.core.model import Ref

if TYPE_CHECKING:
    from millpond.engine.ticket import Ticket


def split(tickets: Sequence[Ticket], culprits: frozenset[Ref]) -> list[list[Ticket]]:
    """Groups that share no document: each group with a conflict by itself, and all others together.

    If the conflicting documents are unknown: two halves, because hundreds of small commits would conflict more.
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
