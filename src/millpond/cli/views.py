"""`millpond views`: lists the views that a server started here would load, after all checks of its start."""

from __future__ import annotations

from typing import Any

import click

from millpond.cli.options import example, json_option, load_settings, views_option
from millpond.cli.output import Column, print_json, print_table
from millpond.core.view import View
from millpond.service.views import load_views

_COLUMNS = tuple(
    Column(title) for title in ("name", "kind", "topics", "collection", "order time", "receipts", "what it keeps")
)


@click.command(epilog=example("millpond views", "millpond views --views examples.parcels"))
@views_option
@json_option
def views(*, as_json: bool) -> None:
    """List the loaded views.

    The order time is the first of these fields that an event has, else its publish time.
    """
    loaded = load_views(load_settings())
    if as_json:
        print_json({"views": [_as_json(view) for view in loaded]})
        return
    rows = [
        (
            view.name,
            view.kind,
            ", ".join(view.topics),
            view.collection,
            ", ".join(_names(view.time)) or "-",
            view.receipts,
            _summary(view),
        )
        for view in loaded
    ]
    print_table(_COLUMNS, rows)


def _as_json(view: View) -> dict[str, Any]:
    return {
        "name": view.name,
        "kind": view.kind,
        "topics": list(view.topics),
        "eventTypes": list(view.event_types),
        "collection": view.collection,
        "time": _names(view.time),
        "sequence": _names(view.sequence),
        "receipts": view.receipts,
        "lateAfterS": view.late_after_s,
        "retentionDays": view.retention_days,
        "summary": _summary(view),
    }


def _names(fields: Any) -> list[str]:
    return [fields] if isinstance(fields, str) else list(fields)


def _summary(view: View) -> str:
    """The first line of the class's own docstring; an inherited one would describe the kind, not the view."""
    return (type(view).__doc__ or "").strip().partition("\n")[0]
