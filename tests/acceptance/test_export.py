"""Documents filtered by time and by field, and exported as files, by a real server."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.common.filled_store import fill
from tests.common.memory import Memory
from tests.common.server import Server, Start

EARLY, LATE = "2026-01-08T12:00:00Z", "2026-01-08T13:00:00Z"
FORMULA = '=HYPERLINK("http://x","click")'
TOKEN = "let-me-in"  # noqa: S105 - made up for this test
COUNT = 5_000
GROWTH_MIB_MAX = 60


@pytest.fixture(scope="module", autouse=True)
def services(server: Server) -> None:
    """Three services: two early ones, and a late one with a hostile name."""
    for n, (name, published) in enumerate([("api", EARLY), ("billing", EARLY), (FORMULA, LATE)]):
        payload = {"service": name, "status": "ok", "timestamp": published, "region": "-2" if n else "eu"}
        assert server.send(payload, message_id=f"s{n}", published=published).status == 200


def ids(server: Server, query: str) -> list[str]:
    answer = server.get(f"/api/docs/ops_services?{query}")
    assert answer.status == 200, answer
    return [doc["data"]["serviceId"] for doc in answer.json["docs"]]


def export(server: Server, query: str, collection: str = "ops_services") -> httpx.Response:
    response = server.http.get(f"/api/export/{collection}?{query}")
    assert response.status_code == 200, response.text
    return response


def rows_of(response: httpx.Response) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(response.text, newline="")))


def test_documents_of_a_time_range(server: Server) -> None:
    assert ids(server, f"since={EARLY}&until={LATE}") == ["api", "billing"]
    assert ids(server, f"since={LATE}") == [FORMULA]
    assert ids(server, "since=1m") == []


def test_documents_by_the_text_of_a_field(server: Server) -> None:
    assert ids(server, "where=serviceId=BILL") == ["billing"]
    assert ids(server, "where=source.messageId=s0&where=status=ok") == ["api"]
    assert ids(server, "where=no.such.field=") == []


@pytest.mark.parametrize("path", ["/api/docs/ops_services", "/api/export/ops_services"])
@pytest.mark.parametrize("query", ["where=status", "where==x", "since=noon", "since=1h&until=2h"])
def test_a_wrong_filter_is_answered_400(server: Server, path: str, query: str) -> None:
    answer = server.get(f"{path}?{query}")
    assert (answer.status, answer.json["reason"]) == (400, "invalid_query")


def test_a_json_file_has_the_documents_of_the_list(server: Server) -> None:
    """One array, the same documents as in pages, for a program to read."""
    response = export(server, "format=json")
    assert response.headers["content-type"] == "application/json"
    assert response.headers["content-disposition"] == 'attachment; filename="ops_services.json"'
    assert response.json() == server.get("/api/docs/ops_services").json["docs"]
    assert export(server, "").content == response.content


def test_a_csv_file_has_a_row_for_each_document(server: Server) -> None:
    """For a spreadsheet, which computes none of it."""
    response = export(server, "format=csv")
    assert response.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert response.headers["content-disposition"] == 'attachment; filename="ops_services.csv"'
    assert response.headers["x-content-type-options"] == "nosniff"
    head = response.text.partition("\r\n")[0].split(",")
    assert (head[0], head[-1]) == ("id", "more")
    assert {"serviceId", "source.messageId", "source.publishedAt"} <= set(head)
    rows = rows_of(response)
    assert [row["serviceId"] for row in rows] == [f"'{FORMULA}", "api", "billing"]
    assert [row["region"] for row in rows] == ["-2", "eu", "-2"]
    assert {row["more"] for row in rows} == {""}


def test_a_file_has_only_what_matches(server: Server) -> None:
    assert [row["serviceId"] for row in rows_of(export(server, f"format=csv&until={LATE}&where=serviceId=i"))] == [
        "api",
        "billing",
    ]
    assert len(export(server, f"since={LATE}").json()) == 1


def test_a_file_of_nothing_is_an_empty_one(server: Server) -> None:
    assert export(server, "", "nowhere").json() == []
    assert export(server, "format=csv", "nowhere").text == "id,more\r\n"


def test_a_hostile_collection_cannot_break_the_header(server: Server) -> None:
    name = export(server, "", "a%22%0d%0aset-cookie:%20x%2F..%2Fb").headers["content-disposition"]
    assert name == 'attachment; filename="a_set-cookie_x_b.json"'


def test_head_is_answered_without_a_file(server: Server) -> None:
    response = server.http.head("/api/export/ops_services?format=csv")
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"].startswith("text/csv")


def test_other_formats_are_refused(server: Server) -> None:
    answer = server.get("/api/export/ops_services?format=xml")
    assert (answer.status, answer.json["error"]) == (400, "format must be one of csv, json")


def test_http_1_0_is_refused(server: Server) -> None:
    """It ends a file by closing the connection, so one that broke off would look complete."""
    answer = server.raw(b"GET /api/export/ops_services HTTP/1.0\r\nhost: localhost\r\n\r\n")
    assert (answer.status, answer.json["reason"]) == (505, "http_version_not_supported")


def test_the_token_is_required(start: Start) -> None:
    guarded = start(ADMIN_TOKEN=TOKEN)
    assert guarded.get("/api/export/ops_services").status == 401
    assert guarded.get("/api/export/ops_services", authorization=f"Bearer {TOKEN}").status == 200


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_big_file_costs_little_memory(start: Start, tmp_path: Path, kind: str) -> None:
    """20 MB of documents: read, sent and forgotten page by page."""
    for first in range(0, COUNT, 500):
        fill(tmp_path / "millpond.db", first, 500)
    server = start(tmp_path)
    server.get("/api/docs/ponds?limit=1000")
    memory = Memory(server.process.pid)
    memory.begin()
    before, size, lines = memory.now(), 0, 0
    with server.http.stream("GET", f"/api/export/ponds?format={kind}") as response:
        for piece in response.iter_bytes():
            size += len(piece)
            lines += piece.count(b"\n")
    assert size > COUNT * 3_000
    assert lines == COUNT + (kind == "csv")
    assert memory.peak() - before < GROWTH_MIB_MAX


def test_json_types_survive(server: Server) -> None:
    """CSV has text only; JSON has the types that the document has."""
    found: Any = json.loads(export(server, "where=serviceId=api").text)[0]["data"]
    assert found["source"]["publishedAt"] == EARLY
