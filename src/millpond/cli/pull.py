"""`millpond pull`: runs the server on messages pulled from Pub/Sub."""

from __future__ import annotations

import os
import re

import click

from millpond.cli import exit_codes
from millpond.cli.options import example, load_settings, setting_option, steps_option, store_option, views_option
from millpond.cli.output import print_error
from millpond.core.errors import MillpondError, SettingsError, missing_extra
from millpond.gcp.resource_names import full_name
from millpond.http import server
from millpond.service.service import Service
from millpond.settings import Settings

_PATH = "projects/P/subscriptions/S"
_SUBSCRIPTION = re.compile(r"(projects/[a-z0-9.:-]+/subscriptions/)?(?!goog)[A-Za-z][A-Za-z0-9_.~+%-]{2,254}")


@click.command(
    epilog=example(
        "millpond pull --subscription projects/my-project/subscriptions/ticks",
        "GCP_PROJECT=my-project millpond pull --subscription ticks --subscription bars",
    )
)
@click.option(
    "--subscription",
    "subscriptions",
    metavar="SUBSCRIPTION",
    multiple=True,
    required=True,
    help=f"Subscription to pull: an id in $GCP_PROJECT, or {_PATH}; repeatable.",
)
@setting_option("--host", "HOST", "HOST", "Address to listen on (instead of $HOST).")
@setting_option("--port", "PORT", "PORT", "Port to listen on; 0 takes a free one (instead of $PORT).")
@store_option
@views_option
@steps_option
@click.pass_context
def pull(ctx: click.Context, subscriptions: tuple[str, ...]) -> None:
    """Run the service on messages it pulls from Pub/Sub.

    Documents, letters, log lines, metrics and API are those of `millpond serve`, but there is no push endpoint:
    messages come by streaming pull, and are acknowledged when their effect is stored.

    SIGTERM or Ctrl-C stops pulling, finishes the messages that have begun, gives the others back, and ends within
    eight seconds. Exits with 1 if Pub/Sub ends a pull for good: no such subscription, or no permission.
    """
    try:
        settings = load_settings()
        for name in subscriptions:
            _check(name, settings)
        fine = server.serve(settings, open_source=lambda service: _open_puller(settings, service, subscriptions))
    except MillpondError as error:
        print_error(str(error))
        ctx.exit(exit_codes.USAGE)
    exit_codes.leave(exit_codes.OK if fine else exit_codes.NEGATIVE)


def _check(name: str, settings: Settings) -> None:
    """Refuse a name that is invalid or has no project, before Pub/Sub is asked."""
    if not _SUBSCRIPTION.fullmatch(name):
        raise SettingsError("--subscription", name, f"must be a subscription's id, or {_PATH}")
    emulated = "PUBSUB_EMULATOR_HOST" in os.environ
    if "/" not in name and settings.origins["GCP_PROJECT"] == "default" and not emulated:
        raise SettingsError("--subscription", name, f"must be a path, {_PATH}, unless GCP_PROJECT is set")


def _open_puller(settings: Settings, service: Service, subscriptions: tuple[str, ...]) -> server.PullSource:
    """Imports Google's client library only here: no other command needs it, and it takes a second to load."""
    try:
        from millpond.ingress.pull import Puller  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing_extra("--subscription", subscriptions[0], error) from None
    return Puller(service, [full_name("subscriptions", name, settings.gcp_project) for name in subscriptions])
