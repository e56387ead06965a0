"""`millpond serve`: runs the server with the push endpoint."""

from __future__ import annotations

import click

from millpond.cli import exit_codes
from millpond.cli.options import example, load_settings, setting_option, steps_option, store_option, views_option
from millpond.cli.output import print_error
from millpond.core.errors import MillpondError
from millpond.http import server


@click.command(epilog=example("millpond serve --port 9000 --store sqlite:var/orders.db --views orders"))
@setting_option("--host", "HOST", "HOST", "Address to listen on (instead of $HOST).")
@setting_option("--port", "PORT", "PORT", "Port to listen on; 0 takes a free one (instead of $PORT).")
@store_option
@views_option
@steps_option
@click.pass_context
def serve(ctx: click.Context) -> None:
    """Run the service until it is told to stop.

    Prints its URL and a command to try, then one JSON line for each message. SIGTERM or Ctrl-C finishes the
    accepted messages and ends within eight seconds.
    """
    try:
        server.serve(load_settings())
        exit_codes.leave(exit_codes.OK)
    except MillpondError as error:
        print_error(str(error))
        ctx.exit(exit_codes.USAGE)
