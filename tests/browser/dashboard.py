"""The dashboard in a real browser: a page, and everything it complained about while a test looked at it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Playwright, Request, expect, sync_playwright

from tests.common.needed import lacking

WIDE = (1280, 860)
PHONE = (360, 740)
WAIT_MS = 10_000
# A name that is not this machine's, but leads to it: what a page of another site would try.
FOREIGN_NAME = "pond.example"
HOW_TO_GET = "the dashboard's tests drive Chromium: install it (Debian: apt install chromium) so that it is on PATH"
# Complaints become console errors, which every test looks at in the end.
_TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation",
  (event) => console.error(`policy violated: ${event.violatedDirective} by ${event.blockedURI}`));
"""


def chromium() -> str:
    """The path of the machine's Chromium; without one the test fails or is skipped."""
    found = shutil.which("chromium")
    if found is None:
        lacking(HOW_TO_GET)
    return found


@contextlib.contextmanager
def launched() -> Iterator[Browser]:
    """A browser of its own; nothing of Playwright is left in the thread afterwards."""
    path = chromium()
    playwright: Playwright
    with sync_playwright() as playwright:
        arguments = [f"--host-resolver-rules=MAP {FOREIGN_NAME} 127.0.0.1"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class Dashboard:
    """One open page. `expected` are patterns of complaints that belong to the test."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.expected: list[str] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.set_default_timeout(WAIT_MS)
        expect.set_options(timeout=WAIT_MS)
        page.add_init_script(_TELL_VIOLATIONS)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.complaints.append(f"exception: {error}"))
        page.on("request", self._on_request)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme != "blob":
            self.requests.append(f"{parts.path}?{parts.query}" if parts.query else parts.path)
            if parts.netloc != urlsplit(self.url).netloc:
                self.complaints.append(f"a request to another host: {request.url}")

    @property
    def left_complaints(self) -> list[str]:
        return [text for text in self.complaints if not any(re.search(pattern, text) for pattern in self.expected)]

    def go(self, address: str = "#/") -> Dashboard:
        """Open a view by its address, and wait until it is shown and live."""
        self.page.goto(f"{self.url}/{address}")
        expect(self.page.locator("main h1")).to_be_visible()
        expect(self.page.locator("#stream")).to_contain_text("live")
        self.settle()
        return self

    def settle(self) -> None:
        """Wait until nothing is being loaded for the view any more."""
        expect(self.page.locator("main[aria-busy], main [aria-busy]")).to_have_count(0)

    def stay(self) -> None:
        """Leave a mark that only a reload could remove."""
        self.page.evaluate("window.stayed = true")

    def assert_not_reloaded(self) -> None:
        assert self.page.evaluate("window.stayed") is True

    def assert_fits(self) -> None:
        wide, room = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= room, f"{self.page.url} is {wide} px wide in {room} px"

    def button(self, name: str | re.Pattern[str]) -> Locator:
        return self.page.get_by_role("button", name=name)

    def requests_of(self, prefix: str) -> list[str]:
        return [path for path in self.requests if path.startswith(prefix)]


Open = Callable[..., Dashboard]


def wait_until(condition: Callable[[], bool], page: Page, what: str, timeout_s: float = 10.0) -> None:
    """Come back when it is so; the page goes on meanwhile."""
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, f"it did not come to be that {what}"
        page.wait_for_timeout(20)


def numbers(texts: Sequence[str]) -> list[float]:
    """The first number of each text."""
    found = [re.search(r"[\d,]+(\.\d+)?", text) for text in texts]
    return [float(match[0].replace(",", "")) if match else 0.0 for match in found]
