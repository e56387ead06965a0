"""Pictures of the dashboard for the documentation, into the folder MILLPOND_SCREENSHOTS names (docs/images).

    .venv/bin/pytest tests/browser/screenshots.py

Run by name only: they take three minutes, which is how long it takes until the charts have something to show.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.dashboard import PHONE, Open
from tests.browser.test_letters import MENDED, lose
from tests.browser.traffic import Platform, send, wave
from tests.common.server import Server, Start

FOLDER = Path(os.environ.get("MILLPOND_SCREENSHOTS", Path(__file__).parents[2] / "docs" / "images"))
LIVELY_S = 165
# When a burst of poison begins: after the first picture.
BURST_S = 180
SIZE = (1360, 900)
RUN = {
    "runId": "daily-charts",
    "flowKey": "daily-charts",
    "scope": {"symbol": "SPY"},
    "steps": {
        "1-import": {"stepType": "IMPORT", "status": "SUCCEEDED", "outputs": {"rows": 1_560}},
        "2-audit": {
            "stepType": "AUDIT",
            "status": "FAILED",
            "dependsOn": ["1-import"],
            "error": {"code": "MISMATCH", "message": "12 rows differ from the broker's statement"},
        },
        "2-charts": {
            "stepType": "CHART_EXPORT",
            "status": "READY",
            "dependsOn": ["1-import"],
            "inputs": {"requests": [{"timeframe": "5m"}, {"timeframe": "1m", "chartTemplateId": "dark"}]},
        },
        "3-report": {"stepType": "REPORT", "status": "PENDING", "dependsOn": ["2-charts", "2-audit"]},
    },
}


class Traffic(threading.Thread):
    """Sends as the platform does, second by second, until it is stopped."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.platform = Platform(3)
        self._server = server
        self._ending = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        second = 0
        while not self._ending.wait(max(0.0, began + second - time.monotonic())):
            second += 1
            # What no view can use, as a bad deploy sends it.
            poison = 0.12 if second >= BURST_S else 0.001
            for _ in range(wave(second)):
                send(self._server, self.platform.any(poison))

    def stop(self) -> None:
        self._ending.set()
        self.join()


@pytest.fixture(scope="module")
def lively(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("pond")
    early = start(folder, ENV="prod")
    lose(early, 0, 24)
    early.terminate()
    server = start(folder, ENV="prod", STORE="sqlite:millpond.db", **MENDED)
    platform = Platform(7)
    send(server, *platform.bars(), *platform.board())
    assert server.http.post("/api/flow-runs", json=RUN).status_code == 201
    return server


def test_pictures(lively: Server, look: Open) -> None:
    folder = FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    traffic = Traffic(lively)
    traffic.start()
    page = look(lively.url, SIZE).go("#/letters?reason=unroutable_payload").page
    page.wait_for_timeout(LIVELY_S * 1_000)
    overview = look(lively.url, SIZE).go().page
    overview.get_by_label("3 min").check()
    overview.screenshot(path=folder / "dashboard-overview.png")
    models = look(lively.url, SIZE).go("#/models").page
    models.screenshot(path=folder / "dashboard-models.png")
    bars = look(lively.url, SIZE, color_scheme="dark").go("#/models/bars/SPY").page
    bars.screenshot(path=folder / "dashboard-bars-dark.png")
    run = look(lively.url, SIZE).go("#/models/runs/daily-charts").page
    expect(run.locator(".pictures img")).to_have_count(2)
    run.screenshot(path=folder / "dashboard-flow.png")
    signal = lively.document("trade_signals/sig-101")
    assert signal is not None
    first = signal["source"]["stamps"][-1]["stamp"].split(".", 3)[3]
    event = look(lively.url, SIZE).go(f"#/event/{first}").page
    event.screenshot(path=folder / "dashboard-event.png")
    phone = look(lively.url, PHONE).go().page
    phone.get_by_label("3 min").check()
    phone.screenshot(path=folder / "dashboard-phone.png")
    trouble = look(lively.url, SIZE, color_scheme="dark").go().page
    trouble.get_by_label("3 min").check()
    expect(trouble.locator(".verdict .is-critical h1")).to_be_visible(timeout=60_000)
    trouble.screenshot(path=folder / "dashboard-trouble-dark.png")
    page.get_by_role("button", name="Select all").click()
    page.locator(".selection-bar").get_by_role("button", name="Replay…").click()
    page.locator("dialog").get_by_role("button", name="Replay").click()
    expect(page.locator("section.work h2")).to_contain_text("Replayed")
    # The groups are counted again a moment later.
    unroutable = page.locator(".letter-groups tr").filter(has_text="unroutable_payload")
    expect(unroutable.locator("td.number").nth(1)).to_have_text("24")
    page.screenshot(path=folder / "dashboard-letters.png")
    traffic.stop()
