"""Indexes of fields that grow with time, on Firestore.

The emulator has no index exemptions and no administration: those calls go to a server of the test's own.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.cloud.firestore_admin_v1.types import Field, Index

from millpond import Event, Latest
from millpond.core.collections import LETTERS
from millpond.core.model import Committed, Document, Put, Ref
from millpond.core.view import View
from millpond.doctor.examination import examine
from millpond.doctor.findings import Finding, State
from millpond.doctor.indexes import Growing, growing_fields, look_at_indexes
from millpond.doctor.time_fields import INDEXED, OWN, time_fields
from millpond.service.stores import open_store
from millpond.service.views import load_views
from millpond.settings import load
from millpond.stores.memory import MemoryStore
from tests.common.pond import named
from tests.doctor.administration import ask, environment

AT = dt.datetime(2026, 1, 8, 12, tzinfo=dt.UTC)
EXEMPT = Field(index_config=Field.IndexConfig(indexes=[]))
# As the service answers for a field without a configuration: with that of its ancestor.
INDEXED_FIELD = Field(index_config=Field.IndexConfig(indexes=[Index()], uses_ancestor_config=True))
WHERE = "--project=p --database='(default)'"


class Shop(Latest):
    """A view that is not built in."""

    topics = ("orders",)
    collection = "shop"
    key = "orderId"

    def document(self, event: Event) -> Document:
        return dict(event.payload)


def look(collections: Sequence[Growing], indexed: Any) -> tuple[list[Finding], list[str]]:
    """`indexed` holds the fields that have an index, as `collection.field`; or is a status code."""

    def known(collection: str, path: str) -> Field | grpc.StatusCode:
        if isinstance(indexed, grpc.StatusCode):
            return indexed
        return INDEXED_FIELD if f"{collection}.{path}" in indexed else EXEMPT

    settings = load(environment("p"))
    return ask(known, lambda channel: look_at_indexes(settings, channel, collections))


def grown(
    documents: dict[str, Document], views: Sequence[View], **more: str
) -> tuple[dict[str, Growing], list[Finding]]:
    """What is to have no index if a store holds these documents."""

    async def find() -> tuple[list[Growing], list[Finding]]:
        store = MemoryStore()
        puts = [Put(Ref(*path.rsplit("/", 1)), None, document) for path, document in documents.items()]
        assert isinstance(await store.commit(puts), Committed)
        return await growing_fields(load(environment("p", **more)), store, named(views))

    found, not_known = asyncio.run(find())
    return {one.collection: one for one in found}, not_known


def test_fields_that_hold_a_time() -> None:
    """As a timestamp or as text, in maps by their path, in lists as the list; numbers and other text are none."""
    document: Document = {
        "at": AT,
        "text": "2026-01-08T12:00:00+01:00",
        "spaced": "2026-01-08 12:00:00",
        "map": {"inner": {"at": AT}, "n": 1},
        "list": [{"at": [AT]}, 2],
        "epoch": 1_767_873_600,
        "day": "2026-01-08",
        "words": "since 2026-01-08T12:00:00Z",
        "nothing": None,
    }
    found = {("at",), ("text",), ("spaced",), ("map", "inner", "at"), ("list",)}
    assert set(time_fields(document)) == found


def test_times_of_views_of_your_own_are_found_in_their_documents() -> None:
    """In what is stored, in Firestore's notation; `source` is one field, whatever is in it."""
    first: Document = {"changedAt": AT, "address": {"movedAt": "2026-01-08T12:00:00Z"}, "n": 1}
    second: Document = {"paid at": AT, "source": {"publishedAt": AT}, "bad/name": AT, "bad\nname": AT}
    found, not_known = grown({"shop/1": first, "shop/2": second}, [Shop()], FIRESTORE_COLLECTION_PREFIX="x_")
    fields = ["`paid at`", "address.movedAt", "changedAt", "source"]
    assert found["x_shop"] == Growing("x_shop", fields, "shop")
    assert not_known == []


def test_a_view_of_your_own_without_documents() -> None:
    """It is said that its fields are not known, instead of that all is well."""
    found, not_known = grown({}, [Shop()])
    assert "shop" not in found
    (finding,) = not_known
    assert finding.state is State.UNCHECKED
    assert "the view shop has no documents yet" in finding.found


def test_a_document_with_very_many_times() -> None:
    """Only its top-level fields are asked for: each is a call."""
    payload: Document = {f"t{n}": AT for n in range(60)}
    found, _ = grown({"shop/1": {"payload": payload, "changedAt": AT}}, [Shop()])
    assert found["shop"].fields == ["changedAt", "payload"]


@pytest.mark.parametrize("form", ["natural", "nested"])
def test_built_in_views_need_no_documents(form: str) -> None:
    """Their times are known, under the ids their collections have; what is kept for queries is not among them."""
    settings = load(environment("p", BARS_ID=form, FIRESTORE_COLLECTION_PREFIX="x_"))
    found, not_known = grown({}, load_views(settings), FIRESTORE_COLLECTION_PREFIX="x_")
    assert not_known == []
    assert {"x_ops_services", "x_ops_dedupe", "x_millpond_event_segments", "parts"} <= set(found)
    assert ("minutes" in found) == (form == "nested")
    assert ("x_market_bars_1m" in found) == (form == "natural")
    assert found["x_ops_services"].fields == ["lastHeartbeatAt", "updatedAt", "source"]
    assert found[f"x_{LETTERS}"].view is None
    assert set(found["x_trade_signals"].fields).isdisjoint(INDEXED["trade_signals"])


