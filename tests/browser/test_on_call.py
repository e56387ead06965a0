"""At three in the morning: from an alert to what to do, a chart that fits a young server, and its past."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from millpond.alerts.definitions import load
from tests.acceptance.test_history import QUICK, beat, stored
from tests.browser.dashboard import PHONE, WIDE, Open, numbers, wait_until
from tests.browser.test_looks import BROKEN, FAINT
from tests.common.server import Server, Start
from tests.common.waiting import eventually

# The same series as if the server had run for so many seconds.
AGED = """async (seconds) => {
  const { live } = await import("/static/live.js");
  const { append, emptySeries } = await import("/static/series.js");
  const now = Math.round(Date.now() / 1e3);
  live.series = emptySeries();
  for (let at = now - seconds + 2; at <= now; at += 2) {
    append(live.series, { at, outcomes: { applied: 3 }, views: {}, p50: 0.01, p99: 0.02, waiting: 0, commits: 1,
      committed: 3, buried: 0 });
  }
  live.dispatchEvent(new CustomEvent("totals"));
}"""
# Which part of the width the bars cover, from the first to the last.
COVERED = """() => {
  const box = document.querySelector(".bars path.layer.is-applied").getBBox();
  return box.width / (document.querySelector(".bars svg").clientWidth - 62);
}"""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The folder of a server that was killed after it had counted nine messages."""
    with Server(tmp_path, command=QUICK) as server:
        for number in range(9):
            beat(server, number)
        eventually(lambda: stored(server) == 9, 15, "the minutes were not stored")
        server.kill()
    return tmp_path


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_day_survives_a_kill(start: Start, killed: Path, look: Open, size: tuple[int, int]) -> None:
    """The half hour begins anew; the day has the minutes from before, in the chart, the sums and by view."""
    dashboard = look(start(killed).url, size).go()
    page = dashboard.page
    last = page.locator(".legend tr", has_text=re.compile("^applied")).locator("td").last
    expect(last).to_have_text("0")
    page.get_by_label("24 h", exact=True).check()
    expect(last).to_have_text("9")
    expect(page.get_by_text("also from before a restart")).to_be_visible()
    expect(page.locator(".by-view tr", has_text="ops_services")).to_contain_text("9")
    assert page.locator(".bars path.layer.is-applied").get_attribute("d")
    expect(page.locator(".bars").locator("xpath=../figcaption")).to_contain_text(re.compile("last [1-5] min"))
    dashboard.assert_fits()
    assert page.evaluate(BROKEN) == []
    # The choice is kept, and the day is loaded again.
    page.reload()
    expect(last).to_have_text("9")
    page.get_by_label("30 min", exact=True).check()
    expect(last).to_have_text("0")
    expect(page.get_by_text("also from before a restart")).to_have_count(0)


def test_a_day_that_cannot_be_loaded_leaves_the_half_hour(server: Server, look: Open) -> None:
    """The page says so, and goes on showing what this process counts."""
    dashboard = look(server.url).go()
    page = dashboard.page
    page.route(
        "**/api/history",
        lambda route: route.fulfill(status=503, json={"reason": "store_unavailable", "error": "x"}),
    )
    dashboard.expected.append("503")
    page.get_by_label("24 h", exact=True).check()
    expect(page.locator(".notice")).to_be_visible()
    assert page.locator(".chart .axis").count() > 2


@pytest.mark.parametrize(
    ("seconds", "chosen", "shown"),
    [
        (20, "30 min", "1 min"),
        (170, "30 min", "3 min"),
        (400, "30 min", "10 min"),
        (1_500, "30 min", "30 min"),
        (1_800, "30 min", "30 min"),
        (1_800, "3 min", "3 min"),
        (30, "3 min", "1 min"),
    ],
)
def test_the_chart_spans_what_there_is(server: Server, look: Open, seconds: int, chosen: str, shown: str) -> None:
    """A young server has no axis that is nearly empty; the headings and the sums name the span."""
    page = look(server.url).go().page
    page.get_by_label(chosen, exact=True).check()
    page.evaluate(AGED, seconds)
    for caption in page.locator(".chart figcaption").all():
        expect(caption).to_contain_text(f"last {shown}")
    expect(page.locator(".legend thead")).to_contain_text(f"in {shown}")
    whole_s = int(shown.split(maxsplit=1)[0]) * 60
    assert page.evaluate(COVERED) > 0.85 * min(1, seconds / whole_s) >= 0.28


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_alert_leads_to_its_heading(server: Server, look: Open, size: tuple[int, int], scheme: str) -> None:
    """One click on each alert opens the runbook at the alert's heading; the page is legible and fits."""
    dashboard = look(server.url, size, color_scheme=scheme).go()
    page = dashboard.page
    links = page.locator(".alerts a")
    hrefs = links.evaluate_all("links => links.map((link) => link.getAttribute('href'))")
    assert sorted(hrefs) == sorted(f"runbook#{alert.id}" for alert in load().alerts)
    page.locator(".alerts li", has_text="The store fails every call").get_by_role("link").click()
    expect(page.locator("h3#store-failing")).to_be_in_viewport()
    dashboard.assert_fits()
    assert page.evaluate(FAINT) == []
    wide = page.locator("table, pre").evaluate_all(
        "boxes => boxes.filter((box) => box.scrollWidth > innerWidth && !box.closest('.scroll, pre')).length"
    )
    assert wide == 0
    page.get_by_role("link", name="Overview").click()
    expect(page.locator("main h1")).to_be_visible()


def test_the_runbook_works_without_scripts(server: Server, look: Open) -> None:
    """A browser that runs none shows all of it."""
    page = look(server.url, PHONE, java_script_enabled=False).page
    page.goto(f"{server.url}/runbook#dlq")
    expect(page.locator("h3#dlq")).to_be_in_viewport()


def test_the_day_is_fresh_while_it_is_shown(start: Start, look: Open) -> None:
    """What this process counts is in the day the next time it is loaded."""
    server = start()
    page = look(server.url).go().page
    last = page.locator(".legend tr", has_text=re.compile("^applied")).locator("td").last
    beat(server, 1)
    wait_until(lambda: numbers([last.inner_text()]) == [1.0], page, "it was counted")
    page.get_by_label("24 h", exact=True).check()
    expect(last).to_have_text("1")
