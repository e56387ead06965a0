"""What is shown follows what happens, without a reload, without a storm of requests, and not while hidden."""

from __future__ import annotations

import re
import resource
import time

import pytest
from playwright.sync_api import expect

from tests.browser.dashboard import Open, numbers, wait_until
from tests.browser.traffic import Platform, ago, send, service
from tests.common.server import Server, Start

CHANGES = """async () => {
  const { live } = await import("/static/live.js");
  for (let n = 0; n < 40; n += 1) {
    live.dispatchEvent(new CustomEvent("changed", { detail: { docs: ["ops_services/a"], more: false } }));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}"""
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def platform() -> Platform:
    return Platform()


def test_counters_and_charts_move(server: Server, platform: Platform, look: Open) -> None:
    dashboard = look(server.url).go()
    page = dashboard.page
    dashboard.stay()
    expect(page.locator("main h1")).to_have_text("No alert is firing")
    tick = platform.tick()
    send(server, *(platform.tick() for _ in range(40)), tick, tick)
    row = page.locator(".legend tr", has_text=re.compile("^applied"))
    wait_until(lambda: numbers(row.locator("td").all_inner_texts())[-1:] >= [41.0], page, "41 were applied")
    expect(page.locator(".legend tr", has_text="duplicate").locator("td").last).to_have_text("1")
    expect(page.locator(".tile", has_text="Messages").locator(".figure")).not_to_have_text("0/s")
    expect(page.locator(".tile", has_text="Per commit").locator(".figure")).to_contain_text(re.compile(r"\d"))
    assert page.locator(".bars path.layer.is-applied").get_attribute("d")
    assert page.locator(".lines path.line.is-p99").get_attribute("d")
    dashboard.assert_not_reloaded()


def test_the_verdict_follows_the_store(start: Start, look: Open) -> None:
    """A disk that is full is critical within seconds, although every read succeeds; with room again all is well."""
    server = start(FIRESTORE_RETRY_MAX_ATTEMPTS="1")
    page = look(server.url).go().page
    expect(page.locator("main h1")).to_have_text("No alert is firing")
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1_000, hard))
    assert server.send(service("full", "ok"), message_id="full", published=ago(0)).status == 503
    failing = re.compile("The store fails every call(, and [0-9]+ more alerts?)?")
    expect(page.locator("main h1")).to_have_text(failing, timeout=15_000)
    expect(page.locator(".verdict p").first).to_contain_text(re.compile("Began .* ago.*What to do"))
    expect(page.locator(".verdict").get_by_role("link", name="What to do")).to_have_attribute(
        "href", "runbook#store-failing"
    )
    expect(page).to_have_title("critical · Millpond")
    expect(page.locator("#announcer")).to_have_text(failing)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    expect(page.locator("main h1")).to_have_text("No alert is firing", timeout=15_000)


def test_the_table_beside_a_chart_says_the_same(server: Server, platform: Platform, look: Open) -> None:
    send(server, *(platform.tick() for _ in range(5)))
    page = look(server.url).go().page
    page.locator(".chart").first.get_by_text("As a table").click()
    rows = page.locator(".chart").first.locator("tbody tr")
    expect(rows.first).to_be_visible()
    wait_until(
        lambda: any(n > 0 for row in rows.all() for n in numbers(row.locator("td").all_inner_texts())),
        page,
        "the table has a rate",
    )


def test_the_board_follows(server: Server, look: Open) -> None:
    server.send(service("api", "ok", version="1.0"), message_id="board-1", published=ago(0))
    server.send(service("zebra", "ok"), message_id="board-2", published=ago(0))
    dashboard = look(server.url).go("#/models")
    page = dashboard.page
    dashboard.stay()
    cards = page.locator(".board .card")
    expect(cards.first).to_contain_text("api")
    link = page.get_by_role("link", name="zebra")
    link.focus()
    server.send(service("zebra", "down", version="9.9"), message_id="board-3", published=ago(0))
    expect(cards.first).to_contain_text("zebra")
    expect(cards.first).to_contain_text("down")
    expect(cards.first).to_contain_text("9.9")
    expect(link).to_be_focused()
    dashboard.assert_not_reloaded()


def test_a_heartbeat_ages_by_itself(server: Server, look: Open) -> None:
    server.send(service("ageing"), message_id="age-1", published=ago(0))
    page = look(server.url).go("#/models").page
    age = page.locator(".card", has_text="ageing").locator("time")
    before = age.inner_text()
    expect(age).not_to_have_text(before)
    server.send({**service("silent"), "timestamp": ago(900)}, message_id="age-2", published=ago(890))
    expect(page.locator(".card", has_text="silent")).to_contain_text("quiet")


