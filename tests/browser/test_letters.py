"""Letters: found by group and filter, opened, selected, replayed as selected, and purged only on purpose."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.browser.dashboard import Dashboard, Open, wait_until
from tests.browser.traffic import Platform, ago, send
from tests.common.push import push_body
from tests.common.server import Server, Start

# Ticks whose topic could not be found; once the subscription is mapped to one, each can be replayed.
LOST = "projects/demo/subscriptions/lost-ticks"
MENDED = {"SUBSCRIPTION_TOPIC_MAP": json.dumps({"lost-ticks": "market-ticks"})}
MANY = 130


def lose(server: Server, start: int, count: int) -> None:
    for number in range(start, start + count):
        tick = {"symbol": f"L{number}", "price": 100 + number, "time": ago(0)}
        body = push_body(tick, message_id=f"lost-{number:04d}", published=ago(0), subscription=LOST)
        assert server.push(body).json["outcome"] == "poison"


@pytest.fixture(scope="module")
def pond(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Letters of several kinds, and a server that has since learned what most of them are about."""
    folder: Path = tmp_path_factory.mktemp("letters")
    server = start(folder)
    lose(server, 0, MANY)
    platform = Platform(5)
    send(server, *(platform.message("trade-signals", {"state": "new", "n": n}) for n in range(4)))
    send(server, platform.message("market-ticks", {"symbol": [1], "price": 1, "ts": ago(0)}))
    server.terminate()
    return start(folder, **MENDED)


def opened(look: Open, pond: Server, address: str = "#/letters") -> Dashboard:
    dashboard = look(pond.url).go(address)
    expect(dashboard.page.locator("table.rows tbody tr").first).to_be_visible()
    return dashboard


def select_all(dashboard: Dashboard, count: int) -> None:
    dashboard.button(re.compile(rf"Select (all|the) {count} matching")).click()
    expect(dashboard.page.locator(".selection-bar")).to_contain_text(f"{count} selected")


def replay(dashboard: Dashboard) -> None:
    dashboard.page.locator(".selection-bar").get_by_role("button", name="Replay…").click()
    dashboard.page.locator("dialog").get_by_role("button", name="Replay").click()


def test_groups_and_filters_narrow_the_list(pond: Server, look: Open) -> None:
    page = opened(look, pond).page
    rows = page.locator("table.rows tbody tr")
    expect(rows).to_have_count(50)
    page.locator(".letter-groups").get_by_role("link", name="unroutable_payload").click()
    bar = page.locator(".selection-bar")
    expect(bar).to_contain_text(f"Select all {MANY} matching")
    page.get_by_label("topic", exact=True).select_option(label="all")
    page.get_by_label("view", exact=True).select_option(label="all")
    page.get_by_label("reason", exact=True).select_option("=invalid_event")
    expect(rows).to_have_count(5)
    expect(bar).to_contain_text("Select all 5 matching")
    page.get_by_label("topic", exact=True).select_option("=trade-signals")
    expect(rows).to_have_count(4)
    page.reload()
    expect(rows).to_have_count(4)
    page.get_by_label("state", exact=True).select_option("=succeeded")
    expect(page.get_by_text("No letters here.")).to_be_visible()


def test_pages_follow_each_other(pond: Server, look: Open) -> None:
    page = opened(look, pond, "#/letters?reason=unroutable_payload").page
    rows = page.locator("table.rows tbody tr")
    seen = [set(rows.locator("a[data-id]").all_inner_texts())]
    for count in (50, MANY - 100):
        page.get_by_role("link", name="Next page").click()
        wait_until(
            lambda: set(rows.locator("a[data-id]").all_inner_texts()) not in seen, page, "a new page is shown"
        )
        assert rows.count() == count
        seen.append(set(rows.locator("a[data-id]").all_inner_texts()))
    assert len(set.union(*seen)) == MANY


def test_a_letter_of_several_views_names_each(pond: Server, look: Open) -> None:
    """Which views a replay asks, and why each refused the message."""
    page = opened(look, pond, "#/letters?topic=market-ticks&reason=invalid_event").page
    page.locator("a[data-id]").first.click()
    letter = page.locator("section.letter")
    expect(letter).to_contain_text("A replay asks the views that refused it")
    expect(letter.locator(".refusals li")).to_have_text(
        [re.compile("market_ticks_latest"), re.compile("market_ticks")]
    )


