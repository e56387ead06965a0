"""Every link between the pages leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")])
_FENCE = re.compile(r"^ *(```|~~~)")
_LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
_CODE = re.compile(r"`[^`]*`")
_HEADING = re.compile(r"#{1,6} +(.*?)[ #]*$")
_NAMED = re.compile(r'<a id="([^"]+)"></a>')


def prose(text: str) -> Iterator[str]:
    """The lines outside code blocks."""
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield line


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@lru_cache
def anchors(page: Path) -> frozenset[str]:
    found: set[str] = set()
    for line in prose(page.read_text(encoding="utf-8")):
        heading = _HEADING.match(line)
        if heading:
            name = slug(heading[1])
            number = sum(1 for other in found if re.fullmatch(re.escape(name) + r"(-\d+)?", other))
            found.add(f"{name}-{number}" if number else name)
        found.update(_NAMED.findall(line))
    return frozenset(found)


def links(page: Path) -> Iterator[str]:
    """Where the page's links lead; one may be broken over two lines, but not over two paragraphs."""
    for paragraph in "\n".join(prose(page.read_text(encoding="utf-8"))).split("\n\n"):
        yield from _LINK.findall(_CODE.sub("", paragraph))


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / unquote(path)).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    """Each names a file that exists and, after #, a heading or a named place of that page."""
    assert broken_links(page) == []


def test_pages_are_found() -> None:
    """The search looks at the README and at the documentation."""
    names = {page.name for page in PAGES}
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "ordering.md", "http-api.md"} <= names


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    """Missing files and missing headings are told; other sites and code are left alone."""
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`: three\n## Twice\n## Twice\n[a](page.md#one-two-three) [b](#twice-1) [c](https://example.org)\n"
        "`[d](gone.md)` [e](gone.md) [f](page.md#gone) [g](#twice-2)\n```\n# Not a heading\n[h](gone.md)\n```\n"
        "[i](#not-a-heading) [broken over\ntwo lines](gone.txt)\n"
    )
    assert broken_links(page) == ["gone.md", "page.md#gone", "#twice-2", "#not-a-heading", "gone.txt"]
