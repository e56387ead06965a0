"""Both themes are legible, every page is quiet in the console, and the first view is small."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.dashboard import PHONE, WIDE, Open
from tests.browser.traffic import Platform, send
from tests.common.server import Server, Start

FIRST_VIEW_BYTES_MAX = 150_000
PAGES = (
    *("#/", "#/models", "#/models/bars", "#/models/signals", "#/models/runs", "#/docs", "#/docs/trade_signals"),
    *(
        "#/models/board",
        "#/models/view/market_ticks",
        "#/models/view/market_ticks?sort=-id&field=symbol&text=A&since=1h",
    ),
    *("#/doc/trade_signals/sig-101", "#/doc/ops_services/dev__billing", "#/letters", "#/event", "#/event/known"),
)
# Text that is fainter than WCAG AA allows against what lies behind it: 4.5, or 3 where it is large.
FAINT = """() => {
  const channel = (c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] > 0.99) return found;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || !node.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (node.closest("[disabled], [aria-disabled], .unseen, option, noscript")) continue;
    const style = getComputedStyle(node);
    const colour = parts(node instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(colour), light(behind(node))].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if ((a + 0.05) / (b + 0.05) < needed) faint.push(`${node.tagName} ${text.slice(0, 30)}`);
  }
  return faint;
}"""


@pytest.fixture(scope="module")
def lively(start: Start) -> Server:
    server = start()
    platform = Platform(2)
    known = platform.signal()._replace(message_id="known")
    send(server, *platform.board(), known, *(platform.signal() for _ in range(60)), *platform.bars(30))
    send(server, *(platform.any(poison=0.1) for _ in range(60)))
    return server


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_legible_and_quiet(lively: Server, look: Open, scheme: str) -> None:
    dashboard = look(lively.url, WIDE, color_scheme=scheme)
    for address in PAGES:
        dashboard.go(address)
        assert dashboard.page.evaluate("document.documentElement.dataset.theme") == scheme
        assert dashboard.page.evaluate(FAINT) == [], address
        assert dashboard.left_complaints == [], address


def test_every_page_fits_a_phone(lively: Server, look: Open) -> None:
    dashboard = look(lively.url, PHONE)
    for address in PAGES:
        dashboard.go(address)
        dashboard.assert_fits()
        # Whatever is wider scrolls inside its box.
        wide = dashboard.page.locator("main table").evaluate_all(
            "tables => tables.filter((table) => table.scrollWidth > innerWidth && !table.closest('.scroll')).length"
        )
        assert wide == 0, address


def test_the_theme_is_chosen_and_kept(lively: Server, look: Open) -> None:
    dashboard = look(lively.url, WIDE, color_scheme="light").go()
    page = dashboard.page
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    dashboard.button("Use the dark theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    dashboard.button("Use the light theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light


def test_the_story_of_an_event_that_one_view_did_not_want(lively: Server, look: Open) -> None:
    """It has no document there: nothing to link to, and no error."""
    lively.send({"eventId": "no-symbol", "price": 1}, message_id="m-no-symbol", topic="market-ticks")
    page = look(lively.url).go("#/event/no-symbol").page
    section = page.locator("section.view", has_text="market_ticks_latest")
    expect(section).to_contain_text("The view filters this event out.")
    expect(section.locator("a")).to_have_count(0)
    expect(page.locator("section.view a", has_text="market_ticks/no-symbol")).to_be_visible()


def test_the_story_of_an_event_names_what_decided(lively: Server, look: Open) -> None:
    page = look(lively.url).go("#/event/known").page
    expect(page.locator("section.view")).to_contain_text("trade_signals")
    expect(page.locator("tr.decided")).to_have_count(1)
    expect(page.locator("tr.decided")).to_contain_text("sequence")
    page.locator("section.view").get_by_role("link", name="trade_signals/").click()
    expect(page.locator("main")).to_contain_text("Which message gave which fields")
    page.get_by_role("link", name="Show why").click()
    expect(page.locator("main")).to_contain_text("Arrived")


def test_bars_are_drawn_and_read(lively: Server, look: Open) -> None:
    page = look(lively.url).go("#/models/bars/SPY").page
    expect(page.locator(".reading")).to_contain_text("close")
    drawn = page.locator("path.body").evaluate_all("paths => paths.map((path) => path.getAttribute('d')).join('')")
    assert drawn.count("M") == 30
    page.get_by_label("Symbol").select_option("NVDA")
    expect(page.locator("main h2")).to_have_text("NVDA, one-minute bars")


def test_the_first_view_is_small(lively: Server, look: Open) -> None:
    dashboard = look(lively.url)
    session = dashboard.page.context.new_cdp_session(dashboard.page)
    session.send("Network.enable")
    received: list[dict[str, Any]] = []
    session.on("Network.dataReceived", lambda event: received.append(event))  # noqa: PLW0108 - no builtin
    dashboard.go()
    expect(dashboard.page.locator(".groups li").first).to_be_visible()
    total = sum(event["dataLength"] for event in received)
    assert 20_000 < total < FIRST_VIEW_BYTES_MAX, total
