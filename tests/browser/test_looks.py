"""Both themes are legible, every page is quiet in the console, and the first view is small."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.dashboard import PHONE, WIDE, Open
from tests.browser.traffic import Platform, ago, send, service
from tests.common.server import Server, Start

FIRST_VIEW_BYTES_MAX = 150_000
PAGES = (
    *("#/", "#/models", "#/models/bars", "#/models/signals", "#/models/runs", "#/docs", "#/docs/trade_signals"),
    *(
        "#/models/board",
        "#/models/view/market_ticks",
        "#/models/view/market_ticks?sort=-id&field=symbol&text=A&since=1h",
    ),
    *("#/doc/trade_signals/sig-101", "#/doc/ops_services/prod__billing", "#/letters", "#/event", "#/event/known"),
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
# Counts as long as a busy service has them, and names as long as a team may choose, on the page that is shown.
LONG_COUNTS = """async () => {
  const { live } = await import("/static/live.js");
  const { append } = await import("/static/series.js");
  const outcomes = { applied: 1234567, duplicate: 1234567, stale_ignored: 234567, too_old_ignored: 34567,
    filtered: 1234567, poison: 1234567, retry: 1234567 };
  const figures = { p50: 0.01234, p99: 12.345, waiting: 1234567, commits: 1234567, committed: 123456789,
    buried: 1234567 };
  const views = { market_ticks_latest: outcomes, a_view_with_the_long_name_that_a_team_gave_it: outcomes };
  append(live.series, { at: Date.now() / 1e3, outcomes, views, ...figures });
  live.totals = { letters: 1234567, collections: [] };
  live.dispatchEvent(new CustomEvent("totals"));
}"""
# Words and numbers that would fit into a line and stand in two. A line may end after a hyphen or a slash.
BROKEN = """() => {
  const broken = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    const node = text.parentElement;
    if (node instanceof SVGElement || node.closest("pre, .unseen, option, noscript")) continue;
    if (!node.checkVisibility({ visibilityProperty: true })) continue;
    for (const word of text.data.matchAll(/[^\\s/\u2013-]+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const boxes = [...range.getClientRects()].filter((box) => box.width > 0);
      const wide = boxes.reduce((sum, box) => sum + box.width, 0);
      if (new Set(boxes.map((box) => Math.round(box.top))).size > 1 && wide < innerWidth / 2) broken.push(word[0]);
    }
  }
  return broken;
}"""
# Texts that reach out of the page, or out of the box that they stand in.
CUT_OFF = """() => {
  const boxes = ".main-nav a, .tile, .tile .figure, .legend td, .legend th, .chip, .env, .top, text.axis";
  const isCutOff = (node) => {
    const { left, right } = node.getBoundingClientRect();
    const isOverfull = node.clientWidth > 0 && node.scrollWidth > node.clientWidth + 1;
    return left < -0.5 || right > innerWidth + 0.5 || (node instanceof HTMLElement && isOverfull);
  };
  const isShown = (node) => node.checkVisibility() && !node.closest(".scroll");
  const found = [...document.querySelectorAll(boxes)].filter((node) => isShown(node) && isCutOff(node));
  return found.map((node) => node.textContent);
}"""
LONG_NAME = "the-service-of-the-team-that-likes-long-names-in-europe-west1"


@pytest.fixture(scope="module")
def lively(start: Start) -> Server:
    server = start(ENV="prod")
    platform = Platform(2)
    named = service(LONG_NAME, "degraded-and-waiting", version="2026.11.17-rc.1+build.4711")
    assert server.send(named, message_id="long-name", published=ago(0)).status == 200
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_count_and_no_word_breaks_on_a_phone(lively: Server, look: Open, scheme: str) -> None:
    """With counts in the millions and long names nothing is cut off, overlaps, or stands in two lines."""
    dashboard = look(lively.url, PHONE, color_scheme=scheme)
    page = dashboard.page
    for address in PAGES:
        dashboard.go(address)
        page.evaluate(LONG_COUNTS)
        expect(page.locator("#letters-count")).to_have_text("1.23M")
        assert page.evaluate(BROKEN) == [], address
        assert page.evaluate(CUT_OFF) == [], address
        dashboard.assert_fits()
        expect(page.locator("#env")).to_be_in_viewport(ratio=1)
        expect(page.locator("#env")).to_have_text("prod")
        assert page.evaluate(FAINT) == [], address


@pytest.mark.parametrize(("env", "stands_out"), [("prod", True), ("Production-eu", True), ("staging", False)])
def test_production_stands_out(start: Start, look: Open, env: str, stands_out: bool) -> None:
    """On a phone too: its badge is filled, that of another environment is not."""
    dashboard = look(start(ENV=env).url, PHONE).go()
    badge = dashboard.page.locator("#env")
    expect(badge).to_be_in_viewport(ratio=1)
    filled = badge.evaluate("node => getComputedStyle(node).backgroundColor !== 'rgba(0, 0, 0, 0)'")
    assert filled is stands_out
    dashboard.assert_fits()


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