def test_a_letter_opens_with_its_payload(pond: Server, look: Open) -> None:
    page = opened(look, pond, "#/letters?reason=unroutable_payload").page
    page.get_by_role("link", name="lost-0003").click()
    letter = page.locator("section.letter")
    expect(letter.locator("h2")).to_be_focused()
    expect(letter).to_contain_text("no topic could be found")
    expect(letter.locator("pre")).to_contain_text('"symbol": "L3"')
    expect(letter).to_contain_text(LOST)
    page.reload()
    expect(letter.locator("pre")).to_contain_text('"symbol": "L3"')
    letter.get_by_role("link", name="What became of it").click()
    expect(page.locator("main")).to_contain_text("It was buried as a dead letter")
    page.get_by_role("link", name="Open its letter").click()
    expect(letter.locator("pre")).to_contain_text('"symbol": "L3"')


def test_a_range_is_selected_by_mouse_and_by_keys(pond: Server, look: Open) -> None:
    page = opened(look, pond, "#/letters?reason=unroutable_payload").page
    boxes = page.locator("table.rows tbody input")
    bar = page.locator(".selection-bar")
    boxes.nth(2).check()
    boxes.nth(6).click(modifiers=["Shift"])
    expect(bar).to_contain_text("5 selected")
    boxes.nth(4).uncheck()
    expect(bar).to_contain_text("4 selected")
    page.get_by_role("button", name="Clear").click()
    page.locator("main h1").focus()
    for key in ("j", "j", "x", "ArrowDown", "j", "Shift+X"):
        page.keyboard.press(key)
    expect(bar).to_contain_text("3 selected")
    assert [n for n in range(8) if boxes.nth(n).is_checked()] == [1, 2, 3]
    page.get_by_label("Select this page").check()
    expect(bar).to_contain_text("50 selected")


def test_looking_ahead_writes_nothing(pond: Server, look: Open) -> None:
    dashboard = opened(look, pond, "#/letters?reason=unroutable_payload")
    page = dashboard.page
    before = pond.documents()
    page.get_by_label("Select this letter").nth(0).check()
    page.locator(".selection-bar").get_by_role("button", name="What would replay change?").click()
    work = page.locator("section.work")
    expect(work).to_contain_text("documents would change. Nothing has been written.")
    difference = work.locator("details.difference", has_text="market_ticks_latest/L0")
    expect(difference).to_contain_text("new document")
    expect(difference.locator("tr", has_text="price")).to_contain_text("100")
    assert pond.documents() == before


def test_a_frozen_selection_is_replayed_once_and_again(pond: Server, look: Open) -> None:
    dashboard = opened(look, pond, "#/letters?reason=unroutable_payload")
    page = dashboard.page
    select_all(dashboard, MANY)
    page.locator(".selection-bar").get_by_role("button", name="Replay…").click()
    # Buried after the click: not part of what was fixed by it.
    other = "projects/demo/subscriptions/other"
    late = push_body({"x": 1}, message_id="late-letter", published=ago(0), subscription=other)
    assert pond.push(late).json["outcome"] == "poison"
    page.locator("dialog").get_by_role("button", name="Replay").click()
    work = page.locator("section.work")
    expect(work.locator("h2")).to_have_text(f"Replayed {MANY} letters")
    expect(work).to_contain_text(re.compile(rf"{MANY} of {MANY} letters, chosen at \d\d:\d\d:\d\d UTC"))
    assert work.locator("progress").evaluate("bar => bar.value / bar.max") == 1
    expect(work.locator(".counts")).to_have_text(re.compile(rf"applied\s*{MANY}$"))
    expect(work.locator("table.results tbody tr")).to_have_count(100)
    expect(work.locator("table.results")).to_contain_text("market_ticks_latest/L")
    for number in (0, MANY - 1):
        document = pond.document(f"market_ticks_latest/L{number}")
        assert document is not None
        assert document["price"] == 100 + number
    assert {letter["id"]: letter["replays"] for letter in pond.letters()}["other__late-letter"] == 0
    expect(page.locator("table.rows tbody tr").filter(has_text="lost-").first).to_contain_text("applied")

    versions = pond.documents()
    replay(dashboard)
    expect(work.locator(".counts")).to_have_text(re.compile(rf"duplicate\s*{MANY}.*Nothing changed"))
    assert pond.documents() == versions


def test_replaying_can_be_stopped(pond: Server, look: Open) -> None:
    dashboard = opened(look, pond, "#/letters?reason=unroutable_payload")
    page = dashboard.page
    sent: list[int] = []

    def stop_first(route: Route) -> None:
        # The reader stops it while a chunk is under way; that chunk is finished, the next is not begun.
        sent.append(len(json.loads(route.request.post_data or "{}")["ids"]))
        page.evaluate("document.querySelector('section.work .head button').click()")
        route.continue_()

    page.route("**/api/letters/replay", stop_first)
    select_all(dashboard, MANY + 1)
    replay(dashboard)
    expect(page.locator("section.work h2")).to_have_text(f"Replayed 100 of {MANY + 1} letters, then stopped")
    assert sent == [100]


