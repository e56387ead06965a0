"""`millpond demo`: runs a service with a made-up feed (`demo_feed`), and checks its documents (`demo_show`)."""

from __future__ import annotations

import os

import click
import msgspec

from millpond.cli import exit_codes
from millpond.cli.demo_show import Show
from millpond.cli.options import example, load_settings, setting_option
from millpond.cli.output import print_error
from millpond.cli.verify import refuse_without_log
from millpond.core.errors import MillpondError
from millpond.http import server
from millpond.settings import Settings

_STEPS = "millpond.demo.steps"
# Not the store of `millpond serve`: made-up documents do not belong among real ones.
STORE = "sqlite:var/demo.db"


@click.command(epilog=example("millpond demo", "millpond demo --port 9000 --store memory --rate 200"))
@setting_option("--host", "HOST", "HOST", "Address to listen on (instead of $HOST).")
@setting_option("--port", "PORT", "PORT", "Port to listen on; 0 takes a free one (instead of $PORT).")
@setting_option("--store", "STORE", "STORE", f"sqlite:PATH, firestore, or memory (instead of $STORE or {STORE}).")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the made-up feed.")
@click.option("--rate", type=click.FloatRange(0.1, 1_000), default=40.0, show_default=True, help="Events a second.")
@click.option("--log", "log_file", type=click.Path(dir_okay=False), help="File for the service's log lines.")
@click.pass_context
def demo(ctx: click.Context, seed: int, rate: float, log_file: str | None) -> None:
    """Run the service on a made-up feed, and check every document while it runs.

    The feed has services, pipelines, ticks, bars, signals and flow runs, with duplicates, republished, reordered,
    late, stale and poison messages, pushed over HTTP. A line in the terminal shows how many documents differ from
    what all messages together lead to. Ctrl-C ends it; `millpond verify` with the same --store repeats the check.

    The documents are kept in a store of the demo's own, var/demo.db, unless --store or $STORE names another. It
    prints commands to try.
    """
    try:
        settings = _with_own_store(load_settings())
        refuse_without_log(settings)
        if settings.push_audience is not None:
            raise exit_codes.WrongUsage("the demo pushes without a token: unset PUSH_AUDIENCE for it")
        # The feed is made of events of the built-in views.
        settings = msgspec.structs.replace(settings, steps=(*settings.steps, _STEPS), built_in_views=("all",))
        show = Show(seed=seed, rate=rate)
        with open(log_file or os.devnull, "ab") as log:  # noqa: PTH123 - a device as well as a file
            server.serve(settings, log_stream=log, beside=show.run)
            exit_codes.leave(exit_codes.NEGATIVE if show.different else exit_codes.OK)
    except MillpondError as error:
        print_error(str(error))
        ctx.exit(exit_codes.USAGE)


def _with_own_store(settings: Settings) -> Settings:
    if settings.origins["STORE"] != "default":
        return settings
    return msgspec.structs.replace(settings, store=STORE, origins={**settings.origins, "STORE": "demo"})
