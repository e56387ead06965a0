"""Options that several commands share, and the settings that result from them. Used by every command.

An option that overrides a setting stores its value in the context, so a command loads its settings once, and need
not know which of its options are settings. An option after the command overrides the same option before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from millpond.http_client import Address
    from millpond.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])
OVERRIDES = "millpond.overrides"


def setting_option(flag: str, setting: str, metavar: str, text: str) -> Callable[[F], F]:
    """An option whose value overrides the environment variable `setting`."""

    def remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.meta.setdefault(OVERRIDES, {})[setting] = value

    return click.option(flag, metavar=metavar, help=text, expose_value=False, callback=remember)


store_option = setting_option("--store", "STORE", "STORE", "sqlite:PATH, firestore, or memory (instead of $STORE).")
views_option = setting_option(
    "--views", "VIEWS", "MODULE", "Modules with your own views, separated by commas (instead of $VIEWS)."
)
steps_option = setting_option(
    "--steps", "STEPS", "MODULE", "Modules with your own steps, separated by commas (instead of $STEPS)."
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")


def url_option(default: str | None, text: str) -> Callable[[F], F]:
    """`--url`, passed to the command as an Address."""

    def parsed(ctx: click.Context, param: click.Parameter, value: str | None) -> Address | None:
        # Imported here: --help does not need it.
        from millpond.http_client import Address  # noqa: PLC0415

        try:
            return None if value is None else Address.parse(value)
        except ValueError as error:
            raise click.BadParameter(f"{value!r} {error}", ctx, param) from None

    return click.option(
        "--url", metavar="URL", default=default, show_default=default is not None, callback=parsed, help=text
    )


server_option = url_option(
    None, "The server; by default the one that holds the store, or http://HOST:PORT if no store is named."
)
read_url_option = url_option(None, "Ask this server instead of reading the store (with $ADMIN_TOKEN).")


def load_settings() -> Settings:
    """The effective settings of the command that is running. Raises SettingsError."""
    # Imported here: the settings import the engine, which --help does not need.
    from millpond import settings  # noqa: PLC0415

    return settings.load(overrides=click.get_current_context().meta.get(OVERRIDES))


def example(*lines: str) -> str:
    """An epilog with examples that click does not wrap."""
    return "\n".join(["\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])
