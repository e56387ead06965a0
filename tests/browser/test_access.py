"""Who may look: the token prompt, and clear pages where the server refuses or is not there."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

from tests.browser.dashboard import FOREIGN_NAME, Open
from tests.common.server import Server, Start

TOKEN = "let-me-in"  # noqa: S105 - of this test's own server
REFUSED = "status of (401|403|503)"


@pytest.fixture(scope="module")
def guarded(start: Start) -> Server:
    return start(ADMIN_TOKEN=TOKEN)


def test_the_token_is_asked_for_once_and_kept_in_the_tab(guarded: Server, look: Open) -> None:
    dashboard = look(guarded.url)
    dashboard.expected.append(REFUSED)
    page = dashboard.page
    page.goto(guarded.url)
    dialog = page.locator("dialog.token")
    expect(dialog).to_have_count(1)
    expect(dialog.get_by_label("ADMIN_TOKEN")).to_be_focused()
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("That token was not accepted.")
    dialog.get_by_label("ADMIN_TOKEN").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.locator("#stream")).to_contain_text("live")
    expect(dialog).to_have_count(0)
    assert page.evaluate("Object.values(sessionStorage)") == [TOKEN]
    assert TOKEN not in str(page.evaluate("[Object.values(localStorage), document.cookie, location.href]"))
    page.reload()
    expect(page.locator("#stream")).to_contain_text("live")
    expect(dialog).to_have_count(0)


def test_another_tab_is_asked_again(guarded: Server, look: Open) -> None:
    dashboard = look(guarded.url)
    dashboard.expected.append(REFUSED)
    dashboard.page.goto(f"{guarded.url}/#/letters")
    dialog = dashboard.page.locator("dialog.token")
    expect(dialog).to_be_visible()
    dashboard.page.keyboard.press("Escape")
    expect(dashboard.page.locator("main h1")).to_have_text("A token is needed")
    # A user who said no is not asked again and again.
    dashboard.page.wait_for_timeout(1_500)
    expect(dialog).to_have_count(0)
    dashboard.button("Enter the token").click()
    dialog.get_by_label("ADMIN_TOKEN").fill(TOKEN)
    dashboard.page.keyboard.press("Enter")
    expect(dashboard.page.locator("main h1")).to_have_text("Dead letters")
    expect(dashboard.page.locator("#stream")).to_contain_text("live")


def test_a_name_that_is_not_this_machine(server: Server, look: Open) -> None:
    dashboard = look(f"http://{FOREIGN_NAME}:{server.port}")
    dashboard.expected.append(REFUSED)
    page = dashboard.page
    page.goto(f"{dashboard.url}/#/models")
    expect(page.locator("main h1")).to_have_text("Access is refused")
    expect(page.locator("main")).to_contain_text("ask for localhost or 127.0.0.1 by that name")
    expect(page.locator("#stream")).to_contain_text("refused")


def test_a_store_that_does_not_answer(server: Server, look: Open) -> None:
    dashboard = look(server.url).go()
    dashboard.expected.append(REFUSED)
    page = dashboard.page
    failing = '{"reason": "store_unavailable", "error": "the disk is gone"}'

    def fail(route: Route) -> None:
        # No real store can be made to fail for reads alone, and then be well again.
        route.fulfill(status=503, content_type="application/json", body=failing)

    page.route("**/api/docs/**", fail)
    page.get_by_role("link", name="Read models").click()
    expect(page.locator("main h1")).to_have_text("The store does not answer")
    expect(page.locator("main")).to_contain_text("the disk is gone")
    page.unroute("**/api/docs/**")
    dashboard.button("Try again").click()
    expect(page.locator("main h1")).to_have_text("Read models")


def test_what_is_not_there(server: Server, look: Open) -> None:
    dashboard = look(server.url).go("#/nowhere")
    dashboard.expected.append("status of 404")
    page = dashboard.page
    expect(page.locator("main h1")).to_have_text("There is nothing here")
    dashboard.go("#/doc/ops_services/missing")
    expect(page.locator("main h1")).to_have_text("There is nothing here")
    dashboard.go("#/event/never-heard-of")
    expect(page.locator("main")).to_contain_text("There is no record of it")
