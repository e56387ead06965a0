"""Which documents `since`, `until` and `where` choose, and how they are read: page by page, on every store."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from millpond.core.model import Put, Ref
from millpond.core.ports import StoreWithCatalog
from millpond.http.access import RequestFault
from millpond.http.api import document_filter as filters
from millpond.http.api.document_filter import document_filter, matching_documents, matching_page
from tests.common.stores import Run, open_store

NOON = dt.datetime(2026, 1, 8, 12, tzinfo=dt.UTC)
DOCUMENTS = 250


@pytest.fixture(params=["memory", "sqlite", "firestore"])
def store(request: pytest.FixtureRequest, run: Run) -> Iterator[StoreWithCatalog]:
    """250 documents, a minute apart; every tenth is red."""
    opened = open_store(request.param, request)
    puts = [Put(Ref("jars", f"j{n:03d}"), None, jar(n)) for n in range(DOCUMENTS)]
    run(opened.commit(puts))
    yield opened
    run(opened.close())


def jar(n: int) -> dict[str, Any]:
    source = {"publishedAt": NOON + dt.timedelta(minutes=n), "messageId": f"m{n}"}
    return {"n": n, "look": {"colour": "Red" if n % 10 == 0 else "blue"}, "source": source}


def wanted(query: str) -> filters.DocumentFilter:
    return document_filter(QueryParams(query))


def ids(found: Any) -> list[str]:
    return [snapshot.ref.id for snapshot in found]


RED = [f"j{n:03d}" for n in range(0, DOCUMENTS, 10)]


def test_pages_of_matching_documents_hold_each_once(store: StoreWithCatalog, run: Run) -> None:
    """`next` leads on, and is null at the end, also if the last page is full."""
    found: list[str] = []
    after, pages = None, 0
    while True:
        page, after = run(matching_page(store, "jars", wanted("where=look.colour=RED"), 5, after))
        found += ids(page)
        pages += 1
        if after is None:
            break
    assert (found, pages) == (RED, 5)


def test_a_time_range_is_about_publish_times(store: StoreWithCatalog, run: Run) -> None:
    """From `since` on and before `until`, by the message that wrote the document last."""
    chosen = wanted("since=2026-01-08T12:10:00Z&until=2026-01-08T12:13:00Z")
    page, after = run(matching_page(store, "jars", chosen, 100, None))
    assert (ids(page), after) == (["j010", "j011", "j012"], None)


def test_all_matching_documents_are_read_in_order(store: StoreWithCatalog, run: Run) -> None:
    async def read() -> list[str]:
        return [one.ref.id async for one in matching_documents(store, "jars", wanted("where=look.colour=red"))]

    assert run(read()) == RED


def test_one_request_looks_at_a_bounded_number(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It then answers what it found, and where to go on: nothing is skipped, and no request takes for ever."""
    monkeypatch.setattr(filters, "SCANNED_MAX", 200)
    store = open_store("memory", None)  # type: ignore[arg-type]
    run(store.commit([Put(Ref("jars", f"j{n:03d}"), None, jar(n)) for n in range(DOCUMENTS)]))
    first, after = run(matching_page(store, "jars", wanted("where=n=249"), 10, None))
    assert (first, after) == ([], "j199")
    second, after = run(matching_page(store, "jars", wanted("where=n=249"), 10, after))
    assert (ids(second), after) == (["j249"], None)


MATCHES = {
    "status=ok": {"status": "all OK"},
    "a.b=1": {"a": {"b": 12}},
    "a.b=x": {"a.b": "x"},
    "a.b.c=x": {"a": {"b.c": "x"}},
    "n=1.5": {"n": 1.5},
    "on=true": {"on": True},
    "gone=null": {"gone": None},
    "at=2026-01-08T12": {"at": NOON},
    "raw=aGk": {"raw": b"hi"},
    'tags="b"': {"tags": ["a", "b"]},
    "name=": {"name": ""},
    "text=a=b": {"text": "a=b"},
    "street=STRASSE": {"street": "Hauptstra\xdfe"},
    'quote=say "': {"quote": 'say "'},
}
MISSES = {
    "status=ok": {"status": "bad"},
    "a.b=x": {"a": "x", "b": "x"},
    "name=": {"other": 1},
    "a=b": {"a": {"c": 1}},
    "items.0=a": {"items": ["a"]},
    "raw=hi": {"raw": b"hi"},
}


@pytest.mark.parametrize(("where", "document"), MATCHES.items(), ids=str)
def test_a_field_contains_the_text(where: str, document: dict[str, Any]) -> None:
    """As the API shows the field, in any case of letters; names may contain dots, texts may contain =."""
    assert document_filter(QueryParams({"where": where})).matches(document)


@pytest.mark.parametrize(("where", "document"), MISSES.items(), ids=str)
def test_a_field_does_not_contain_the_text(where: str, document: dict[str, Any]) -> None:
    assert not document_filter(QueryParams({"where": where})).matches(document)


def test_all_conditions_must_hold() -> None:
    both = QueryParams([("where", "a=1"), ("where", "b=2")])
    assert document_filter(both).matches({"a": 1, "b": 2})
    assert not document_filter(both).matches({"a": 1, "b": 3})


def test_a_hostile_document_costs_no_more_than_its_size() -> None:
    """Names with dots make many readings of a path, but no part of a document is visited twice."""
    document: dict[str, Any] = {"a": 1}
    for n in range(2, 400):
        document[".".join(["a"] * n)] = {"a": {".".join(["a"] * n): n}}
    path = ".".join(["a"] * 240)
    began = time.process_time()
    assert not document_filter(QueryParams({"where": f"{path}=x"})).matches(document)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "source",
    [None, "text", {}, {"publishedAt": None}, {"publishedAt": "soon"}, {"publishedAt": dt.datetime(2026, 1, 8)}],  # noqa: DTZ001
)
def test_a_document_without_a_publish_time_is_in_no_range(source: Any) -> None:
    """Another program may have written it."""
    assert not wanted("since=1d").matches({"source": source})
    assert not wanted("until=2100-01-01T00:00:00Z").matches({"source": source})
    assert wanted("").matches({"source": source})


def test_a_publish_time_as_text_counts() -> None:
    """As an earlier consumer stored it."""
    assert wanted("since=2026-01-08T00:00:00Z").matches({"source": {"publishedAt": "2026-01-08T12:00:00Z"}})


@pytest.mark.parametrize(
    "query",
    [
        [("where", "status")],
        [("where", "=x")],
        [("where", "")],
        [("where", "a=" + "x" * 499)],
        [("where", "a=b")] * 9,
        [("since", "yesterday")],
        [("since", "1h"), ("until", "2h")],
    ],
    ids=lambda query: str(query)[:40],
)
def test_a_wrong_filter_is_refused(query: list[tuple[str, str]]) -> None:
    """With 400 and what is allowed."""
    with pytest.raises(RequestFault) as fault:
        document_filter(QueryParams(query))
    assert (fault.value.status, fault.value.reason) == (400, "invalid_query")
