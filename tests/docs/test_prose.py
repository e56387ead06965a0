"""The words of source, tests and pages, where no linter has a rule for them.

Actors are named, rules are stated instead of numbered, and a page explains our words, or leads to the glossary.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "proof", "benchmarks", "examples")
TEXTS = {".py", ".js", ".json", ".html", ".css"}
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in TEXTS)
# A topic that the simulation draws, where another name would draw another world; and this file.
DATA = {"src/millpond/sim/facts.py", "tests/docs/test_prose.py"}
_ACTORS = re.compile(r"\b(?:nobody|somebody|whoever|anybody|everybody)\b", re.IGNORECASE)
_NUMBERS = re.compile(r"\bspecification 0\d\d\b|\b00[0-9](?='s\b| says\b)", re.IGNORECASE)
# What visitors read: pages, and the comments of what they deploy.
VISITED = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**/*.md", "*/README.md", "infra/**/*", "compose.yaml"),
    *("Dockerfile", "Makefile", "mkdocs.yml"),
)
PAGES = sorted({path for pattern in VISITED for path in ROOT.glob(pattern) if path.is_file()})
_INTERNAL = re.compile(
    r"(?<![\w.,:/_+-])0\d\d(?![\w.,:_-]*\d)|\bT-\d{3}\b|\bthe (?:specification|spec|brief)\b|\boption [A-F]\b"
    r"|\bphase [1-9]\b|\bcloudrun_consumer\b|\bproducers\.json\b",
    re.IGNORECASE,
)
# Words of the glossary that a visitor cannot know, by their anchors. Pub/Sub's dead-letter topics are not ours.
WORDS = {
    "view": r"views?",
    "letter": r"(?<!dead-)(?:dead )?letters?",
    "bury": r"bur(?:y|ied|ies|ying)",
    "stamp": r"stamps?",
    "receipt": r"receipts?",
    "poison": r"poison",
    "fold": r"fold(?:s|ed)?",
    "tally": r"tall(?:y|ies)",
    "waiting-room": r"waiting room",
    "total-order": r"total order",
    "adopt": r"adopt(?:s|ed)?",
}
# The glossary itself, and pages that a program writes.
_UNLINKED = {"glossary.md", "benchmarks.md", "settings.md"}
EXPLAINING = [ROOT / "README.md", *(path for path in sorted(ROOT.glob("docs/*.md")) if path.name not in _UNLINKED)]
_NOT_TEXT = re.compile(r"^ *```.*?^ *```$|^#.*?$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`|<[^>\n]*>")
# A link leads to more, and what is emphasised is explained there.
_EXPLAINED = re.compile(r"\[[^\[\]]*\]\([^()\s]*\)|\*\*?[^*\n]+\*\*?")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def faults_of(text: str) -> list[str]:
    return [
        f"line {number}: {found[0]}"
        for number, line in enumerate(text.splitlines(), start=1)
        for pattern in (_ACTORS, _NUMBERS)
        for found in pattern.finditer(line)
    ]


@pytest.mark.parametrize("path", [path for path in FILES if name_of(path) not in DATA], ids=name_of)
def test_a_text_names_its_actors_and_rules(path: Path) -> None:
    """A sentence names the engine, the client or the operator, and states a rule instead of its number."""
    assert faults_of(path.read_text(encoding="utf-8")) == []


def blanked(pattern: re.Pattern[str], text: str) -> str:
    """The text with spaces for what is found, so that all else keeps its place."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def unexplained(text: str) -> list[str]:
    """The words whose first use on a page is neither a link nor emphasised."""
    text = blanked(_NOT_TEXT, text)
    explained = [found.span() for found in _EXPLAINED.finditer(text)]
    prose = blanked(_CODE, text)
    uses = {word: re.search(rf"\b{form}\b", prose, re.IGNORECASE) for word, form in WORDS.items()}
    return [
        f"line {text.count(chr(10), 0, use.start()) + 1}: {use[0]} (glossary.md#{word})"
        for word, use in uses.items()
        if use is not None and not any(start <= use.start() < end for start, end in explained)
    ]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_page_presumes_no_document_of_ours(path: Path) -> None:
    """Visitors have not read what Millpond was built from: no page names it, or a part of it."""
    found = _INTERNAL.findall(path.read_text(encoding="utf-8"))
    assert found == []


@pytest.mark.parametrize("path", EXPLAINING, ids=name_of)
def test_a_page_explains_our_words(path: Path) -> None:
    """A visitor may open any page first: the first use of each word is explained, or leads to where it is."""
    assert unexplained(path.read_text(encoding="utf-8")) == []


def test_an_unexplained_word_is_noticed() -> None:
    """In a sentence or a cell of a table; not in code, headings, links, or where it is explained."""
    text = "# Letters\n`stamp` [stamps](x.md) stamp\n*Poison*: poison\n```\nfold\n```\n| receipt |\n"
    assert unexplained(text) == ["line 7: receipt (glossary.md#receipt)"]
    assert unexplained("A view.\nBuried letters.") == [
        "line 1: view (glossary.md#view)",
        "line 2: letters (glossary.md#letter)",
        "line 2: Buried (glossary.md#bury)",
    ]


def test_an_internal_document_is_noticed() -> None:
    """By its number or its name; figures, dates, ids and ports are none."""
    told = "as 002 has it; 001 option B; 004's rule (003) T-003, The specification says; phase 1"
    assert len(_INTERNAL.findall(told)) == 8
    assert (
        _INTERNAL.findall("0.001, 1,002, 2026-01-08T12:00:00.004Z, m-003, 10_000, 127.0.0.1:002, 0x004, GPT-4")
        == []
    )


def test_each_fault_is_noticed() -> None:
    """Each word and each form of a number, in any case, once per place; other numbers are fine."""
    text = (
        "Nobody waits.\nfor whoever asks, and anybody\nas Specification 004 has it\n004 says 10, 002's order\n0.004"
    )
    assert faults_of(text) == [
        "line 1: Nobody",
        "line 2: whoever",
        "line 2: anybody",
        "line 3: Specification 004",
        "line 4: 004",
        "line 4: 002",
    ]


def test_files_are_found() -> None:
    """The search looks at code, pages and data."""
    wanted = {"src/millpond/core/plan.py", "src/millpond/alerts/alerts.json", "tests/core/test_plan.py"}
    assert wanted <= {name_of(path) for path in FILES}
    assert {"README.md", "docs/views.md", "proof/README.md", "infra/terraform/dlq.tf"} <= {
        name_of(path) for path in PAGES
    }
