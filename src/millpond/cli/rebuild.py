"""`millpond rebuild VIEW`: rebuilds a view through `backend`. Never swaps without approval."""

from __future__ import annotations

import asyncio
import contextlib
import sys

import click

from millpond.cli import exit_codes
from millpond.cli.backend import Answer, open_backend
from millpond.cli.options import example, json_option, load_settings, store_option, views_option
from millpond.cli.output import print_json, print_line, print_note, progress
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
@click.option("--yes", is_flag=True, help="Replace documents without asking.")
@store_option
@views_option
@json_option
@click.pass_context
def rebuild(ctx: click.Context, view: str, *, yes: bool, as_json: bool) -> None:
    """Rebuild one view's documents from the event log.

    The documents are computed from the log in a separate store first, while traffic goes on. Then the differences
    are shown, and documents are replaced only after approval. A new view is filled from the log in the same way.
    Documents that the log did not decide are left as they are, and none is removed. Asks for confirmation on a
    terminal; elsewhere it needs --yes. Exits with 1 if there are differences and nothing was replaced.
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
        print_note(f"Through {state['through']}.")
    ctx.exit(exit_codes.OK if swapped else exit_codes.NEGATIVE)


def _rebuild(settings: Settings, view: str, *, yes: bool, as_json: bool) -> Answer:
    # The prompt runs outside of the event loop, so that Ctrl-C ends it.
    with asyncio.Runner() as runner:
        held = contextlib.AsyncExitStack()
        try:
            backend = runner.run(held.enter_async_context(open_backend(settings)))
            rebuild = runner.run(held.enter_async_context(backend.rebuild(view)))
            state = runner.run(rebuild.fold())
            different = state["report"]["different"]
            if not as_json:
                tell_report(state["report"], _FIGURES)
            # If nothing differs, the swap only records that the view's current rules hold for the whole log.
            if not different or yes or _approved(different):
                with progress("Swapping", different, backend.pace) as advance:
                    state = runner.run(rebuild.swap(advance))
            state = {**state, "through": backend.name}
        finally:
            runner.run(held.aclose())
    return state


def _approved(different: int) -> bool:
    if not sys.stdin.isatty():
        print_note("Nothing was replaced: check the differences, and give --yes to replace them.")
        return False
    return click.confirm(f"Replace {different} documents?", err=True)
