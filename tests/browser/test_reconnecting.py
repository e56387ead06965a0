"""The server goes away and comes back: the page says so, and goes on by itself."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.dashboard import Open
from tests.browser.traffic import ago, service
from tests.common.server import Start


def test_a_server_that_is_killed_and_comes_back(start: Start, look: Open, tmp_path: Path) -> None:
    server = start(tmp_path)
    dashboard = look(server.url).go()
    # The browser itself notes each failed connection.
    dashboard.expected += ["Failed to load resource", "ERR_"]
    page = dashboard.page
    dashboard.stay()
    server.kill()
    expect(page.locator("#stream")).to_contain_text("reconnecting")
    expect(page.locator("main h1")).to_have_text("Disconnected from the server")
    assert "disconnected" in page.title()
    again = start(tmp_path, PORT=str(server.port))
    expect(page.locator("#stream")).to_contain_text("live")
    expect(page.locator("main h1")).to_have_text("No alert is firing")
    page.get_by_role("link", name="Read models").click()
    again.send(service("back"), message_id="back-1", published=ago(0))
    expect(page.locator(".card", has_text="back")).to_be_visible()
    dashboard.assert_not_reloaded()


def test_a_server_that_ends_politely(start: Start, look: Open, tmp_path: Path) -> None:
    server = start(tmp_path)
    dashboard = look(server.url).go("#/models")
    dashboard.expected += ["Failed to load resource", "ERR_"]
    assert server.terminate() == 0
    expect(dashboard.page.locator("#stream")).to_contain_text("reconnecting")
    # What was known is still there, and a view that was not is explained.
    dashboard.page.get_by_role("link", name="Signals").click()
    expect(dashboard.page.locator("main h1")).to_have_text("The server does not answer")
    start(tmp_path, PORT=str(server.port))
    expect(dashboard.page.locator("#stream")).to_contain_text("live")
    dashboard.button("Try again").click()
    expect(dashboard.page.locator("main h1")).to_have_text("Signals")
