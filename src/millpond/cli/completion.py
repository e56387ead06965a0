"""`millpond completion`: prints the script with which a shell completes our commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from millpond.cli.options import example
from millpond.cli.output import print_line

_SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog=example(
        "millpond completion bash > ~/.local/share/bash-completion/completions/millpond",
        "millpond completion zsh  > ~/.zfunc/_millpond",
        "millpond completion fish > ~/.config/fish/completions/millpond.fish",
    )
)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the shell completion script."""
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - click knows the shells of the choice
    print_line(found(ctx.find_root().command, {}, "millpond", "_MILLPOND_COMPLETE").source())
