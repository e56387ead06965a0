"""Working copies of the documents of a batch, which `plan` changes event by event. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from millpond.core.model import Delete, Document, Put, Ref, Snapshot, Write


class WorkingSet:
    """The documents as the events so far leave them, and the changes with the versions they are based on."""

    __slots__ = ("_changed", "_removed", "_snapshots")

    def __init__(self, snapshots: Mapping[Ref, Snapshot]) -> None:
        self._snapshots = snapshots
        self._changed: dict[Ref, tuple[Document, bool]] = {}
        self._removed: list[Write] = []

    def look(self, ref: Ref) -> Document | None:
        changed = self._changed.get(ref)
        return changed[0] if changed is not None else self._snapshots[ref].data

    def put(self, ref: Ref, document: Document, *, checked: bool = False) -> None:
        self._changed[ref] = (document, checked)

    def holds(self, token: Snapshot) -> bool:
        """Whether the document exists in this version."""
        return token.version is not None and self._snapshots[token.ref].version == token.version

    def remove(self, token: Snapshot) -> None:
        assert token.version is not None  # noqa: S101 - `holds` was asked
        self._removed.append(Delete(token.ref, token.version))

    def writes(self) -> list[Write]:
        snapshots = self._snapshots
        puts = [Put(ref, snapshots[ref].version, *change) for ref, change in self._changed.items()]
        return [*puts, *self._removed]
