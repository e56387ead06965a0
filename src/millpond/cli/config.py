"""`millpond config`: shows the settings that a server started here would use. Never shows a secret."""

from __future__ import annotations

from typing import Any

import click

from millpond.cli.options import example, json_option, load_settings, store_option, views_option
from millpond.cli.output import Column, print_json, print_table
from millpond.settings import Settings
from millpond.settings.table import TABLE, Setting

MASK = "********"
_COLUMNS = (Column("name"), Column("value"), Column("from"), Column("meaning"))


@click.command(epilog=example("PORT=9000 millpond config", "millpond config --json | jq '.settings[].name'"))
@store_option
@views_option
@json_option
def config(*, as_json: bool) -> None:
    """Show the effective settings and where each came from.

    Secrets are masked. A wrong setting is refused with the same error as by `millpond serve`.
    """
    effective = load_settings()
    if as_json:
        print_json({"settings": [_row_json(setting, effective) for setting in TABLE]})
        return
    rows = [(s.name, _shown(s, effective), effective.origins[s.name], s.meaning) for s in TABLE]
    print_table(_COLUMNS, rows)


def _row_json(setting: Setting, effective: Settings) -> dict[str, Any]:
    return {
        "name": setting.name,
        "value": _masked(setting, effective),
        "origin": effective.origins[setting.name],
        "meaning": setting.meaning,
        "secret": setting.secret,
    }


def _masked(setting: Setting, effective: Settings) -> Any:
    value = getattr(effective, setting.field)
    return MASK if setting.secret and value is not None else value


def _shown(setting: Setting, effective: Settings) -> Any:
    """The value as it is written in the environment."""
    value = _masked(setting, effective)
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return setting.default or "-"
    if isinstance(value, tuple):
        return ",".join(value) or "-"
    return value
