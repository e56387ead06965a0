"""Finding things: the search box, ranges of time, and buttons that copy what is on the page."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.dashboard import PHONE, Dashboard, Open
from tests.browser.traffic import ago
from tests.common.push import push_body
from tests.common.server import Server, Start

HOSTILE = '<img src=x onerror="window.struck=1">\u202e'
STRANGE_ID = '<img src=x onerror="window.struck=1">'
BIG = 9_007_199_254_740_993


@pytest.fixture(scope="module")
def pond(start: Start) -> Server:
    server = start()

    def push(data: object, message_id: str, topic: str | None = None) -> None:
        assert server.push(push_body(data, message_id=message_id, published=ago(0), topic=topic)).status == 200

    for number, symbol in enumerate(("SPY", "QQQ", "QQQM")):
        tick = {"symbol": symbol, "price": 1, "size": BIG, "ts": ago(0), "eventId": f"ev-{number}"}
        push(tick, f"tick-{number}", "market-ticks")
    push({"order": "Zürich 4711"}, "lost-1")
    # As it is, not escaped.
    push(json.dumps({"order": HOSTILE}, ensure_ascii=False).encode(), "lost-2")
    push({"order": HOSTILE, "n": 2}, STRANGE_ID)
    return server


def searched(look: Open, pond: Server, text: str) -> Page:
    page = look(pond.url).go().page
    page.keyboard.press("/")
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    return page


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tick-1", "#/event/tick-1"),
        ("lost-1", "#/event/lost-1"),
        ("spy", "#/doc/market_ticks_latest/SPY"),
        ("market_ticks/ev-2", "#/doc/market_ticks/ev-2"),
        ("zürich 4711", "#/letters/acceptance__lost-1"),
    ],
)
def test_what_is_found_once_is_shown_at_once(pond: Server, look: Open, text: str, address: str) -> None:
    """A message id, a symbol in lower case, a document's path, and text in a letter's payload."""
    page = searched(look, pond, text)
    expect(page).to_have_url(re.compile(re.escape(address) + "$"))
    page.go_back()
    expect(page).to_have_url(re.compile("#/$"))


def test_several_are_listed_in_groups(pond: Server, look: Open) -> None:
    """Each with a link to its page; the exact one first."""
    page = searched(look, pond, "qqq")
    expect(page.locator("main h1")).to_have_text("Found for qqq")
    links = page.locator("main section", has_text="Documents").locator("a")
    expect(links).to_have_text(["market_ticks_latest/QQQ", "market_ticks_latest/QQQM"])
    expect(page.get_by_role("status").filter(has_text="3 letters looked through, which is all.")).to_be_visible()
    links.nth(1).click()
    expect(page.locator("main h1")).to_have_text("QQQM")


def test_an_event_id_finds_the_message_and_its_document(pond: Server, look: Open) -> None:
    page = searched(look, pond, "ev-1")
    expect(page.locator("main h1")).to_have_text("Found for ev-1")
    expect(page.locator("main section h2")).to_have_text(["Messages", "Documents"])
    expect(page.locator("main section a")).to_have_text(["tick-1", "market_ticks/ev-1"])


def test_nothing_found_says_what_was_looked_for(pond: Server, look: Open) -> None:
    page = searched(look, pond, "no such thing")
    expect(page.locator("main h1")).to_have_text("Found for no such thing")
    expect(page.locator("main section h2")).to_have_text("Nothing")
    expect(page.locator("main")).to_contain_text("EVENT_LOG=off")


@pytest.mark.parametrize("size", [(1360, 900), PHONE], ids=["wide", "phone"])
def test_hostile_text_is_found_and_shown_as_text(pond: Server, look: Open, size: tuple[int, int]) -> None:
    """What is typed, and what letters say around it."""
    dashboard = look(pond.url, size).go(f"#/search?q={quote('onerror=')}")
    page = dashboard.page
    expect(page.locator("main section li")).to_have_count(2)
    expect(page.locator("main section li", has_text="lost-2")).to_contain_text("⟦U+202E⟧")
    dashboard.assert_fits()
    page.goto(f"{pond.url}/#/search?q={quote(HOSTILE)}")
    expect(page.locator("main h1")).to_contain_text("<img src=x onerror=")
    dashboard.assert_fits()
    assert page.locator("main img").count() == 0
    assert page.evaluate("window.struck") is None


def test_a_search_goes_on_through_more_letters(start: Start, look: Open) -> None:
    server = start()
    for number in range(60):
        server.push(push_body({"needle": number}, message_id=f"n-{number:03d}", published=ago(0)))
    page = look(server.url).go("#/search?q=needle").page
    letters = page.locator("main section li")
    expect(letters).to_have_count(50)
    page.get_by_role("button", name="Look through more letters").click()
    expect(letters).to_have_count(60)
    expect(page.locator("main")).to_contain_text("60 letters looked through, which is all.")


# --- ranges of time ----------------------------------------------------------------------------------------------


def test_letters_are_filtered_by_time(pond: Server, look: Open) -> None:
    """The range stays while other filters change, in the address, and for a selection of all that match."""
    page = look(pond.url).go("#/letters").page
    rows = page.locator("table.rows tbody tr")
    expect(rows).to_have_count(3)
    page.get_by_label("time", exact=True).select_option("1h")
    expect(page).to_have_url(re.compile(r"since=1h"))
    expect(rows).to_have_count(3)
    page.get_by_label("reason", exact=True).select_option("=unroutable_payload")
    expect(page).to_have_url(re.compile(r"since=1h.*reason=|reason=.*since=1h"))
    page.get_by_role("button", name="Select all matching").click()
    expect(page.locator(".selection-bar")).to_contain_text("3 selected")
    page.get_by_label("time", exact=True).select_option("custom")
    page.get_by_label("before, UTC").fill("2020-01-01T00:00:30")
    page.get_by_label("before, UTC").press("Tab")
    expect(page.get_by_text("No letters here.")).to_be_visible()
    expect(page).to_have_url(re.compile(r"until=2020-01-01"))
    page.reload()
    expect(page.get_by_text("No letters here.")).to_be_visible()
    expect(page.get_by_label("before, UTC")).to_have_value("2020-01-01T00:00:30")


def test_past_events_are_listed_by_time(pond: Server, look: Open) -> None:
    """Live is the tail as before; a range is a list from the event log, narrowed by outcome and topic."""
    dashboard = look(pond.url).go("#/event")
    page = dashboard.page
    expect(page.locator("section.tail h2")).to_have_text("Live tail")
    page.get_by_label("time", exact=True).select_option("1h")
    expect(page.locator("section.tail h2")).to_have_text("Past events")
    rows = page.locator("table.tail tbody tr")
    expect(rows).to_have_count(6)
    expect(rows.last).to_contain_text("tick-0")
    page.get_by_label("outcome", exact=True).select_option("applied")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("market_ticks_latest/QQQM")
    rows.first.get_by_role("link", name="tick-2").click()
    expect(page.locator("main h1")).to_have_text("tick-2")
    page.go_back()
    expect(rows).to_have_count(3)
    page.get_by_label("time", exact=True).select_option("")
    expect(page.locator("section.tail h2")).to_have_text("Live tail")
    expect(page).to_have_url(re.compile(r"#/event\?outcome=applied$"))


def test_past_events_come_in_pages(start: Start, look: Open) -> None:
    server = start()
    for number in range(70):
        tick = {"symbol": "S", "price": number, "ts": ago(0), "eventId": f"p-{number}"}
        server.push(push_body(tick, message_id=f"p-{number}", published=ago(0), topic="market-ticks"))
    page = look(server.url).go("#/event?since=1h").page
    rows = page.locator("table.tail tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_role("link", name="Next page").click()
    expect(rows).to_have_count(20)
    expect(rows.last).to_contain_text("p-0")


def test_without_an_event_log_the_page_says_so(start: Start, look: Open) -> None:
    page = look(start(EVENT_LOG="off").url).go("#/event?since=1h").page
    expect(page.get_by_text("EVENT_LOG is off")).to_be_visible()


# --- copying -----------------------------------------------------------------------------------------------------


def copied(dashboard: Dashboard, name: str, place: str = "main") -> str:
    """What the clipboard holds after a click; the button says that it was copied, and nothing moves."""
    page = dashboard.page
    button = page.locator(place).get_by_role("button", name=name, exact=True).first
    before = button.bounding_box()
    handle = button.element_handle()
    assert handle is not None
    handle.click()
    page.wait_for_function("button => button.textContent === 'Copied'", arg=handle)
    assert handle.get_attribute("aria-label") == "Copied"
    assert handle.bounding_box() == before
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_ids_paths_and_payloads_are_copied_as_they_are(pond: Server, look: Open) -> None:
    """The raw text, not the one made visible; numbers with every digit."""
    dashboard = look(pond.url, permissions=["clipboard-read", "clipboard-write"]).go("#/event/tick-0")
    assert copied(dashboard, "Copy the message id") == "tick-0"
    assert copied(dashboard, "Copy the event id") == "ev-0"
    assert copied(dashboard, "Copy the document path") == "market_ticks_latest/SPY"
    assert copied(dashboard, "Copy the message id", "table.stamps") == "tick-0"

    dashboard.page.goto(f"{pond.url}/#/doc/market_ticks_latest/SPY")
    expect(dashboard.page.locator("main h1")).to_have_text("SPY")
    dashboard.settle()
    assert copied(dashboard, "Copy the document path") == "market_ticks_latest/SPY"
    document = copied(dashboard, "Copy the document as JSON")
    assert json.loads(document) == pond.get("/api/docs/market_ticks_latest/SPY").json["data"]
    assert f'"size": {BIG}' in document
    assert copied(dashboard, "Copy the message id") == "tick-0"

    letter = quote(f"acceptance__{STRANGE_ID}", safe="")
    dashboard.page.goto(f"{pond.url}/#/letters/{letter}")
    expect(dashboard.page.locator("section.letter")).to_be_visible()
    assert copied(dashboard, "Copy the message id") == STRANGE_ID
    assert copied(dashboard, "Copy the letter id") == f"acceptance__{STRANGE_ID}"
    payload = copied(dashboard, "Copy the payload")
    assert json.loads(payload) == {"order": HOSTILE, "n": 2}


def test_without_a_clipboard_the_text_is_shown_to_be_copied(pond: Server, look: Open) -> None:
    dashboard = look(pond.url)
    dashboard.page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page = dashboard.go("#/event/tick-0").page
    page.get_by_role("button", name="Copy the message id").first.click()
    dialog = page.locator("dialog")
    expect(dialog.locator("textarea")).to_have_value("tick-0")
    expect(dialog.locator("textarea")).to_be_focused()
    expect(dialog).to_contain_text("press Ctrl+C")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
