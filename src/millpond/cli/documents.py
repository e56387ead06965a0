"""`millpond get` and `millpond ls`: read documents, from the store or from a server. Never write."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from typing import Any

import click

from millpond.cli import exit_codes
from millpond.cli.escape import clean
from millpond.cli.options import example, json_option, load_settings, read_url_option, store_option
from millpond.cli.output import Column, print_facts, print_json, print_line, print_note, print_table
from millpond.cli.reading import DocumentReader, open_reader
from millpond.core.model import Document, Ref
from millpond.http.api.documents import LIMIT_DEFAULT, LIMIT_MAX, Collections, DocumentPage
from millpond.http_client import Address

_COLLECTIONS = (Column("collection"), Column("docs", right=True))
_DOCUMENTS = (Column("id"), Column("version", right=True), Column("data", clip=True))


@click.command(
    epilog=example(
        "millpond get ops_services/dev__hello",
        "millpond get ops_services dev__hello --url http://127.0.0.1:8080",
    )
)
@click.argument("path", metavar="COLLECTION/ID")
@click.argument("key", metavar="[ID]", required=False)
@read_url_option
@store_option
@json_option
@click.pass_context
def get(ctx: click.Context, path: str, key: str | None, url: Address | None, *, as_json: bool) -> None:
    """Show one document.

    Reads the store directly, also while a server runs; with --url it asks that server. Exits with 1 if there is no
    such document.
    """
    ref = _ref(path, key)

    async def read() -> None:
        async with open_reader(load_settings(), url) as reader:
            document = await reader.document(ref)
            if document is None:
                await _refuse_nothing(ctx, reader, ref, as_json=as_json)
            elif as_json:
                print_json(document)
            else:
                print_line(clean(f"{ref.path} (version {document.version})"))
                print_facts(list(_flat(document.data)), indent="  ")

    asyncio.run(read())


@click.command(
    epilog=example(
        "millpond ls", "millpond ls ops_services --limit 20", "millpond ls --url http://127.0.0.1:8080 --json"
    )
)
@click.argument("collection", required=False)
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=LIMIT_DEFAULT,
    show_default=True,
    help="At most this many documents.",
)
@click.option("--after", metavar="ID", help="Start after this id.")
@read_url_option
@store_option
@json_option
@click.pass_context
def ls(
    ctx: click.Context, collection: str | None, limit: int, after: str | None, url: Address | None, *, as_json: bool
) -> None:
    """List the collections, or the documents of one.

    Reads the store directly, also while a server runs; with --url it asks that server. Exits with 1 if the
    collection is empty.
    """
    if collection is None and after is not None:
        raise click.UsageError("--after goes with a COLLECTION", ctx)
    asyncio.run(_list(ctx, collection, limit, after, url, as_json=as_json))


async def _list(
    ctx: click.Context, collection: str | None, limit: int, after: str | None, url: Address | None, *, as_json: bool
) -> None:
    async with open_reader(load_settings(), url) as reader:
        if collection is None:
            _show_collections(await reader.collections(), as_json=as_json)
            return
        collection = collection.strip("/")
        page = await reader.documents(collection, limit, after)
        if as_json:
            print_json(page)
            ctx.exit(exit_codes.OK if page.docs else exit_codes.NEGATIVE)
        if not page.docs:
            where = f"after {after} in {collection}" if after else f"in {collection}"
            hint = f"`millpond ls{reader.options}` lists the collections{await reader.hint()}"
            raise exit_codes.NegativeAnswer(f"there are no documents {where}: {hint}")
        _show_page(page, f"millpond ls {shlex.quote(collection)}{reader.options}")


def _show_page(page: DocumentPage, command: str) -> None:
    print_table(_DOCUMENTS, [(document.id, document.version, _preview(document.data)) for document in page.docs])
    if page.next is not None:
        print_note(f"There are more: {command} --after {shlex.quote(page.next)}")


async def _refuse_nothing(ctx: click.Context, reader: DocumentReader, ref: Ref, *, as_json: bool) -> None:
    text = f"there is no document {ref.path}"
    if not as_json:
        listing = f"millpond ls {shlex.quote(ref.collection)}{reader.options}"
        raise exit_codes.NegativeAnswer(f"{text}: `{listing}` lists the documents{await reader.hint()}")
    print_json({"reason": "not_found", "error": text})
    ctx.exit(exit_codes.NEGATIVE)


def _ref(path: str, key: str | None) -> Ref:
    if key is not None:
        return Ref(path.strip("/"), key)
    # Ids never contain a slash, collection paths may.
    collection, _, key = path.rpartition("/")
    if not collection or not key:
        raise click.UsageError(f"{path!r} names no document: give COLLECTION/ID", click.get_current_context())
    return Ref(collection.strip("/"), key)


def _show_collections(found: Collections, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    elif found.collections:
        print_table(_COLLECTIONS, [(one.collection, one.docs) for one in found.collections])
    else:
        print_note("The store holds no documents yet.")


def _flat(fields: Document, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its path; lists are not split."""
    for name, value in fields.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _preview(data: Document) -> Document:
    """The fields that distinguish documents in a list, without their origin; `get` shows all."""
    return {name: value for name, value in data.items() if name not in {"source", "data"}}
