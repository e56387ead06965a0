"""The documentation as a site: built without a warning, complete on the disk, and searchable there."""

from __future__ import annotations

import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.dashboard import PHONE, WIDE, Dashboard, Open
from tests.common.process import ROOT, Ran, run

# Not --quiet: mkdocs counts only the warnings that it prints.
BUILD = (sys.executable, "-m", "mkdocs", "build", "--strict")
# The theme would print a note about a later version of mkdocs.
QUIET = {"NO_MKDOCS_2_WARNING": "1"}
# What a page loads, in contrast to what it links to.
_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
_CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


def build(folder: Path, pages: Path = ROOT) -> Ran:
    """The site of the pages below this folder, as `make docs` builds it."""
    return run([*BUILD, "--config-file", str(pages / "mkdocs.yml"), "--site-dir", str(folder)], pages, QUIET)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = build(folder)
    assert (built.code, built.out) == (0, "")
    assert [line for line in built.err.splitlines() if not line.startswith("INFO ")] == []
    return folder


class Page(HTMLParser):
    """What one built page loads, links to, and can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        if target := given.get(_LOADED.get(tag, "")):
            self.loaded.append(target)
        if tag == "a" and (target := given.get("href")):
            self.links.append(target)


def pages_of(site: Path) -> list[Path]:
    """The pages a reader opens; the one for wrong addresses is for web servers, and links from their root."""
    return [path.resolve() for path in site.rglob("*.html") if path.name != "404.html"]


def is_elsewhere(link: str) -> bool:
    """Whether it leads out of the site; `//host` does, and `data:` does not."""
    parts = urlsplit(link)
    return bool(parts.netloc) or parts.scheme in {"http", "https"}


def test_pages_load_nothing_from_another_host(site: Path) -> None:
    """Scripts, styles, images and fonts are files of the site, so it works without a network."""
    pages = {path: Page(path) for path in pages_of(site)}
    assert len(pages) > 30
    loaded = {(path, link) for path, page in pages.items() for link in page.loaded}
    for style in site.rglob("*.css"):
        found = _CSS_URL.findall(style.read_text(encoding="utf-8"))
        loaded |= {(style, one or other) for one, other in found}
    assert any(link.endswith(".png") for _, link in loaded)
    assert sorted(link for _, link in loaded if is_elsewhere(link)) == []
    files = {(path, link) for path, link in loaded if not link.startswith(("data:", "#"))}
    missing = [link for path, link in files if not (path.parent / unquote(urlsplit(link).path)).exists()]
    assert missing == []


def test_links_between_built_pages_lead_somewhere(site: Path) -> None:
    """Each names a file of the site and, after #, a place in it; also those made by the theme and the hook."""
    pages = {path: Page(path) for path in pages_of(site)}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or not link:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages[target].anchors if target in pages else set()
            if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in known):
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_broken_links_fail_the_build(tmp_path: Path) -> None:
    """A page, an anchor, a file of the repository that do not exist, a link from a host's root: each is named."""
    faults = ["gone.md", "views.md#gone", "../src/gone.py", "/views.md", "gone.txt"]
    for name in ("src", "tests", "infra", "Dockerfile", "compose.yaml", "benchmarks", "examples", "proof"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    with (tmp_path / "docs" / "push.md").open("a", encoding="utf-8") as page:
        page.write("\n" + " ".join(f"[a]({link})" for link in faults) + "\n")
    built = build(tmp_path / "site", tmp_path)
    warnings = [line for line in built.err.splitlines() if line.startswith("WARNING ")]
    assert (built.code, len(warnings)) == (1, len(faults))
    assert [link for link in faults if not any(link in line for line in warnings)] == []


def on_disk(look: Open, site: Path, page: str, size: tuple[int, int]) -> Dashboard:
    address = (site / page).as_uri()
    opened = look(address, size)
    opened.page.goto(address)
    return opened


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_search_works_from_the_disk(site: Path, look: Open, size: tuple[int, int]) -> None:
    """A page opened as a file finds a word, and the first result leads to a page that has it."""
    opened = on_disk(look, site, "index.html", size)
    if size == PHONE:
        opened.page.locator("label.md-header__button[for=__search]").click()
    box = opened.page.locator("input.md-search__input")
    box.click()
    box.press_sequentially("tombstone")
    results = opened.page.locator(".md-search-result__link")
    expect(results.first).to_be_visible()
    results.first.click()
    expect(opened.page.locator(".md-content")).to_contain_text("ombstone")


@pytest.mark.parametrize("page", ["index.html", "runbook.html", "guarantees.html", "cli.html"])
def test_a_page_fits_a_phone(site: Path, look: Open, page: str) -> None:
    """Wide tables and commands scroll in their own place; the page does not."""
    opened = on_disk(look, site, page, PHONE)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
