"""A browser and a server for each module. The loop Playwright runs in a thread would disturb tests elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.dashboard import WIDE, Dashboard, Open, launched


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def look(browser: Browser) -> Iterator[Open]:
    """Open dashboards; in the end none may have complained of anything the test did not expect."""
    with contextlib.ExitStack() as opened:
        dashboards: list[Dashboard] = []

        def look(url: str, size: tuple[int, int] = WIDE, **options: object) -> Dashboard:
            viewport = {"width": size[0], "height": size[1]}
            context = browser.new_context(viewport=viewport, **options)  # type: ignore[arg-type]
            opened.callback(context.close)
            dashboards.append(Dashboard(context.new_page(), url))
            return dashboards[-1]

        yield look
        complaints = [text for dashboard in dashboards for text in dashboard.left_complaints]
    assert complaints == []
