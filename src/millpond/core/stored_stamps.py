"""A stored document's place in the order: its stamp, its fields' stamps, or those it is adopted under. Pure.

A view's stamps may have been made by two rules, one of them an earlier build's (`source.order`). Those are not
compared: a document that another rule stamped is adopted from its fields, like one another program wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millpond.core.errors import ViewError
from millpond.core.model import Document
from millpond.core.view import View


def stamp_and_key(view: View, current: Document | None) -> tuple[str | None, str | None]:
    """The stamp a stored document carries, or the one its view adopts it under."""
    if current is None:
        return None, None
    source = current.get("source")
    if isinstance(source, dict) and isinstance(source.get("stamp"), str) and _is_by_rule_of(view, source):
        return source["stamp"], source.get("key")
    return _adopted(view, current), None


def _is_by_rule_of(view: View, source: Document) -> bool:
    """Whether stamps were made by this view's rule, and so may be compared with its own."""
    return (source.get("order") or "") == view.order


def _adopted(view: View, current: Document) -> str | None:
    try:
        return view.adopt(current)
    except Exception as error:
        # The stored document is at fault, or the view: never the event.
        raise ViewError(view.name, error) from error


def field_holders(view: View, current: Document | None) -> dict[str, Document]:
    """Which stamp, and which event, each field of a merged document came from."""
    if current is None:
        return {}
    source = current.get("source")
    if isinstance(source, dict) and isinstance(source.get("stamps"), list) and _is_by_rule_of(view, source):
        return {name: group for group in source["stamps"] for name in group["fields"]}
    adopted = _adopted(view, current)
    if adopted is None:
        return {}
    return {name: {"stamp": adopted, "key": None} for name in current if name not in {"source", "ingestedAt"}}


def merged_source(view: View, source: Any, stamp: str | None, holders: Mapping[str, Document]) -> Document:
    """The `source` of a merged document under `stamp`: all of its stamps are by this view's rule now.

    `source` is that of the event or document the stamp is of, which another rule may have stamped before.
    """
    kept = {name: value for name, value in source.items() if name != "order"} if isinstance(source, dict) else {}
    order = {"order": view.order} if view.order else {}
    return {**kept, "stamp": stamp, **order, "stamps": _grouped(holders)}


def _grouped(holders: Mapping[str, Document]) -> list[Document]:
    """One entry per stamp with the fields it holds: a document names each stamp once, not once a field."""
    groups: dict[str, Document] = {}
    for name in sorted(holders):
        holder = holders[name]
        group = groups.setdefault(holder["stamp"], {"stamp": holder["stamp"], "key": holder["key"], "fields": []})
        group["fields"].append(name)
    return [groups[stamp] for stamp in sorted(groups, reverse=True)]
