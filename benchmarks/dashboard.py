"""The cost of an open dashboard: the durable path with the dashboard closed and open in Chromium, in turns.

The browser runs on the load generator's core, at lower priority. Drawing happens on another machine in practice, so
only the cost of the pages' streams and requests to the server is measured. Two cores are often two threads of one
physical core, and a busy one slows the other; so the generator's core is kept busy in all rounds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.client import PUSH_PATH
from benchmarks.processes import BenchError, Server
from benchmarks.results import Round, Watched
from benchmarks.setting import Bench, say
from benchmarks.throughput import load_durable, send

# The two most expensive pages: charts over everything, and documents that change all the time.
_PAGES = ("#/", "#/models")
_STEPS_HELD = "import('/static/live.js').then(({live}) => live.state === 'live' ? live.series.at.length : 0)"
# Time for an opened page to load its first data.
_SETTLE_MS = 3_000


def find_browser() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise BenchError("Chromium is missing, in which the dashboard is opened: apt install chromium")
    return found


def measure(bench: Bench) -> Watched:
    watched = Watched([], [], 0, 0)
    with bench.server("watched") as server, _browser(bench.folder) as browser, _no_idle_time():
        send(bench, server, PUSH_PATH, bench.sizes.warm_up_s)
        for number in range(1, bench.sizes.rounds + 1):
            watched.closed.append(_shown(number, "closed", load_durable(bench, server)))
            with _open_pages(browser, server, watched):
                watched.open.append(_shown(number, "open", load_durable(bench, server)))
    return watched


@contextlib.contextmanager
def _browser(folder: Path) -> Iterator[Any]:
    # Not at the top: only this part needs it.
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        polite = folder / "browser"
        polite.write_text(f'#!/bin/sh\nexec nice -n 19 "{find_browser()}" "$@"\n')
        polite.chmod(0o755)
        browser = playwright.chromium.launch(executable_path=polite, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def _no_idle_time() -> Iterator[None]:
    """Use the idle time of the generator's core, at the lowest priority."""
    burning = subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        burning.kill()
        burning.wait()


@contextlib.contextmanager
def _open_pages(browser: Any, server: Server, watched: Watched) -> Iterator[None]:
    """Both pages, each in its own window, because a browser throttles hidden pages."""
    contexts = [browser.new_context() for _ in _PAGES]
    pages = []

    def count() -> None:
        watched.requests += 1

    try:
        for context, path in zip(contexts, _PAGES, strict=True):
            page = context.new_page()
            page.on("request", lambda _: count())
            page.goto("http://{}:{}/{}".format(*server.address, path))
            page.wait_for_timeout(_SETTLE_MS)
            pages.append(page)
        yield
        watched.samples += sum(_samples(page) for page in pages)
    finally:
        for context in contexts:
            context.close()


def _samples(page: Any) -> int:
    """How many samples of the live stream the page holds; 0 if it is not live."""
    return int(page.evaluate(_STEPS_HELD))


def _shown(number: int, what: str, found: Round) -> Round:
    shares = f"server {found.server_cpu:4.0%}   wrk {found.generator_cpu:4.0%}"
    say(f"  round {number} {what:6} {found.per_second:8,.0f}/s   {shares}")
    return found
