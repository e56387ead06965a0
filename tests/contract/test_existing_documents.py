"""Documents that another program wrote: adopted, replaced or left alone, in the same way on every store."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from millpond import Event, Latest, Merge, Tally, View, adopted_stamp
from millpond.core.model import Document, Outcome, Result
from millpond.core.ports import StoreWithCatalog
from tests.common.pond import delivery
from tests.common.rig import Rig
from tests.common.stores import Run

NOON = dt.datetime(2026, 1, 8, 12, tzinfo=dt.UTC)
LETTER = "dead_letters/s__m1"
OTHERS = {"status": "shipped", "carrier": "by hand", "updatedAt": NOON}


class _Orders(View):
    topics = ("orders",)
    name = collection = "orders"
    key = "orderId"
    time = "changedAt"


class Orders(_Orders, Latest):
    def document(self, event: Event) -> Document:
        return {"status": event.get("status")}


class OrderFields(_Orders, Merge):
    def fields(self, event: Event) -> Document:
        return {"status": event.get("status")}


class OrderCount(_Orders, Tally):
    def fold(self, event: Event, current: Document) -> Document:  # noqa: ARG002
        return {"n": current.get("n", 0) + 1}


KINDS = [Orders, OrderFields, OrderCount]


def order(message_id: str, status: str, changed_at: dt.datetime) -> Any:
    payload = {"topic": "orders", "orderId": "o1", "status": status, "changedAt": changed_at.isoformat()}
    return delivery(payload, message_id)


OLDER, NEWER = NOON - dt.timedelta(minutes=5), NOON + dt.timedelta(minutes=5)


class Shop(Rig[StoreWithCatalog]):
    def __init__(self, store: StoreWithCatalog, view: View) -> None:
        super().__init__(store, [view], EVENT_LOG="on")

    async def one(self, message: Any) -> Result:
        (result,) = await self.take(message)
        return result


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_of_another_program_is_not_overwritten(
    kind: type[View], run: Run, store: StoreWithCatalog
) -> None:
    """However new the event: nothing says which is newer. It is buried, and the letter says what to do."""

    async def act() -> None:
        async with Shop(store, kind()) as shop:
            await shop.put("orders/o1", OTHERS)
            result = await shop.one(order("m1", "returned", NEWER))
            assert (result.outcome, result.reason, result.buried) == (Outcome.POISON, "unowned_document", True)
            assert await shop.document("orders/o1") == OTHERS
            letter = await shop.document(LETTER)
            assert letter["classification"] == "configuration"
            for word in ("orders/o1", "adopt", "existing"):
                assert word in letter["error"]

    run(act())


@pytest.mark.parametrize("kind", KINDS)
def test_a_view_that_replaces_begins_from_an_empty_document(
    kind: type[View], run: Run, store: StoreWithCatalog
) -> None:
    class Replacing(kind):  # type: ignore[valid-type,misc]
        existing = "replace"

    async def act() -> None:
        async with Shop(store, Replacing()) as shop:
            await shop.put("orders/o1", OTHERS)
            result = await shop.one(order("m1", "returned", OLDER))
            assert result.outcome is Outcome.APPLIED
            document = await shop.document("orders/o1")
            assert "carrier" not in document
            assert (document.get("status"), document.get("n")) in {("returned", None), (None, 1)}
            # From now on it is Millpond's: an older event is stale, or counts.
            again = await shop.one(order("m2", "lost", OLDER - dt.timedelta(minutes=1)))
            assert again.outcome is (Outcome.APPLIED if kind is OrderCount else Outcome.STALE)

    run(act())


def test_a_field_says_how_old_a_document_is(run: Run, store: StoreWithCatalog) -> None:
    """An older event is stale, a newer one is applied."""

    class Adopting(Orders):
        adopt = "updatedAt"

    async def act() -> None:
        async with Shop(store, Adopting()) as shop:
            await shop.put("orders/o1", OTHERS)
            assert (await shop.one(order("m1", "packed", OLDER))).outcome is Outcome.STALE
            assert await shop.document("orders/o1") == OTHERS
            assert (await shop.one(order("m2", "returned", NEWER))).outcome is Outcome.APPLIED
            assert (await shop.document("orders/o1"))["status"] == "returned"

    run(act())


def test_fields_of_an_adopted_document_are_merged_by_their_age(run: Run, store: StoreWithCatalog) -> None:
    class Adopting(OrderFields):
        adopt = ("savedAt", "updatedAt")

    async def act() -> None:
        async with Shop(store, Adopting()) as shop:
            await shop.put("orders/o1", OTHERS)
            assert (await shop.one(order("m1", "packed", OLDER))).outcome is Outcome.STALE
            assert (await shop.one(order("m2", "returned", NEWER))).outcome is Outcome.APPLIED
            document = await shop.document("orders/o1")
            assert (document["status"], document["carrier"]) == ("returned", "by hand")

    run(act())


@pytest.mark.parametrize(
    "updated_at",
    [
        None,
        "yesterday",
        True,
        {"seconds": 1},
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.datetime(1969, 12, 31, tzinfo=dt.UTC),
        dt.datetime(2500, 1, 1, tzinfo=dt.UTC),
    ],
    ids=str,
)
def test_a_document_without_a_time_is_not_adopted(updated_at: object, run: Run, store: StoreWithCatalog) -> None:
    class Adopting(Orders):
        adopt = "updatedAt"

    async def act() -> None:
        async with Shop(store, Adopting()) as shop:
            await shop.put("orders/o1", {"status": "shipped", "updatedAt": updated_at})
            assert (await shop.one(order("m1", "returned", NEWER))).reason == "unowned_document"

    run(act())


def test_a_method_adopts_some_documents_and_leaves_the_others(run: Run, store: StoreWithCatalog) -> None:
    class Adopting(Orders):
        def adopt(self, document: Document) -> str | None:
            if document.get("by") != "shop":
                return None
            return adopted_stamp(document, ("updatedAt",), max_future_skew=0)

    async def act() -> None:
        async with Shop(store, Adopting()) as shop:
            await shop.put("orders/o1", OTHERS)
            assert (await shop.one(order("m1", "returned", NEWER))).reason == "unowned_document"
            await shop.put("orders/o1", {**OTHERS, "by": "shop"})
            shop.engine.forget([(await shop.snapshot("orders/o1")).ref])
            result = await shop.service.replay_letter("s__m1")
            assert result is not None
            assert result.outcome is Outcome.APPLIED

    run(act())


def test_a_replay_obeys_it_until_the_document_is_gone(run: Run, store: StoreWithCatalog) -> None:
    async def act() -> None:
        async with Shop(store, Orders()) as shop:
            await shop.put("orders/o1", OTHERS)
            await shop.one(order("m1", "returned", NEWER))
            again = await shop.service.replay_letter("s__m1")
            assert again is not None
            assert (again.outcome, again.reason) == (Outcome.POISON, "unowned_document")
            assert await shop.document("orders/o1") == OTHERS
            await shop.delete("orders/o1")
            shop.engine.forget([(await shop.snapshot("orders/o1")).ref])
            last = await shop.service.replay_letter("s__m1")
            assert last is not None
            assert last.outcome is Outcome.APPLIED

    run(act())


def test_the_verdict_needs_a_fresh_read(run: Run, store: StoreWithCatalog) -> None:
    """Another program wrote the document, and an operator removed it since: the cache must not bury the event."""

    async def act() -> None:
        async with Shop(store, Orders()) as shop:
            await shop.put("orders/o1", OTHERS)
            await shop.one(order("m1", "returned", NEWER))
            await shop.delete("orders/o1")
            result = await shop.one(order("m2", "returned", NEWER))
            assert result.outcome is Outcome.APPLIED

    run(act())


def test_a_message_of_two_views_is_buried_only_for_the_document_of_another(
    run: Run, store: StoreWithCatalog
) -> None:
    class Copies(Orders):
        name = collection = "copies"

    async def act() -> None:
        async with Rig(store, [Orders(), Copies()]) as shop:
            await shop.put("orders/o1", OTHERS)
            (result,) = await shop.take(order("m1", "returned", NEWER))
            assert {view.view: str(view.outcome) for view in result.views} == {
                "orders": "poison",
                "copies": "applied",
            }

    run(act())