def test_ticks_follow_with_a_trend(server: Server, look: Open) -> None:
    for number, price in enumerate((100.0, 101.5)):
        tick = {"symbol": "TRND", "price": price, "ts": ago(0)}
        server.send(tick, topic="market-ticks", message_id=f"trend-{number}", published=ago(0))
        time.sleep(1.1)  # A trend has one point a second.
    page = look(server.url).go("#/models").page
    row = page.locator(".ticks tr", has_text="TRND")
    expect(row).to_contain_text("101.50")
    expect(row).to_contain_text("▲ 1.5")
    assert row.locator(".sparkline path").get_attribute("d")
    server.send(
        {"symbol": "TRND", "price": 99.25, "ts": ago(0)},
        topic="market-ticks",
        message_id="trend-9",
        published=ago(0),
    )
    expect(row).to_contain_text("99.25")


def test_a_letter_is_announced_everywhere(server: Server, platform: Platform, look: Open) -> None:
    page = look(server.url).go().page
    send(server, platform.poison())
    expect(page.locator(".groups li")).to_have_count(1)
    expect(page.locator("#letters-count")).to_have_text("1")


def test_the_tail_shows_what_comes_and_can_be_paused(server: Server, platform: Platform, look: Open) -> None:
    dashboard = look(server.url).go("#/event")
    page = dashboard.page
    wait_until(lambda: bool(dashboard.requests_of("/api/tail")), page, "the tail is asked for")
    ticks = [platform.tick() for _ in range(3)]
    rows = page.locator("table.tail tbody tr")
    expect(page.get_by_text("Waiting for messages.")).to_be_visible()
    send(server, *ticks)
    expect(rows.filter(has_text=ticks[-1].message_id)).to_have_count(1)
    dashboard.button("Pause").click()
    late = platform.tick()
    send(server, late)
    expect(page.get_by_text("1 arrived since")).to_be_visible()
    assert rows.filter(has_text=late.message_id).count() == 0
    dashboard.button("Resume").click()
    # Not the request alone: what comes before the server has taken it is in no tail.
    with page.expect_response(lambda response: "/api/tail?outcome=poison" in response.url):
        page.get_by_label("outcome").select_option("poison")
    wait_until(lambda: "outcome=poison" in page.url, page, "the filter is in the address")
    bad = platform.poison()
    send(server, platform.tick(), bad)
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(bad.message_id)


def test_many_changes_are_one_request(server: Server, look: Open) -> None:
    dashboard = look(server.url).go("#/models")
    dashboard.page.wait_for_timeout(1_100)
    dashboard.requests.clear()
    # The server tells of changes once a second at most; a page that did not rely on it would still be safe.
    dashboard.page.evaluate(CHANGES)
    wait_until(lambda: bool(dashboard.requests_of("/api/sparklines")), dashboard.page, "it is loaded again")
    dashboard.page.wait_for_timeout(1_500)
    assert 1 <= len(dashboard.requests_of("/api/sparklines")) <= 3


def test_no_storm_of_requests_under_load(server: Server, platform: Platform, look: Open) -> None:
    dashboard = look(server.url).go("#/models")
    began = time.monotonic()
    dashboard.requests.clear()
    while time.monotonic() - began < 3:
        send(server, *(platform.tick() for _ in range(10)))
        dashboard.page.wait_for_timeout(50)
    lasted_s = time.monotonic() - began
    assert 1 <= len(dashboard.requests_of("/api/sparklines")) <= lasted_s + 2
    assert len(dashboard.requests_of("/api/live")) == 0


def test_nothing_is_asked_for_while_hidden(server: Server, platform: Platform, look: Open) -> None:
    dashboard = look(server.url).go("#/models")
    page = dashboard.page
    page.evaluate(HIDE, arg=True)
    expect(page.locator("#stream")).to_contain_text("paused")
    dashboard.requests.clear()
    send(server, platform.tick())
    server.send(service("unseen"), message_id="hidden-1", published=ago(0))
    page.wait_for_timeout(1_500)
    assert dashboard.requests == []
    page.evaluate(HIDE, arg=False)
    expect(page.locator("#stream")).to_contain_text("live")
    expect(page.locator(".card", has_text="unseen")).to_be_visible()
    assert len(dashboard.requests_of("/api/live")) == 1