def test_a_time_that_another_program_wrote_into_a_built_in_collection() -> None:
    """It is found like those of other views; what is kept for queries is not named."""
    document: Document = {"updatedAt": AT, "seenAt": AT}
    found, _ = grown({"trade_signals/1": document}, load_views(load(environment("p"))))
    assert "seenAt" in found["trade_signals"].fields
    assert "updatedAt" not in found["trade_signals"].fields


def test_no_field_has_an_index() -> None:
    """One line for all of them, and each was asked for by its full name."""
    found, asked = look([Growing("shop", ["changedAt", "`paid at`"], "shop"), Growing("parts", ["expireAt"])], ())
    assert [(one.state, one.found) for one in found] == [
        (State.OK, "3 fields that grow with time have no index"),
    ]
    groups = "projects/p/databases/(default)/collectionGroups"
    names = ["parts/fields/expireAt", "shop/fields/`paid at`", "shop/fields/changedAt"]
    assert sorted(asked) == [f"{groups}/{name}" for name in names]


def test_a_field_of_ours_has_an_index() -> None:
    """A warning for its collection, with the command that removes the index."""
    found, _ = look(
        [Growing("parts", ["expireAt"]), Growing("ops_services", ["updatedAt", "source"])],
        {"ops_services.updatedAt"},
    )
    (finding,) = found
    assert finding.state is State.WARNING
    assert finding.found.startswith("ops_services: updatedAt has an index and grows with time, so the collection")
    command = "gcloud firestore indexes fields update updatedAt --collection-group=ops_services --disable-indexes"
    assert finding.advice == f"{command} {WHERE}; infra/terraform does it too"


def test_fields_of_your_own_view_have_an_index() -> None:
    """The advice asks whether they are queried, and names the Terraform variable and one command for all."""
    fields = ["`paid at`", "changedAt"]
    (finding,), _ = look([Growing("shop", fields, "shop")], {"shop.`paid at`", "shop.changedAt"})
    assert finding.state is State.WARNING
    assert finding.found.endswith("(view shop)")
    assert "unless you query by them" in finding.advice
    assert "view_collections" in finding.advice
    command = finding.advice.partition(": ")[2].partition("; or list")[0]
    options = f"--collection-group=shop --disable-indexes {WHERE}"
    assert (
        command
        == f"for f in '`paid at`' changedAt; do gcloud firestore indexes fields update \"$f\" {options}; done"
    )


def test_the_command_for_several_fields_is_one_that_a_shell_runs(tmp_path: Path) -> None:
    """Each field is given to gcloud as it is, whatever is in its name."""
    hostile = "`$(touch pwned) '\"`"
    (finding,), _ = look([Growing("shop", [hostile, "at"], "shop")], {f"shop.{hostile}", "shop.at"})
    command = finding.advice.partition(": ")[2].partition("; or list")[0]
    (tmp_path / "gcloud").write_text('#!/bin/sh\nprintf "%s\\n" "$5"\n', encoding="utf-8")
    (tmp_path / "gcloud").chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    shown = subprocess.run(
        ["/bin/sh", "-c", command], cwd=tmp_path, env=path, capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines() == [hostile, "at"]
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("code", "state", "words"),
    [
        (grpc.StatusCode.NOT_FOUND, State.PROBLEM, "there is no database"),
        (grpc.StatusCode.PERMISSION_DENIED, State.UNCHECKED, "roles/datastore.viewer"),
        (grpc.StatusCode.UNAVAILABLE, State.UNCHECKED, "no"),
    ],
)
def test_indexes_that_cannot_be_looked_at(code: grpc.StatusCode, state: State, words: str) -> None:
    """It is said once, not for each of the fields."""
    (finding,), _ = look([Growing("shop", ["a", "b"]), Growing("parts", ["expireAt"])], code)
    assert finding.state is state
    assert words in finding.found


def test_an_index_that_comes_back_counts() -> None:
    """An exemption that is being removed does not protect for long."""
    reverting = Field(index_config=Field.IndexConfig(indexes=[], reverting=True))
    settings = load(environment("p"))
    collections = [Growing("shop", ["at"], "shop")]
    (finding,), _ = ask(lambda *_: reverting, lambda channel: look_at_indexes(settings, channel, collections))
    assert finding.state is State.WARNING


SHOP = """
from millpond import Latest

class Shop(Latest):
    topics = ("orders",)
    collection = "shop"
    key = "orderId"

    def document(self, event):
        return dict(event.payload)
"""


def test_indexes_on_the_emulator(
    firestore_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Unchecked: it lists what the service needs, the user's own fields among it, and the command."""
    (tmp_path / "indexed_shop.py").write_text(SHOP, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", firestore_emulator)
    names = environment(project, VIEWS="indexed_shop", FIRESTORE_EMULATOR_HOST=firestore_emulator)

    def found() -> list[Finding]:
        return [finding for finding in asyncio.run(examine(names, {}, ())) if finding.check == "indexes"]

    async def fill() -> None:
        store = open_store(load(names))
        put = Put(Ref("shop", "1"), None, {"changedAt": AT, "source": {"stamp": "1"}})
        assert isinstance(await store.commit([put]), Committed)
        await store.close()

    assert [finding.state for finding in found()] == [State.UNCHECKED, State.UNCHECKED]
    assert "the view shop has no documents yet" in found()[1].found
    asyncio.run(fill())
    (finding,) = found()
    assert finding.state is State.UNCHECKED
    assert "shop: changedAt" in finding.found
    assert "ops_services: lastHeartbeatAt, updatedAt, source" in finding.found
    assert all(collection.rpartition("/")[2] in finding.found for collection in OWN)
    command = "gcloud firestore indexes fields update FIELD --collection-group=COLLECTION --disable-indexes"
    assert f"{command} --project={project} --database='(default)'" in finding.advice
