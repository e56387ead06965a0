"""Checks on Firestore whether fields that grow with time have an index, which limits a collection's writes.

What Millpond and the built-in views write is known (`time_fields`); the fields of other views are found in the
first documents of their collections. Imported only with STORE=firestore: it needs Google's libraries. Reads only.
Called by `examination`.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import grpc

from millpond.core.collections import root_of
from millpond.core.view import View
from millpond.doctor.findings import Finding, fine, unchecked, warning
from millpond.doctor.firestore_fields import (
    FieldReader,
    FieldUnknown,
    collection_id,
    open_channel,
    reading,
    where,
)
from millpond.doctor.time_fields import BUILT_IN, INDEXED, OWN, Path, time_fields
from millpond.reprocess.move_ids import Listing, collections_of
from millpond.settings import Settings
from millpond.stores.firestore.store import FirestoreStore
from millpond.stores.firestore.values import field_path

CHECK = "indexes"
# Read of each view. Documents of one view are alike, and each read is billed.
_DOCUMENTS = 20
_COLLECTIONS = 5
# If a view's documents hold more times, as a copied payload may, only top-level fields are asked for.
_PATHS_MAX = 50
# Every document of a view has it: topic, times and stamp of the event.
_SOURCE = "source"
# No resource name can hold any other name.
_NAMEABLE = re.compile(r"[^/\x00-\x1f\x7f]+")
_LIMIT = "the collection takes about 500 writes a second at most"


class Growing(NamedTuple):
    """The fields of one collection that grow with time, in Firestore's notation of paths."""

    # Firestore's id of the collection.
    collection: str
    fields: Sequence[str]
    # The name of a view that is not built in: only its author knows what is queried.
    view: str | None = None


async def check_indexes(settings: Settings, store: FirestoreStore, views: Sequence[View]) -> list[Finding]:
    found, not_known = await growing_fields(settings, store, views)
    if store.connection.emulator is None:
        return [*await look_at_indexes(settings, open_channel(), found), *not_known]
    listed = "; ".join(f"{one.collection}: {', '.join(one.fields)}" for one in found if one.fields)
    text = f"an emulator has no index exemptions; on the service these fields need one: {listed}"
    command = _disable(settings, "COLLECTION", ["FIELD"])
    return [unchecked(CHECK, text, f"infra/terraform makes them; by hand, each: {command}"), *not_known]


async def growing_fields(
    settings: Settings, listing: Listing, views: Iterable[View]
) -> tuple[list[Growing], list[Finding]]:
    """The fields that should have no index, and a finding for each view of which they are not known yet."""
    found = [Growing(collection_id(settings, name), fields) for name, fields in OWN.items()]
    not_known = []
    kept = {collection_id(settings, name): fields for name, fields in INDEXED.items()}
    for view in views:
        built_in = {
            collection_id(settings, name): fields
            for name, fields in BUILT_IN.items()
            if root_of(name) == view.collection
        }
        stored = await _stored(settings, listing, view)
        if not built_in and not stored:
            text = f"the view {view.name} has no documents yet: which of its fields grow with time is not known"
            not_known.append(unchecked(CHECK, text, "run millpond doctor again when there are some"))
        for name in {**built_in, **stored}:
            fields = _merged(built_in.get(name, ()), stored.get(name, set()), kept.get(name, ()))
            found.append(Growing(name, fields, None if built_in else view.name))
    return found, not_known


async def _stored(settings: Settings, listing: Listing, view: View) -> dict[str, set[Path]]:
    """The paths of times in the first documents of a view, by Firestore's id of the collection."""
    found: dict[str, set[Path]] = defaultdict(set)
    for collection in (await collections_of(listing, view))[:_COLLECTIONS]:
        for snapshot in await listing.list_documents(collection, _DOCUMENTS, None):
            found[collection_id(settings, collection)].update(time_fields(snapshot.data or {}))
    return found


def _merged(known: Sequence[str], stored: set[Path], kept: Sequence[str]) -> list[str]:
    whole = {_SOURCE, *known}
    paths = {path[:1] if path[0] in whole else path for path in stored}
    if len(paths) > _PATHS_MAX:
        paths = {path[:1] for path in paths}
    new = (field_path(path) for path in paths if path[0] not in kept and all(map(_NAMEABLE.fullmatch, path)))
    return [*known, *sorted(set(new) - set(known))]


async def look_at_indexes(
    settings: Settings, channel: grpc.aio.Channel, collections: Sequence[Growing]
) -> list[Finding]:
    findings: list[Finding] = []
    async with reading(settings, channel, CHECK, _list_command(settings)) as reader:
        for one in collections:
            try:
                indexed = await _indexed(reader, one)
            except FieldUnknown as unknown:
                # The next ones would fail alike.
                return [*findings, unknown.finding]
            if indexed:
                findings.append(_judge(settings, one, indexed))
    fields = sum(len(one.fields) for one in collections)
    return findings or [fine(CHECK, f"{fields} fields that grow with time have no index")]


async def _indexed(reader: FieldReader, growing: Growing) -> list[str]:
    """The fields that have an index, or will have one again."""
    name = growing.collection
    answers = await asyncio.gather(
        *(reader.get(name, field, f"the indexes of {name}.{field}") for field in growing.fields),
        return_exceptions=True,
    )
    indexed = []
    for field, answer in zip(growing.fields, answers, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        if answer.index_config.indexes or answer.index_config.reverting:
            indexed.append(field)
    return indexed


def _judge(settings: Settings, growing: Growing, indexed: Sequence[str]) -> Finding:
    have = "has an index and grows" if len(indexed) == 1 else "have an index each and grow"
    text = f"{growing.collection}: {', '.join(indexed)} {have} with time, so {_LIMIT}"
    command = _disable(settings, growing.collection, indexed)
    if growing.view is None:
        return warning(CHECK, text, f"{command}; infra/terraform does it too")
    advice = f"unless you query by them: {command}; or list them in the Terraform variable view_collections"
    return warning(CHECK, f"{text} (view {growing.view})", f"{advice} (docs/deploy.md)")


def _disable(settings: Settings, collection: str, fields: Sequence[str]) -> str:
    options = f"--collection-group={shlex.quote(collection)} --disable-indexes {where(settings)}"
    if len(fields) == 1:
        return f"gcloud firestore indexes fields update {shlex.quote(fields[0])} {options}"
    each = " ".join(map(shlex.quote, fields))
    return f'for f in {each}; do gcloud firestore indexes fields update "$f" {options}; done'


def _list_command(settings: Settings) -> str:
    return f"gcloud firestore indexes fields list {where(settings)}"
