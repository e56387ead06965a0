"""A group of commands that suggests the command that was probably meant. Used by `root`, `letters` and `flow`."""

from __future__ import annotations

import click

# How similar two names must be for one to count as a typing error.
_ALIKE = 0.6


class SuggestingGroup(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names. An unknown one is a usage error that suggests another."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            # Imported here: only a misspelt command needs it.
            from millpond.core.suggest import did_you_mean, nearest  # noqa: PLC0415

            meant = did_you_mean(nearest(name, tuple(self.list_commands(ctx)), _ALIKE)).strip()
            raise click.UsageError(f"No such command {name!r}" + (f": {meant}" if meant else "."), ctx)
        return super().resolve_command(ctx, args)
