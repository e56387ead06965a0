"""Selects the letters of a `dlq` command: by ids, or all that match a filter. Used by the `letters…` modules."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from typing import Any

import click

from millpond.cli.store import open_for_reading
from millpond.core.time_range import ALLOWED, TimeRange, parse_range
from millpond.dead_letters.filter import ALL_LETTERS, REPLAYED, LetterFilter, ReplayState, only
from millpond.dead_letters.store import matching_letters
from millpond.settings import Settings

_DASHED = "-__"


class LetterCommand(click.Command):
    """Accepts ids that begin with a dash as ids, not as options: letters of messages without a subscription."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        dashed = [] if "--" in args else [text for text in args if text.startswith(_DASHED)]
        others = [text for text in args if text not in dashed]
        return super().parse_args(ctx, [*others, "--", *dashed] if dashed else args)


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that filter letters, passed to the command as one LetterFilter named `wanted`."""

    @functools.wraps(command)
    def collected(
        *args: Any,
        reason: str | None,
        view: str | None,
        topic: str | None,
        state: str | None,
        replayed: bool,
        since: str | None,
        until: str | None,
        **kwargs: Any,
    ) -> Any:
        if replayed and state is not None:
            context = click.get_current_context()
            raise click.UsageError("--replayed is --state succeeded: give one of the two", context)
        chosen = REPLAYED["yes"] if replayed else ReplayState(state) if state is not None else None
        buried = _time_range(since, until)
        return command(*args, wanted=LetterFilter(reason, view, topic, only(chosen), buried), **kwargs)

    wrapped: Callable[..., Any] = collected
    for option in (
        click.option("--until", metavar="TIME", help="Only letters buried before this time or age."),
        click.option("--since", metavar="TIME", help=f"Only letters buried from then on: {ALLOWED}."),
        click.option("--replayed", is_flag=True, help="The same as --state succeeded."),
        click.option(
            "--state",
            type=click.Choice([str(state) for state in ReplayState]),
            help="Only letters never replayed, replayed successfully, or whose last replay failed again.",
        ),
        click.option("--topic", help="Only letters of this topic."),
        click.option("--view", help="Only letters of messages that this view refused."),
        click.option("--reason", help="Only letters with this reason, for example invalid_event."),
    ):
        wrapped = option(wrapped)
    return wrapped


def _time_range(since: str | None, until: str | None) -> TimeRange:
    try:
        return parse_range(since, until, time.time_ns() // 1_000)
    except ValueError as error:
        raise click.UsageError(f"--{error}", click.get_current_context()) from None


def chosen_ids(settings: Settings, ids: tuple[str, ...], wanted: LetterFilter, *, everything: bool) -> list[str]:
    """The ids at this moment: letters buried later are not part of this run."""
    context = click.get_current_context()
    if bool(ids) == everything:
        raise click.UsageError("name the letters by their IDs, or give --all (one of the two)", context)
    if ids and wanted != ALL_LETTERS:
        raise click.UsageError(
            "--reason, --view, --topic, --state, --replayed, --since and --until go with --all", context
        )
    return asyncio.run(_frozen(settings, wanted)) if everything else list(dict.fromkeys(ids))


async def _frozen(settings: Settings, wanted: LetterFilter) -> list[str]:
    async with open_for_reading(settings) as store:
        return [snapshot.ref.id async for snapshot in matching_letters(store, wanted)]
