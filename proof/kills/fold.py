"""The documents that a set of messages must result in: sorted and folded, without Millpond's code."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from proof.kills.traffic import Effect, Message


class Fold:
    """Takes messages in any order; the greatest effects determine a document."""

    def __init__(self) -> None:
        self._effects: dict[str, dict[str, Effect]] = {}

    def add(self, message: Message) -> None:
        for effect in message.effects:
            self._effects.setdefault(effect.path, {})[message.message_id] = effect

    @property
    def paths(self) -> AbstractSet[str]:
        return self._effects.keys()

    def document(self, path: str) -> dict[str, Any]:
        in_order = sorted(self._effects[path].values(), key=lambda effect: effect.order)
        greatest = in_order[-1]
        if not greatest.merges:
            return {**greatest.content, "source": greatest.source}
        fields: dict[str, Any] = {}
        stamps: dict[str, str] = {}
        for effect in in_order:
            fields |= effect.content
            stamps |= dict.fromkeys(effect.content, effect.stamp)
        groups = [
            {"stamp": stamp, "fields": sorted(name for name in stamps if stamps[name] == stamp)}
            for stamp in sorted(set(stamps.values()), reverse=True)
        ]
        return {**fields, "source": {**greatest.source, "stamps": groups}}


def comparable(document: Mapping[str, Any]) -> dict[str, Any]:
    """A stored document without fields that only Millpond knows: its clock, and the hash of the event."""
    found = {name: value for name, value in document.items() if name != "ingestedAt"}
    source = {name: value for name, value in found.get("source", {}).items() if name != "key"}
    if "stamps" in source:
        source["stamps"] = [
            {name: value for name, value in group.items() if name != "key"} for group in source["stamps"]
        ]
    return {**found, "source": source}
