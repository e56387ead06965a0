"""`millpond get` and `millpond ls`: read documents directly from the store, also beside a running server.

Never writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import click

from millpond.cli import exit_codes
from millpond.cli.escape import clean
from millpond.cli.options import example, json_option, load_settings, store_option
from millpond.cli.output import Column, print_facts, print_json, print_line, print_note, print_table
from millpond.cli.store import open_for_reading
from millpond.core.model import Document, Ref, Snapshot
from millpond.http.api.documents import LIMIT_DEFAULT, LIMIT_MAX, as_document, split_page
from millpond.settings import Settings

_COLLECTIONS = (Column("collection"), Column("docs", right=True))
_DOCUMENTS = (Column("id"), Column("version", right=True), Column("data", clip=True))


@click.command(epilog=example("millpond get ops_services/dev__hello", "millpond get ops_services dev__hello"))
@click.argument("path", metavar="COLLECTION/ID")
@click.argument("key", metavar="[ID]", required=False)
@store_option
@json_option
@click.pass_context
def get(ctx: click.Context, path: str, key: str | None, *, as_json: bool) -> None:
    """Show one document.

    Reads the store directly, also while a server runs. Exits with 1 if there is no such document.
    """
    ref = _ref(path, key)
    snapshot = asyncio.run(_read(load_settings(), ref))
    if snapshot.data is None:
        text = f"there is no document {ref.path}"
        if not as_json:
            raise exit_codes.NegativeAnswer(f"{text}: `millpond ls {ref.collection}` lists the documents")
        print_json({"reason": "not_found", "error": text})
        ctx.exit(exit_codes.NEGATIVE)
    if as_json:
        print_json(as_document(snapshot))
        return
    print_line(clean(f"{ref.path} (version {snapshot.version})"))
    print_facts(list(_flat(snapshot.data)), indent="  ")


@click.command(epilog=example("millpond ls", "millpond ls ops_services --limit 20", "millpond ls --json"))
@click.argument("collection", required=False)
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=LIMIT_DEFAULT,
    show_default=True,
    help="At most this many documents.",
)
@click.option("--after", metavar="ID", help="Start after this id.")
@store_option
@json_option
@click.pass_context
def ls(ctx: click.Context, collection: str | None, limit: int, after: str | None, *, as_json: bool) -> None:
    """List the collections, or the documents of one.

    Reads the store directly, also while a server runs. Exits with 1 if the collection is empty.
    """
    settings = load_settings()
    if collection is None:
        if after is not None:
            raise click.UsageError("--after goes with a COLLECTION", ctx)
        _show_collections(asyncio.run(_collections(settings)), as_json=as_json)
        return
    collection = collection.strip("/")
    found = asyncio.run(_page(settings, collection, limit + 1, after))
    page, following = split_page(found, limit)
    if as_json:
        print_json({"docs": [as_document(snapshot) for snapshot in page], "next": following})
    elif page:
        print_table(_DOCUMENTS, [(found.ref.id, str(found.version), _preview(found.data)) for found in page])
    if following is not None and not as_json:
        print_note(f"There are more: millpond ls {collection} --after {following}")
    if not page:
        if not as_json:
            where = f"after {after} in {collection}" if after else f"in {collection}"
            raise exit_codes.NegativeAnswer(f"there are no documents {where}: `millpond ls` lists the collections")
        ctx.exit(exit_codes.NEGATIVE)


def _ref(path: str, key: str | None) -> Ref:
    if key is not None:
        return Ref(path.strip("/"), key)
    # Ids never contain a slash, collection paths may.
    collection, _, key = path.rpartition("/")
    if not collection or not key:
        raise click.UsageError(f"{path!r} names no document: give COLLECTION/ID", click.get_current_context())
    return Ref(collection.strip("/"), key)


async def _read(settings: Settings, ref: Ref) -> Snapshot:
    async with open_for_reading(settings) as store:
        return (await store.read([ref]))[0]


async def _collections(settings: Settings) -> list[tuple[str, int]]:
    async with open_for_reading(settings) as store:
        return await store.collections()


async def _page(settings: Settings, collection: str, limit: int, after: str | None) -> list[Snapshot]:
    async with open_for_reading(settings) as store:
        return await store.list_documents(collection, limit, after)


def _show_collections(found: list[tuple[str, int]], *, as_json: bool) -> None:
    if as_json:
        print_json({"collections": [{"collection": name, "docs": n} for name, n in found]})
    elif found:
        print_table(_COLLECTIONS, found)
    else:
        print_note("The store holds no documents yet.")


def _flat(fields: Document, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its path; lists are not split."""
    for name, value in fields.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _preview(data: Document | None) -> Document:
    """The fields that distinguish documents in a list, without their origin; `get` shows all."""
    return {name: value for name, value in (data or {}).items() if name not in {"source", "data"}}
