"""Ten thousand letters: a page of them is shown at once, and all of them can be selected."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from millpond.core import timestamps
from millpond.core.model import Put
from millpond.dead_letters.store import StoredLetters
from millpond.stores.sqlite.store import SqliteStore
from tests.browser.dashboard import Open
from tests.common.pond import Pond, delivery
from tests.common.server import Server, Start

MANY = 10_000
_BATCH = 1_000
# Generous for a machine with other work to do; by hand it takes a fraction.
SHOWN_S = 5.0


async def bury_many(path: Path) -> None:
    store, router = SqliteStore(path), Pond()
    keep = 14 * 86_400 * timestamps.SECOND_US
    letters = StoredLetters(store, keep=keep, wall_clock=lambda: time.time_ns() // 1_000)
    for start in range(0, MANY, _BATCH):
        writes = []
        for number in range(start, start + _BATCH):
            item = router.route(delivery({"order": number}, f"message-{number:05d}"))
            assert item.fault is not None
            letter = await letters.write_letter(item)
            assert letter.ref is not None
            assert letter.document is not None
            writes.append(Put(letter.ref, None, letter.document))
        await store.commit(writes)
    await store.close()


@pytest.fixture(scope="module")
def full(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("full")
    # In a thread of its own: where Playwright runs, no other event loop can.
    thread = threading.Thread(target=lambda: asyncio.run(bury_many(folder / "millpond.db")))
    thread.start()
    thread.join()
    return start(folder)


def test_they_stay_usable(full: Server, look: Open) -> None:
    dashboard = look(full.url)
    page = dashboard.page
    began = time.monotonic()
    page.goto(f"{full.url}/#/letters")
    rows = page.locator("table.rows tbody tr")
    expect(rows).to_have_count(50)
    expect(page.locator(".letter-groups h2")).to_have_text("10,000 letters")
    assert time.monotonic() - began < SHOWN_S
    assert page.evaluate("document.querySelectorAll('*').length") < 3_000

    began = time.monotonic()
    page.get_by_role("link", name="Next page").click()
    expect(rows.first).to_contain_text("message-00050")
    assert time.monotonic() - began < SHOWN_S

    began = time.monotonic()
    dashboard.button("Select all 10,000 matching").click()
    expect(page.locator(".selection-bar")).to_contain_text("10,000 selected")
    assert time.monotonic() - began < SHOWN_S
    assert rows.count() == 50

    # What is done while all of them are selected is still quick.
    began = time.monotonic()
    rows.nth(3).get_by_role("checkbox").uncheck()
    expect(page.locator(".selection-bar")).to_contain_text("9,999 selected")
    rows.nth(7).get_by_role("link").click()
    expect(page.locator("section.letter pre")).to_contain_text('"order": 57')
    assert time.monotonic() - began < SHOWN_S
