"""The board of a view of one's own: columns, sorting, filters, exports; and which boards there are at all."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.dashboard import PHONE, Open, wait_until
from tests.browser.test_hostile import ALL, SHOWN, STRANGERS
from tests.browser.traffic import ago
from tests.common.push import push_body
from tests.common.server import Server, Start

WIDE = (1360, 900)
COUNT = 230
SHOP = """
from millpond import DELETE, Latest

class Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"

    def document(self, event):
        return DELETE if event.get("status") == "gone" else dict(event.payload)

class Notes(Latest):
    topics = ("notes",)
    collection = "notes"
    key = "noteId"

    def document(self, event):
        return dict(event.payload)

class Shelves(Latest):
    topics = ("shelves",)
    collection = "shelves"
    key = "shelf"

    def collection_of(self, event):
        return f"shelves/{event.require('hall')}/rows"

    def document(self, event):
        return dict(event.payload)
"""


def push(server: Server, topic: str, payload: dict[str, object], message_id: str, published: str) -> None:
    answer = server.push(push_body(payload, message_id=message_id, published=published, topic=topic))
    assert answer.status == 200, answer


def order(n: int) -> dict[str, object]:
    city = "Berlin" if n % 2 else "Lyon"
    return {"orderId": f"o-{n:03d}", "total": (n * 37) % 101 - 50, "to": {"city": city}, "paid": n % 3 == 0}


def serve(start: Start, folder: Path, **environment: str) -> Server:
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")
    return start(folder, VIEWS="shop", **environment)


@pytest.fixture(scope="module")
def shop(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """230 orders, a minute apart; the second is deleted. Hostile notes. No built-in view."""
    server = serve(start, tmp_path_factory.mktemp("shop"), BUILT_IN_VIEWS="none")
    for n in range(COUNT):
        push(server, "orders", order(n), f"o{n}", ago(60 * n))
    push(server, "orders", {"orderId": "o-001", "status": "gone"}, "gone", ago(0))
    for n, bad in enumerate(ALL):
        push(server, "notes", {"noteId": f"n{n}", "text": bad, bad[:200]: bad}, f"n{n}", ago(0))
    push(server, "shelves", {"shelf": "s", "hall": "h"}, "s", ago(0))
    return server


def head(page: Page) -> list[str]:
    return page.locator("main thead th").all_inner_texts()


def cells(page: Page, column: int) -> list[str]:
    return page.locator(f"main tbody tr > :nth-child({column})").all_inner_texts()


def test_the_page_opens_on_the_first_own_view(shop: Server, look: Open) -> None:
    """Without built-in views there is no board of theirs: neither a tab nor a request for their documents."""
    dashboard = look(shop.url, WIDE).go("#/models")
    page = dashboard.page
    expect(page.locator("main h1")).to_have_text("orders")
    assert page.locator(".tabs a").all_inner_texts() == [
        "orders",
        "notes",
        "shelves",
        "Flow runs",
        "All collections",
    ]
    assert page.locator(".tabs [aria-current]").inner_text() == "orders"
    assert not dashboard.requests_of("/api/docs/ops_services")
    page.goto(f"{shop.url}/#/models/bars")
    expect(page.locator("main h1")).to_have_text("orders")


def test_own_views_come_before_the_built_in_ones(start: Start, tmp_path: Path, look: Open) -> None:
    """Each loaded view has its board; those that are off have none."""
    server = serve(start, tmp_path, BUILT_IN_VIEWS="ops_services,market_ticks,trade_signals")
    dashboard = look(server.url, WIDE).go("#/models")
    expected = ["orders", "notes", "shelves", "Board", "Signals", "market_ticks", "Flow runs", "All collections"]
    assert dashboard.page.locator(".tabs a").all_inner_texts() == expected
    dashboard.page.get_by_role("link", name="Board").click()
    expect(dashboard.page.locator("main h2")).to_have_text(["Services"])
    assert not dashboard.requests_of("/api/sparklines")
    assert not dashboard.requests_of("/api/docs/market_ticks_latest")


def test_columns_are_fields_of_the_documents(shop: Server, look: Open) -> None:
    """Dotted for nested ones, without what Millpond adds; a tombstone is called deleted; the count is honest."""
    page = look(shop.url, WIDE).go("#/models/view/orders").page
    assert head(page) == ["document", "orderId", "total", "to.city", "paid", "published"]
    expect(page.locator("main [role=status]").first).to_have_text(f"First 200 of {COUNT}, by id.")
    expect(page.locator("main tbody tr")).to_have_count(200)
    assert page.locator("main tbody tr").nth(0).locator("td").all_inner_texts()[:4] == [
        "o-000",
        "-50",
        "Lyon",
        "true",
    ]
    gone = page.locator("main tbody tr").nth(1)
    assert gone.locator("td").all_inner_texts()[0] == "deleted"
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("main tbody tr")).to_have_count(COUNT - 200)
    page.get_by_role("link", name="o-200").click()
    expect(page.locator("main h1")).to_have_text("o-200")


def test_a_head_sorts_by_its_column(shop: Server, look: Open) -> None:
    """Up, down and back, by the keyboard too; numbers as numbers; the choice is in the address."""
    dashboard = look(shop.url, WIDE).go("#/models/view/orders")
    page = dashboard.page
    total = page.get_by_role("button", name="total")
    total.focus()
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("total")
    up = [int(text) for text in cells(page, 3)[:199]]
    assert up == sorted(up)
    assert cells(page, 2)[-1] == "deleted"
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("total")
    down = [int(text) for text in cells(page, 3)[:199]]
    assert down == sorted(down, reverse=True)
    expect(page.locator("main [role=status]").first).to_contain_text("Sorted within this page.")
    address = page.url
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort]")).to_have_count(0)
    page.goto("about:blank")
    page.goto(address)
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("total")


def test_a_field_and_a_time_filter(shop: Server, look: Open) -> None:
    """Both together, without a reload and without losing the focus; the browser goes back through them."""
    dashboard = look(shop.url, WIDE).go("#/models/view/orders")
    page = dashboard.page
    dashboard.stay()
    page.get_by_label("field").select_option("to.city")
    page.get_by_label("contains").fill("BERLIN")
    page.keyboard.press("Enter")
    expect(page.locator("main [role=status]").first).to_have_text("114 documents that match.")
    assert set(cells(page, 4)) == {"Berlin"}
    expect(page.get_by_label("contains")).to_be_focused()
    page.get_by_label("time", exact=True).select_option("1h")
    expect(page.locator("main [role=status]").first).to_have_text("29 documents that match.")
    assert "since=1h" in page.url
    assert "field=to.city" in page.url
    page.get_by_label("contains").fill("nowhere")
    page.keyboard.press("Enter")
    expect(page.locator("main [role=status]").first).to_have_text("No document matches.")
    page.go_back()
    expect(page.get_by_label("contains")).to_have_value("BERLIN")
    expect(page.locator("main tbody tr")).to_have_count(29)
    dashboard.assert_not_reloaded()


def test_an_export_has_what_the_filter_chooses(shop: Server, look: Open, tmp_path: Path) -> None:
    """All pages of it, as a file under the collection's name."""
    page = look(shop.url, WIDE).go("#/models/view/orders?field=paid&text=true").page
    with page.expect_download() as download:
        page.get_by_role("button", name="Export CSV").click()
    assert download.value.suggested_filename == "orders.csv"
    download.value.save_as(tmp_path / "orders.csv")
    with (tmp_path / "orders.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    paid = [f"o-{n:03d}" for n in range(0, COUNT, 3)]
    assert [row["id"] for row in rows] == paid
    assert (rows[0]["total"], rows[0]["to.city"], rows[0]["paid"]) == ("-50", "Lyon", "true")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export JSON").click()
    assert download.value.suggested_filename == "orders.json"
    download.value.save_as(tmp_path / "orders.json")
    documents = json.loads((tmp_path / "orders.json").read_text(encoding="utf-8"))
    assert [document["id"] for document in documents] == paid


def test_an_export_has_what_is_typed(shop: Server, look: Open) -> None:
    """Typing filters the board after a pause; an export does not wait for the pause."""
    page = look(shop.url, WIDE).go("#/models/view/orders").page
    page.get_by_label("field").select_option("orderId")
    page.get_by_label("contains").press_sequentially("o-00")
    expect(page.locator("main [role=status]").first).to_have_text("9 documents that match.")
    page.get_by_label("contains").press_sequentially("7")
    with page.expect_request("**/api/export/**") as asked:
        page.get_by_role("button", name="Export CSV").evaluate("button => button.click()")
    assert "where=orderId%3Do-007" in asked.value.url
    expect(page.locator("main [role=status]").first).to_have_text("1 document that matches.")
    expect(page.get_by_label("contains")).to_be_focused()
    page.go_back()
    expect(page.get_by_label("contains")).to_have_value("")


def test_two_empty_times_are_no_bound(shop: Server, look: Open) -> None:
    """The age that was chosen before is lifted, and the fields stay to be filled."""
    page = look(shop.url, WIDE).go("#/models/view/orders").page
    page.get_by_label("time", exact=True).select_option("1h")
    expect(page).to_have_url(re.compile("since=1h"))
    page.get_by_label("time", exact=True).select_option("custom")
    expect(page).not_to_have_url(re.compile("since="))
    expect(page.get_by_label("from, UTC")).to_be_focused()


def test_a_failed_export_saves_nothing(shop: Server, look: Open) -> None:
    """And says so, with the server's reason."""
    dashboard = look(shop.url, WIDE).go("#/models/view/orders")
    dashboard.expected.append("503")
    page = dashboard.page
    body = json.dumps({"reason": "store_unavailable", "error": "the store is away"})
    page.route(
        "**/api/export/**", lambda route: route.fulfill(status=503, content_type="application/json", body=body)
    )
    downloads: list[object] = []
    page.on("download", lambda one: downloads.append(one))  # noqa: PLW0108 - Playwright marks its listeners
    page.get_by_role("button", name="Export CSV").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing was saved: the store is away")
    assert downloads == []


def test_the_board_stays_fresh(shop: Server, look: Open) -> None:
    """What arrives is shown, with a new column if it has a new field."""
    page = look(shop.url, WIDE).go("#/models/view/orders?field=orderId&text=fresh").page
    expect(page.locator("main [role=status]").first).to_have_text("No document matches.")
    push(shop, "orders", {"orderId": "fresh", "voucher": "spring"}, "fresh", ago(0))
    expect(page.locator("main tbody tr")).to_have_count(1)
    assert head(page) == ["document", "orderId", "voucher", "published"]


def test_a_view_that_chooses_collections_leads_to_all_of_them(shop: Server, look: Open) -> None:
    page = look(shop.url, WIDE).go("#/models/view/shelves").page
    page.locator("section").get_by_role("link", name="all collections").click()
    expect(page.get_by_role("link", name="shelves/h/rows")).to_be_visible()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_hostile_names_and_values_are_text(shop: Server, look: Open, size: tuple[int, int]) -> None:
    """Field names, values, the filter's options and the sort of an address."""
    dashboard = look(shop.url, size).go("#/models/view/notes")
    page = dashboard.page
    for bad, text in SHOWN.items():
        expect(page.locator("main tbody tr").filter(has_text=text)).to_have_count(1)
        assert page.locator("#filter-field option").filter(has_text=text[:15]).count() >= (
            0 if "=" in bad else 1
        ), bad
    heads = page.locator("main thead button")
    for n in range(heads.count()):
        heads.nth(n).click()
        expect(page.locator("th[aria-sort=ascending]")).to_have_count(1)
    page.get_by_label("field").select_option("text")
    page.get_by_label("contains").fill(ALL[0])
    page.keyboard.press("Enter")
    expect(page.locator("main tbody tr")).to_have_count(1)
    assert page.locator(STRANGERS).count() == 0
    assert page.evaluate("window.struck") is None
    dashboard.assert_fits()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_documents_of_a_collection_by_time(shop: Server, look: Open, size: tuple[int, int]) -> None:
    """The list of any collection takes the same range, and keeps it in the address."""
    dashboard = look(shop.url, size).go("#/docs/orders")
    page = dashboard.page
    expect(page.locator(".documents li")).to_have_count(50)
    page.get_by_label("time", exact=True).focus()
    page.get_by_label("time", exact=True).select_option("15m")
    wait_until(lambda: page.locator(".documents li").count() < 20, page, "only recent orders are shown")
    assert page.url.endswith("#/docs/orders?since=15m")
    expect(page.get_by_label("time", exact=True)).to_be_focused()
    page.get_by_label("time", exact=True).select_option("custom")
    page.get_by_label("from, UTC").fill("2020-01-01T00:00")
    page.get_by_label("before, UTC").fill("2020-01-02T00:00")
    page.get_by_label("before, UTC").press("Tab")
    expect(page.get_by_text("There are no documents of this time.")).to_be_visible()
    dashboard.assert_fits()
