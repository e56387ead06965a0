"""The stamps of a stored document: its own, its fields', or the one its view adopts it with. Pure; `plan` calls it.

The stamps of a view may be of two rules, one of them of an earlier build (`source.order`). Stamps of two rules are
never compared: a document with a stamp of another rule is adopted from its fields, like one that another program
wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millpond.core.errors import UnownedDocument, ViewError
from millpond.core.model import Document
from millpond.core.view import REPLACE, Tally, View, adopted_by


def owned(view: View, current: Document | None, path: str) -> Document | None:
    """The stored document as the view goes on from it; None if it begins anew.

    Raises UnownedDocument if another program wrote it, and the view neither adopts nor replaces it. A tally cannot
    adopt: it would count again what was counted before.
    """
    if current is None or is_stamped(current):
        return current
    if view.existing == REPLACE:
        return None
    if isinstance(view, Tally) or _adopted(view, current) is None:
        raise UnownedDocument(view.name, path)
    return current


def is_stamped(document: Document) -> bool:
    """Whether Millpond wrote it: its `source` has a stamp, by this view's rule or by another."""
    source = document.get("source")
    return isinstance(source, dict) and isinstance(source.get("stamp"), str)


def stamp_and_key(view: View, current: Document | None) -> tuple[str | None, str | None]:
    """The stamp and the key of a stored document; if it has none, the stamp its view adopts it with."""
    if current is None:
        return None, None
    source = current.get("source")
    if isinstance(source, dict) and isinstance(source.get("stamp"), str) and _is_by_rule_of(view, source):
        return source["stamp"], source.get("key")
    return _adopted(view, current), None


def _is_by_rule_of(view: View, source: Document) -> bool:
    """Whether the stamps are of this view's rule, so that they may be compared with its own."""
    return (source.get("order") or "") == view.order


def _adopted(view: View, current: Document) -> str | None:
    try:
        return adopted_by(view, current)
    except Exception as error:
        # The stored document or the view is at fault, not the event.
        raise ViewError(view.name, error) from error


def field_holders(view: View, current: Document | None) -> dict[str, Document]:
    """The stamp and the event that each field of a merged document is from."""
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
    """The `source` of a merged document with `stamp`; all its stamps are of this view's rule.

    `source` is that of the event or document with the stamp, and may name another rule.
    """
    kept = {name: value for name, value in source.items() if name != "order"} if isinstance(source, dict) else {}
    order = {"order": view.order} if view.order else {}
    return {**kept, "stamp": stamp, **order, "stamps": _grouped(holders)}


def _grouped(holders: Mapping[str, Document]) -> list[Document]:
    """One entry per stamp with its fields, so that a document contains each stamp once, not once per field."""
    groups: dict[str, Document] = {}
    for name in sorted(holders):
        holder = holders[name]
        group = groups.setdefault(holder["stamp"], {"stamp": holder["stamp"], "key": holder["key"], "fields": []})
        group["fields"].append(name)
    return [groups[stamp] for stamp in sorted(groups, reverse=True)]
