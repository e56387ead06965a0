"""The `millpond` group and its table of commands. Never imports a command before it runs. Called by `cli.main`."""

from __future__ import annotations

import importlib
import sys
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from millpond._version import __version__
from millpond.cli import exit_codes
from millpond.cli.groups import SuggestingGroup
from millpond.cli.options import store_option, views_option


class CommandEntry(NamedTuple):
    """Where a command is defined, and the summary that help shows without loading it."""

    module: str
    attribute: str
    summary: str


COMMANDS: dict[str, CommandEntry] = {
    "serve": CommandEntry("serve", "serve", "Run the service until it is told to stop."),
    "pull": CommandEntry("pull", "pull", "Run the service on messages it pulls from Pub/Sub."),
    "demo": CommandEntry(
        "demo", "demo", "Run the service on a made-up feed, and check every document while it runs."
    ),
    "new": CommandEntry("new", "new", "Make a folder with a view, sample events, a test and a Dockerfile."),
    "publish": CommandEntry("publish", "publish", "Send one message to the running server."),
    "get": CommandEntry("documents", "get", "Show one document."),
    "ls": CommandEntry("documents", "ls", "List the collections, or the documents of one."),
    "why": CommandEntry("why", "why", "Show what became of a message or event, and which message won."),
    "tail": CommandEntry("tail", "tail", "Monitor what becomes of messages as they arrive."),
    "cost": CommandEntry("cost", "cost", "Show what a day like the last 24 hours costs on Firestore, by view."),
    "views": CommandEntry("views", "views", "List the loaded views."),
    "dlq": CommandEntry("letters", "dlq", "List, show, edit, replay and purge dead letters."),
    "flow": CommandEntry("flow", "flow", "Submit, show and sweep flow runs."),
    "ingest": CommandEntry("ingest", "ingest", "Feed a file of messages, one JSON object a line."),
    "load": CommandEntry("load", "load", "Put a server under load and measure its answers."),
    "verify": CommandEntry("verify", "verify", "Recompute every document from the event log and compare."),
    "rebuild": CommandEntry("rebuild", "rebuild", "Rebuild one view's documents from the event log."),
    "backup": CommandEntry("backup", "backup", "Copy the embedded store into a file, also while it serves."),
    "move-ids": CommandEntry(
        "move_ids", "move_ids", "Move documents to the current form of their ids, after an upgrade."
    ),
    "doctor": CommandEntry(
        "doctor", "doctor", "Examine settings, store, document ids, clock, subscriptions and disk."
    ),
    "test": CommandEntry("test", "test", "Check your own views with your own events."),
    "simulate": CommandEntry("simulate", "simulate", "Check the guarantees in simulated worlds."),
    "config": CommandEntry("config", "config", "Show the effective settings and where each came from."),
    "completion": CommandEntry("completion", "completion", "Print the shell completion script."),
}
EPILOG = "\n".join(
    [
        "\b",
        "Start here:",
        "  millpond serve                     and paste the curl command it prints",
        "  millpond new NAME                  a view of your own, with a test",
        "  millpond ls                        what is in the store",
        "  millpond why MESSAGE_ID            what became of a message",
        "",
        "\b",
        "Exit codes:",
        *(f"  {code:<4} {meaning}" for code, meaning in exit_codes.TABLE),
        "",
        "Every setting is an environment variable; `millpond config` lists them.",
    ]
)


class LazyGroup(SuggestingGroup):
    """A group that knows its commands' names and summaries, and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"millpond.cli.{entry.module}")
        command: click.Command = getattr(module, entry.attribute)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Flush here, so that closed output raises here, before click turns it into an exit code of 1."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            raise exit_codes.ReaderGone from None
        return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names from the table: loading every command would make completion slow."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=entry.summary)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="millpond", message="%(prog)s %(version)s")
@store_option
@views_option
def cli() -> None:
    """Keep documents that are right, from events that arrive twice, late and out of order."""
