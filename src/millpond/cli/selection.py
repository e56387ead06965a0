"""Which letters a `dlq` command is about: named one by one, or all that match."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import click

from millpond.cli.local import open_for_reading
from millpond.core.collections import LETTERS
from millpond.core.model import Document, Snapshot
from millpond.core.ports import Catalog
from millpond.settings import Settings

_PAGE = 100
_DASHED = "-__"
_FAILED = {None, "poison", "retry"}


class LetterCommand(click.Command):
    """Takes letter ids for ids, also those of messages without a subscription, which begin with a dash."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        dashed = [] if "--" in args else [text for text in args if text.startswith(_DASHED)]
        others = [text for text in args if text not in dashed]
        return super().parse_args(ctx, [*others, "--", *dashed] if dashed else args)


class Filter(NamedTuple):
    reason: str | None = None
    topic: str | None = None
    replayed: bool = False

    def wants(self, letter: Document) -> bool:
        return (
            (self.reason is None or letter.get("reason") == self.reason)
            and (self.topic is None or letter.get("topic") == self.topic)
            and (not self.replayed or letter.get("replayOutcome") not in _FAILED)
        )


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--reason`, `--topic` and `--replayed`, given to the command as one Filter named `wanted`."""

    @functools.wraps(command)
    def collected(*args: Any, reason: str | None, topic: str | None, replayed: bool, **kwargs: Any) -> Any:
        return command(*args, wanted=Filter(reason, topic, replayed), **kwargs)

    wrapped: Callable[..., Any] = collected
    for option in (
        click.option("--replayed", is_flag=True, help="Only letters whose replay was applied, or a duplicate."),
        click.option("--topic", help="Only letters of this topic."),
        click.option("--reason", help="Only letters with this reason, for example invalid_event."),
    ):
        wrapped = option(wrapped)
    return wrapped


async def matching(store: Catalog, wanted: Filter, after: str | None = None) -> AsyncIterator[Snapshot]:
    """Page by page: letters hold payloads, and there may be many."""
    while page := await store.list_documents(LETTERS, _PAGE, after):
        for snapshot in page:
            if wanted.wants(snapshot.data or {}):
                yield snapshot
        after = page[-1].ref.id


def chosen_ids(settings: Settings, ids: tuple[str, ...], wanted: Filter, *, everything: bool) -> list[str]:
    """The ids, frozen: what is buried from here on is not part of this run."""
    context = click.get_current_context()
    if bool(ids) == everything:
        raise click.UsageError("name the letters by their IDs, or give --all (one of the two)", context)
    if ids and wanted != Filter():
        raise click.UsageError("--reason, --topic and --replayed go with --all", context)
    return asyncio.run(_frozen(settings, wanted)) if everything else list(dict.fromkeys(ids))


async def _frozen(settings: Settings, wanted: Filter) -> list[str]:
    async with open_for_reading(settings) as store:
        return [snapshot.ref.id async for snapshot in matching(store, wanted)]
