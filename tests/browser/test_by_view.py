"""The panel "By view": what each view made of its events, live, in both themes, on a working and on a phone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.dashboard import PHONE, Dashboard, Open
from tests.browser.test_looks import FAINT
from tests.browser.traffic import Message as Sent
from tests.browser.traffic import ago, send, service
from tests.common.server import Server, Start

DESK = (1360, 900)
# Where pictures of the panel are put, for people who want to look at them.
PICTURES = os.environ.get("MILLPOND_PICTURES")


def ticks(number: int, first: int = 0) -> list[Sent]:
    """Ticks of one symbol: the first is of now, each of the others a second older than the one before it."""
    return [
        Sent("market-ticks", f"by-view-{n}", ago(0), {"symbol": "SPY", "price": 600 + n, "ts": ago(n)})
        for n in range(first, first + number)
    ]


@pytest.fixture(scope="module")
def stale(start: Start) -> Server:
    """A server that was sent 41 ticks, of which 40 were older than the first."""
    server = start(TICK_HISTORY="on", TICKS_MAX_LATE_S="3600")
    send(server, *ticks(41))
    server.send(service("api"), message_id="by-view-beat", published=ago(0))
    return server


def row(page: Page, view: str) -> dict[str, str]:
    """The numbers of one view, by outcome, as they stand there."""
    line = page.locator(f".by-view tr[data-key='{view}']")
    expect(line).to_be_visible()
    script = """cells => cells.map((cell) => {
      const word = cell.querySelector(".word").textContent;
      return [cell.dataset.outcome ?? "share", cell.textContent.slice(word.length)];
    })"""
    return dict(line.locator("td").evaluate_all(script))


def picture(dashboard: Dashboard, name: str) -> None:
    if PICTURES:
        dashboard.page.screenshot(path=Path(PICTURES) / f"by-view-{name}.png", full_page=True)


def test_each_view_has_its_outcomes_and_its_share(stale: Server, look: Open) -> None:
    """The messages were all applied; the panel shows which view ignored nearly all of them; the alert names it."""
    dashboard = look(stale.url, DESK).go()
    page = dashboard.page
    expect(page.locator(".by-view tr[data-key='market_ticks_latest'] .share")).to_contain_text("97.6 %")
    assert row(page, "market_ticks_latest") == {"applied": "1", "stale_ignored": "40", "share": "97.6 %"}
    assert row(page, "market_ticks") == {"applied": "41", "stale_ignored": "0", "share": "0 %"}
    assert row(page, "ops_services") == {"applied": "1", "stale_ignored": "0", "share": "0 %"}
    assert row(page, "trade_signals") == {"applied": "0", "stale_ignored": "0", "share": "\N{EN DASH}"}
    assert page.locator(".by-view thead th").all_inner_texts() == ["view", "applied", "stale", "share stale"]
    alert = page.locator(".alerts li", has_text="Stale events")
    expect(alert).to_contain_text("of the events of market_ticks_latest were ignored as stale")
    expect(alert).to_contain_text("critical")
    expect(page.locator(".legend tr", has_text="stale").locator("td").last).to_have_text("0")


def test_the_panel_follows_what_happens(start: Start, look: Open) -> None:
    """From nothing to numbers, without a reload; a new outcome brings its column."""
    server = start()
    dashboard = look(server.url, DESK).go()
    page = dashboard.page
    dashboard.stay()
    expect(page.get_by_text("No events yet.")).to_be_visible()
    first = ticks(3)
    send(server, *first)
    expect(page.locator(".by-view tr[data-key='market_ticks_latest'] .share")).to_contain_text("66.7 %")
    assert row(page, "market_ticks_latest") == {"applied": "1", "stale_ignored": "2", "share": "66.7 %"}
    send(server, *first[:1])
    duplicate = page.locator(".by-view tr[data-key='market_ticks'] td[data-outcome='duplicate']")
    expect(duplicate).to_contain_text("1")
    assert row(page, "market_ticks_latest")["share"] == "50 %"
    dashboard.assert_not_reloaded()
    # A page that is opened now starts from the history, and shows the same.
    other = look(server.url, DESK).go().page
    assert (
        row(other, "market_ticks")
        == row(page, "market_ticks")
        == {
            "applied": "3",
            "duplicate": "1",
            "stale_ignored": "0",
            "share": "0 %",
        }
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["working", "phone"])
def test_it_is_legible_and_fits(stale: Server, look: Open, scheme: str, size: tuple[int, int]) -> None:
    """Neither the page nor the table scrolls sideways, and on a phone each number has its word."""
    dashboard = look(stale.url, size, color_scheme=scheme).go()
    page = dashboard.page
    line = page.locator(".by-view tr[data-key='market_ticks_latest']")
    expect(line).to_be_visible()
    dashboard.assert_fits()
    assert page.evaluate(FAINT) == []
    box = page.locator(".by-view").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size[0]
    assert page.locator(".by-view").evaluate("table => table.scrollWidth <= table.parentElement.clientWidth")
    assert line.locator(".word", has_text="stale").first.is_visible() == (size == PHONE)
    picture(dashboard, f"{size[0]}-{scheme}")


def test_what_was_half_an_hour_ago_is_forgotten(stale: Server, look: Open) -> None:
    """A page that stays open adds and drops minutes as the server's own history does."""
    page = look(stale.url, DESK).go().page
    found = page.evaluate("""async () => {
      const { append, emptySeries, seriesOf } = await import("/static/series.js");
      const sum = (series) => (series.views.v?.applied ?? []).reduce((a, b) => a + b, 0);
      const step = (n, views) => ({ at: 2 * n, outcomes: {}, views });
      const series = emptySeries();
      const sums = [];
      for (let n = 0; n < 1_000; n += 1) {
        append(series, step(n, n === 10 ? { v: { applied: 7 } } : n === 70 ? { v: { stale_ignored: 1 } } : {}));
        if ([9, 10, 899, 900].includes(n)) sums.push(sum(series));
      }
      const at = Array.from({ length: 45 }, (_, n) => n);
      const views = { v: { applied: [1, 2] } };
      const known = seriesOf({ ...emptySeries(), at, views, viewSteps: 30 });
      append(known, step(45, { v: { applied: 4 }, w: { poison: 5 } }));
      return [sums, series.views.v.stale_ignored.length, known.views];
    }""")
    assert found == [[0, 7, 7, 0], 30, {"v": {"applied": [1, 2, 4]}, "w": {"poison": [0, 0, 5]}}]
