"""`millpond rebuild VIEW`: in the server that holds the store, or in this process if none does."""

from __future__ import annotations

import asyncio
import contextlib
import sys

import click

from millpond.cli import exits
from millpond.cli.backend import Answer, open_backend
from millpond.cli.options import example, json_option, load_settings, store_option, views_option
from millpond.cli.output import print_json, print_line, print_note
from millpond.cli.store import refuse_memory, refuse_missing
from millpond.cli.verify import refuse_without_log, tell_report
from millpond.reprocess.jobs import Phase
from millpond.settings import Settings

_FIGURES = (
    ("log entries read", "entries"),
    ("documents", "documents"),
    ("equal to the fold", "equal"),
    ("changed", "changed"),
    ("new", "new"),
    ("not checkable, left as they are", "notCheckable"),
)


@click.command(
    epilog=example("millpond rebuild market_ticks_latest", "millpond rebuild parcels --views parcels --yes")
)
@click.argument("view")
@click.option("--yes", is_flag=True, help="Swap without asking.")
@store_option
@views_option
@json_option
@click.pass_context
def rebuild(ctx: click.Context, view: str, *, yes: bool, as_json: bool) -> None:
    """Fold the event log into one view's documents anew.

    The log is folded beside the documents first, while traffic goes on; then the differences are shown, and
    only what was approved is swapped in. A view you have just added is filled from the log the same way.
    Documents that the log did not decide are left as they are, and none is removed. Asks first on a terminal;
    elsewhere it needs --yes. Exits with 1 where there are differences and nothing was swapped.
    """
    settings = load_settings()
    refuse_without_log(settings)
    refuse_memory(settings)
    refuse_missing(settings.store_path)
    state = _rebuild(settings, view, yes=yes, as_json=as_json)
    swapped = state["phase"] == Phase.SWAPPED
    if as_json:
        print_json(state)
    elif swapped:
        print_line(f"Rebuilt {view}; documents written: {state['written']}.")
    ctx.exit(exits.OK if swapped else exits.NEGATIVE)


def _rebuild(settings: Settings, view: str, *, yes: bool, as_json: bool) -> Answer:
    # The question is asked outside of the event loop, where Ctrl-C is an answer.
    with asyncio.Runner() as runner:
        held = contextlib.AsyncExitStack()
        try:
            backend = runner.run(held.enter_async_context(open_backend(settings)))
            rebuild = runner.run(held.enter_async_context(backend.rebuild(view)))
            state = runner.run(rebuild.fold())
            different = state["report"]["different"]
            if not as_json:
                tell_report(state["report"], _FIGURES)
            # If nothing differs the swap only remembers that the rules of today hold for all of it.
            if not different or yes or _approved(different):
                state = runner.run(rebuild.swap())
        finally:
            runner.run(held.aclose())
    return state


def _approved(different: int) -> bool:
    if not sys.stdin.isatty():
        print_note("Nothing was swapped: look at the differences, and give --yes to swap.")
        return False
    return click.confirm(f"Put the fold in the place of {different} documents?", err=True)
