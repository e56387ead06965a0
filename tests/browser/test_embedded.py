"""The dashboard of an embedded pond: below a mount, and behind a proxy that removes a part of the path."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.dashboard import Open, numbers, wait_until
from tests.common.push import push_body
from tests.pond.host import MOUNT, ExampleHost, stripping_proxy

SIZES = [(1360, 860), (360, 740)]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleHost]:
    with ExampleHost(tmp_path_factory.mktemp("host"), "--root-path", "/shop") as host:
        for number in range(3):
            assert host.http.post("/scans", json={"parcelId": f"P{number}", "depot": "Bern"}).status_code == 200
        broken = push_body({"depot": "Bern"}, topic="parcel-scans", message_id="broken")
        assert host.http.post(f"{MOUNT}/pubsub/push", json=broken).json()["reason"] == "invalid_event"
        yield host


@pytest.fixture(params=["mounted", "behind a proxy"], scope="module")
def url(request: pytest.FixtureRequest, host: ExampleHost) -> Iterator[str]:
    """Where the page is."""
    if request.param == "mounted":
        yield f"{host.url}{MOUNT}"
        return
    with stripping_proxy(host.url, "/shop") as proxy:
        yield f"{proxy}{MOUNT}"


@pytest.mark.parametrize("size", SIZES)
def test_every_page_works_below_the_mount(url: str, size: tuple[int, int], look: Open) -> None:
    """Every request stays below it, every page fits, and the console has nothing to say."""
    dashboard = look(url, size).go()
    page = dashboard.page
    for address, heading in (
        ("#/", re.compile(".")),
        ("#/models", "parcels"),
        ("#/letters", "Dead letters"),
        ("#/event", "Events"),
        ("#/docs", "All collections"),
        ("#/docs/parcels", "parcels"),
        ("#/doc/parcels/P1", "P1"),
    ):
        dashboard.go(address)
        expect(page.locator("main h1")).to_have_text(heading)
        dashboard.assert_fits()
    expect(page.locator("main")).to_contain_text("Bern")
    page.get_by_role("link", name=re.compile("Show why|Why")).first.click()
    expect(page.locator("main h1")).to_contain_text("pond-")
    root = page.evaluate("location.pathname")
    assert [path for path in dashboard.requests if not path.startswith(root)] == []
    assert dashboard.requests_of(f"{root}api/live")


def test_the_runbook_is_below_the_mount(url: str, look: Open) -> None:
    """An alert's link, and the way back, stay below it, and so do the page's styles."""
    dashboard = look(url, (360, 740)).go()
    page = dashboard.page
    root = page.evaluate("location.pathname")
    page.locator(".alerts a").first.click()
    expect(page.locator("h3:target")).to_be_in_viewport()
    assert page.evaluate("location.pathname") == f"{root}runbook"
    assert f"{root}static/runbook.css" in dashboard.requests
    dashboard.assert_fits()
    page.get_by_role("link", name="Overview").click()
    expect(page.locator(".alerts a").first).to_be_visible()
    assert page.evaluate("location.pathname") == root


def test_the_page_is_live_below_the_mount(host: ExampleHost, url: str, look: Open) -> None:
    """A message that arrives now is counted without a reload."""
    dashboard = look(url).go()
    dashboard.stay()
    page = dashboard.page
    row = page.locator(".legend tr", has_text=re.compile("^applied"))
    before = numbers(row.locator("td").all_inner_texts())[-1:]
    for number in range(5):
        host.http.post("/scans", json={"parcelId": f"live-{number}", "depot": "Rome"})
    wait_until(lambda: numbers(row.locator("td").all_inner_texts())[-1:] > before, page, "more were applied")
    dashboard.assert_not_reloaded()


def test_a_letter_is_tried_from_the_page(url: str, look: Open) -> None:
    """A POST of the page finds its way, too."""
    dashboard = look(url).go("#/letters")
    page = dashboard.page
    expect(page.locator("main")).to_contain_text("invalid_event")
    page.get_by_role("link", name="broken").click()
    expect(page.locator("main")).to_contain_text("parcelId")
    page.get_by_role("region", name="Open letter").get_by_role("button", name="What would replay change?").click()
    expect(page.locator("main")).to_contain_text(re.compile("parcelId is missing"))
    assert [path for path in dashboard.requests if path.endswith(f"{MOUNT}/api/letters/preview")]