def test_purging_asks_first(pond: Server, look: Open) -> None:
    dashboard = opened(look, pond, "#/letters?reason=invalid_event&topic=trade-signals")
    page = dashboard.page
    select_all(dashboard, 4)
    bar, dialog = page.locator(".selection-bar"), page.locator("dialog")
    bar.get_by_role("button", name="Purge…").click()
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert len(pond.letters()) == MANY + 6
    bar.get_by_role("button", name="Purge…").click()
    dialog.get_by_role("button", name="Purge").click()
    expect(page.locator("section.work h2")).to_have_text("Purged 4 letters")
    expect(page.get_by_text("No letters here.")).to_be_visible()
    expect(bar).to_contain_text("None selected")
    assert len(pond.letters()) == MANY + 2


def test_purging_many_must_be_typed(pond: Server, look: Open) -> None:
    dashboard = opened(look, pond, "#/letters?reason=unroutable_payload&replayed=yes")
    page = dashboard.page
    count = sum(letter["replays"] > 0 for letter in pond.letters())
    select_all(dashboard, count)
    page.locator(".selection-bar").get_by_role("button", name="Purge…").click()
    dialog = page.locator("dialog")
    accept = dialog.get_by_role("button", name="Purge")
    expect(accept).to_be_disabled()
    dialog.get_by_role("textbox").fill("purge 1")
    expect(accept).to_be_disabled()
    dialog.get_by_role("textbox").fill(f"purge {count}")
    dialog.get_by_role("textbox").press("Enter")
    expect(page.locator("section.work h2")).to_have_text(f"Purged {count} letters")
    assert sum(letter["replays"] > 0 for letter in pond.letters()) == 0


@pytest.mark.parametrize("address", ["#/letters?state=succeeded", "#/letters?replayed=yes"])
@pytest.mark.parametrize("selected", ["by their state", "before"])
def test_a_purge_of_what_was_replayed_leaves_what_failed_again(
    start: Start, look: Open, tmp_path: Path, selected: str, address: str
) -> None:
    """With the state chosen, the server deletes letters in that state only, whatever else was selected before."""
    before = start(tmp_path)
    lose(before, 0, 2)
    hopeless = push_body([], message_id="hopeless", published=ago(0), subscription=LOST)
    assert before.push(hopeless).json["outcome"] == "poison"
    before.terminate()
    pond = start(tmp_path, **MENDED)
    dashboard = opened(look, pond)
    page = dashboard.page
    select_all(dashboard, 3)
    replay(dashboard)
    rows, bar = page.locator("table.rows tbody tr"), page.locator(".selection-bar")
    expect(rows.filter(has_text="hopeless")).to_contain_text(re.compile(r"failed again\s*poison"))
    expect(rows.filter(has_text="lost-0000")).to_contain_text(re.compile(r"succeeded\s*applied"))
    if selected == "by their state":
        page.get_by_role("button", name="Clear").click()
    dashboard.go(address)
    expect(rows).to_have_count(2)
    expect(page.get_by_label("state", exact=True)).to_have_value("=succeeded")
    if selected == "by their state":
        select_all(dashboard, 2)
    bar.get_by_role("button", name="Purge…").click()
    dialog = page.locator("dialog")
    expect(dialog).to_contain_text("Only letters in the state “replayed successfully” are purged")
    dialog.get_by_role("button", name="Purge").click()
    expect(page.locator("section.work h2")).to_contain_text("Purged 2 letters")
    assert [letter["messageId"] for letter in pond.letters()] == ["hopeless"]
    page.get_by_label("state", exact=True).select_option("=failed")
    expect(bar).to_contain_text("Select the 1 matching")
    expect(rows).to_have_count(1)


BUGGY = """
from millpond import Latest


class Buggy(Latest):
    topics = ("buggy",)
    collection = "buggy"
    key = "id"

    def document(self, event):
        return {"price": event.payload["price"]}
"""


def test_a_letter_of_a_bug_shows_where_the_view_failed(start: Start, look: Open, tmp_path: Path) -> None:
    """The author of a view reads the exception and the line where it was raised, without opening a log."""
    (tmp_path / "buggy.py").write_text(BUGGY, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    server = start(tmp_path, VIEWS="buggy", PYTHONPATH=path, VIEW_ERROR_PARK_AFTER_S="0")
    server.send({"id": "x"}, message_id="bug-1", topic="buggy")
    page = opened(look, server, "#/letters/acceptance__bug-1").page
    sheet = page.locator("section.letter")
    expect(sheet.locator("p.error")).to_have_text("the view buggy raised KeyError at buggy.py:11: 'price'")
    expect(sheet.locator("pre.block").first).to_contain_text("line 11, in Buggy.document\nKeyError: 'price'")
