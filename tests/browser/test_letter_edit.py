"""A letter is corrected on the page: checked while typing, compared, saved with a name, tried and replayed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.dashboard import PHONE, WIDE, Dashboard, Open
from tests.browser.traffic import ago
from tests.common.push import push_body
from tests.common.server import Server, Start

HOSTILE = '<img src=x onerror="alert(1)">\u202e</textarea><script>alert(2)</script>'
SUBSCRIPTION = "projects/demo/subscriptions/shop"
VIEW = """
from millpond import Latest


class Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "order"
    time = "at"

    def document(self, event):
        return {"total": event.integer("total"), "note": event.get("note")}
"""


@pytest.fixture(scope="module")
def pond(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder: Path = tmp_path_factory.mktemp("edits")
    (folder / "shop.py").write_text(VIEW)
    return start(folder, VIEWS="shop")


def bury(pond: Server, name: str, **fields: object) -> str:
    """An order whose total is no number. Returns the letter's id."""
    order = {"order": name, "at": ago(0), "total": "many", **fields}
    body = push_body(order, message_id=name, published=ago(0), topic="orders", subscription=SUBSCRIPTION)
    assert pond.push(body).json["outcome"] == "poison"
    return f"shop__{name}"


def edit(look: Open, pond: Server, letter: str, size: tuple[int, int] = WIDE) -> tuple[Dashboard, Locator]:
    dashboard = look(pond.url, size).go(f"#/letters/{letter}")
    dashboard.button("Edit the payload…").click()
    text = dashboard.page.get_by_label("Payload", exact=True)
    expect(text).to_be_focused()
    return dashboard, text


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_a_letter_is_corrected_tried_and_replayed(pond: Server, look: Open, size: tuple[int, int]) -> None:
    name = f"order-{size[0]}"
    dashboard, text = edit(look, pond, bury(pond, name, id=12345678901234567890123), size)
    page = dashboard.page
    save = dashboard.button("Save the correction")
    expect(save).to_be_disabled()
    reason = page.locator("#letter-unsaved")
    expect(reason).to_have_text("Nothing is changed yet.")
    assert '"id": 12345678901234567890123' in text.input_value()
    text.fill(text.input_value().replace('"many"', ""))
    expect(page.get_by_text("This is not JSON yet")).to_be_visible()
    expect(save).to_be_disabled()
    expect(reason).to_have_text("It must be a JSON object.")
    text.fill(json.dumps({"order": name, "at": ago(0), "total": 7}, indent=2))
    expect(reason).to_have_text("Give your name, above.")
    page.get_by_label("Your name").fill("Ada")
    expect(reason).to_be_empty()
    expect(page.locator("ins", has_text='"total": 7')).to_be_visible()
    expect(page.locator("del", has_text='"total": "many"')).to_be_visible()
    dashboard.assert_fits()
    save.click()
    expect(page.get_by_text("Corrected by Ada")).to_be_visible()
    expect(page.get_by_text("What was corrected")).to_be_visible()
    letter = page.get_by_role("region", name="Open letter")
    letter.get_by_role("button", name="What would replay change?").click()
    expect(page.get_by_text("1 document would change. Nothing has been written.")).to_be_visible()
    difference = page.locator("details.difference", has_text=f"orders/{name}")
    expect(difference.locator("tbody th").filter(has_text=re.compile(r"^$"))).to_have_count(0)
    expect(difference.get_by_role("link", name="as it is now")).to_have_count(0)
    assert pond.document(f"orders/{name}") is None
    letter.get_by_role("button", name="Replay…").click()
    page.locator("dialog").get_by_role("button", name="Replay").click()
    expect(page.get_by_text("Replayed 1 letter")).to_be_visible()
    assert (pond.document(f"orders/{name}") or {})["total"] == 7
    expect(letter.get_by_text("1, last applied")).to_be_visible()
    expect(page.get_by_text("publish a change as a new message")).to_be_visible()
    expect(dashboard.button("Edit the payload…")).to_have_count(0)


def test_an_open_editor_is_left_alone(pond: Server, look: Open) -> None:
    """Letters that change meanwhile reload the list, and not what is being typed."""
    dashboard, text = edit(look, pond, bury(pond, "typing"))
    text.fill('{"order": "half')
    bury(pond, "meanwhile")
    expect(dashboard.page.locator("a[data-id=shop__meanwhile]")).to_be_visible()
    expect(text).to_have_value('{"order": "half')
    expect(text).to_be_focused()


def test_the_original_is_put_back(pond: Server, look: Open) -> None:
    dashboard, text = edit(look, pond, bury(pond, "back"))
    page = dashboard.page
    page.get_by_label("Your name").fill("Ada")
    text.fill('{"order": "back"}')
    dashboard.button("Save the correction").click()
    dashboard.button("Edit the payload…").click()
    expect(page.get_by_label("Your name")).to_have_value("Ada")
    dashboard.button("Put the original back").click()
    expect(page.get_by_text("Edited, and put back to the original by")).to_be_visible()
    expect(page.locator(".payload .block")).to_contain_text('"total": "many"')


def test_of_two_people_the_second_is_told(pond: Server, look: Open) -> None:
    letter = bury(pond, "race")
    first, mine = edit(look, pond, letter)
    second, theirs = edit(look, pond, letter)
    for dashboard, text, name in ((first, mine, "Ada"), (second, theirs, "Grace")):
        dashboard.page.get_by_label("Your name").fill(name)
        text.fill(json.dumps({"order": "race", "by": name}))
    first.button("Save the correction").click()
    expect(first.page.get_by_text("Corrected by Ada")).to_be_visible()
    second.expected.append("409")
    second.button("Save the correction").click()
    expect(second.page.get_by_text("It was not saved: Ada has edited it meanwhile")).to_be_visible()
    expect(theirs).to_have_value(json.dumps({"order": "race", "by": "Grace"}))


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_hostile_text_stays_text(pond: Server, look: Open, size: tuple[int, int]) -> None:
    """In the payload, in the difference, in the name of the person who edits."""
    name = f"hostile-{size[0]}"
    dashboard, text = edit(look, pond, bury(pond, name, note=HOSTILE, long="x" * 5_000), size)
    page = dashboard.page
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.get_by_label("Your name").fill("<b>Eve</b>" + "e" * 80)
    text.fill(json.dumps({"order": name, "note": HOSTILE * 3, "total": 1}, indent=2, ensure_ascii=False))
    expect(page.locator("ins", has_text="onerror")).to_be_visible()
    dashboard.assert_fits()
    dashboard.button("Save the correction").click()
    expect(page.get_by_text("<b>Eve</b>")).to_be_visible()
    expect(page.locator(".payload img, .payload script, .payload b b")).to_have_count(0)
    assert "⟦U+202E⟧" in page.locator(".payload").inner_text()
    dashboard.assert_fits()
