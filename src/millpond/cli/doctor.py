"""`millpond doctor`: runs the checks of `millpond.doctor`, and prints their findings and advice. Never writes."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence

import click

from millpond.cli import exit_codes
from millpond.cli.escape import clean
from millpond.cli.options import OVERRIDES, example, json_option, store_option, views_option
from millpond.cli.output import print_coloured, print_json, print_line
from millpond.doctor.examination import examine
from millpond.doctor.findings import Finding, State

_COLOURS = {State.OK: "green", State.WARNING: "yellow", State.PROBLEM: "red", State.UNCHECKED: "cyan"}
# The summary has the most severe state first.
_SUMMED = (
    (State.PROBLEM, "problem", "problems"),
    (State.WARNING, "warning", "warnings"),
    (State.UNCHECKED, "could not be checked", "could not be checked"),
    (State.OK, "fine", "fine"),
)


@click.command(epilog=example("millpond doctor", "millpond doctor --subscription ticks", "millpond doctor --json"))
@click.option(
    "--subscription",
    "subscriptions",
    metavar="SUBSCRIPTION",
    multiple=True,
    help="Subscription to check, besides those of ROUTES and SUBSCRIPTION_TOPIC_MAP; repeatable.",
)
@store_option
@views_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, subscriptions: tuple[str, ...], *, as_json: bool) -> None:
    """Examine settings, store, document ids, clock, subscriptions and disk.

    Reads only, needs no server, and may run beside one. Each finding is ok, a warning, a problem, or could not be
    checked from here, with advice. Exits with 1 if there is a problem.
    """
    overrides = ctx.meta.get(OVERRIDES, {})
    findings = asyncio.run(examine(os.environ, overrides, subscriptions))
    counts = Counter(finding.state for finding in findings)
    if as_json:
        print_json(
            {
                "problems": counts[State.PROBLEM],
                "warnings": counts[State.WARNING],
                "unchecked": counts[State.UNCHECKED],
                "findings": [finding._asdict() for finding in findings],
            }
        )
    else:
        _show(findings)
        print_line(_sum_of(counts))
    ctx.exit(exit_codes.NEGATIVE if counts[State.PROBLEM] else exit_codes.OK)


def _show(findings: Sequence[Finding]) -> None:
    state_width = max(len(state) for state in State)
    check_width = max(len(finding.check) for finding in findings)
    for finding in findings:
        state = str(finding.state).ljust(state_width)
        print_coloured(
            (state, _COLOURS[finding.state]),
            (f"  {finding.check.ljust(check_width)}  {clean(finding.found)}", None),
        )
        if finding.advice:
            print_line(f"{'':{state_width + check_width + 4}}-> {clean(finding.advice)}")


def _sum_of(counts: Counter[State]) -> str:
    parts = [
        f"{counts[state]} {one if counts[state] == 1 else many}" for state, one, many in _SUMMED if counts[state]
    ]
    return ", ".join(parts)
