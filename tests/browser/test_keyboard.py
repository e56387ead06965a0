"""Everything can be reached and done without a mouse, and what has the focus can be seen."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.dashboard import Dashboard, Open, wait_until
from tests.browser.traffic import Platform, ago, send, service
from tests.common.server import Server, Start

# How the element that has the focus is marked, or the one around it that stands for it.
FOCUS = """() => {
  const at = document.activeElement;
  const stand = at.matches("input.cursor") ? at.closest(".plot") : null;
  const shown = stand ?? (at.matches(".segments input") ? at.nextSibling : at);
  const box = shown.getBoundingClientRect();
  const style = getComputedStyle(shown);
  return { tag: at.tagName, text: at.textContent.trim().slice(0, 40), label: at.getAttribute("aria-label"),
           marked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
           seen: box.width > 0 && box.height > 0 };
}"""


@pytest.fixture(scope="module")
def pond(start: Start) -> Server:
    server = start()
    platform = Platform(9)
    server.send(service("api"), message_id="known-1", published=ago(0))
    send(server, *(platform.poison() for _ in range(6)), *(platform.tick() for _ in range(10)))
    return server


def walk(dashboard: Dashboard, stops_max: int = 80) -> list[str]:
    """Press Tab until the walk is back at the beginning; what was met on the way."""
    met: list[str] = []
    for _ in range(stops_max):
        dashboard.page.keyboard.press("Tab")
        stop = dashboard.page.evaluate(FOCUS)
        if stop["tag"] == "BODY":
            return met
        assert stop["seen"], stop
        assert stop["marked"], stop
        met.append(stop["label"] or stop["text"])
    raise AssertionError(f"the walk does not end: {met}")


def test_a_walk_through_the_overview(pond: Server, look: Open) -> None:
    met = walk(look(pond.url).go())
    assert met[0] == "Skip to the content"
    for wanted in ("Millpond", "Read models", "Events", "Keyboard shortcuts", "As a table"):
        assert wanted in met, met
    assert any(stop.startswith("Messages per second") for stop in met), met


def test_a_walk_through_other_pages(pond: Server, look: Open) -> None:
    dashboard = look(pond.url)
    for address in ("#/models", "#/letters", "#/event", "#/docs"):
        dashboard.go(address)
        assert len(walk(dashboard)) > 5, address


def test_the_skip_link_leads_to_the_content(pond: Server, look: Open) -> None:
    page = look(pond.url).go("#/models").page
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    assert page.url.endswith("#/models")


def test_the_keys_that_work_everywhere(pond: Server, look: Open) -> None:
    page = look(pond.url).go().page
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_contain_text("dead letters")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.locator("#search-id")).to_be_focused()
    # In a field, keys are text.
    page.keyboard.type("known-1?/g")
    expect(page.locator("#search-id")).to_have_value("known-1?/g")
    page.locator("#search-id").fill("known-1")
    page.keyboard.press("Enter")
    expect(page.locator("main h1")).to_be_focused()
    expect(page.locator("main")).to_contain_text("It won: the document holds what this message says.")
    for key, heading in (("m", "Read models"), ("l", "Dead letters"), ("e", "Events"), ("o", "No alert is firing")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.locator("main h1")).to_have_text(heading)


def test_a_page_that_still_loads_is_left_in_silence(pond: Server, look: Open) -> None:
    """Its requests are given up, and none of them is an error of the page."""
    page = look(pond.url).go().page
    for path in ("**/api/sparklines", "**/api/docs/**"):
        page.route(path, lambda _: None)
    with page.expect_request("**/api/sparklines"), page.expect_request("**/api/docs/**"):
        page.keyboard.press("g")
        page.keyboard.press("m")
    page.keyboard.press("g")
    page.keyboard.press("e")
    expect(page.locator("main h1")).to_have_text("Events")


def test_a_letter_is_found_opened_and_replayed_by_keys(pond: Server, look: Open) -> None:
    page = look(pond.url).go("#/letters").page
    expect(page.locator("table.rows tbody tr").first).to_be_visible()
    for key in ("j", "j", "k", "ArrowDown", "x"):
        page.keyboard.press(key)
    second = page.locator("table.rows tbody tr").nth(1)
    expect(second.get_by_role("checkbox")).to_be_checked()
    page.keyboard.press("Enter")
    expect(page.locator("section.letter h2")).to_be_focused()
    # Past the button that copies the id, the link that closes the letter, and the look ahead.
    for _ in range(4):
        page.keyboard.press("Tab")
    expect(page.locator("section.letter").get_by_role("button", name="Replay…")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("section.work")).to_contain_text("the cause is still there")


def test_a_chart_is_read_with_the_arrow_keys(pond: Server, look: Open) -> None:
    page = look(pond.url).go().page
    wait_until(
        lambda: bool(page.locator(".bars path.is-applied").get_attribute("d")), page, "something is in the chart"
    )
    cursor = page.locator("input.cursor").first
    cursor.focus()
    before = cursor.get_attribute("aria-valuetext")
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    wait_until(lambda: cursor.get_attribute("aria-valuetext") != before, page, "the read-out moves")
    expect(page.locator(".chart .here").first).to_be_attached()
