"""Every reason word in the code is explained in the documentation, and none is explained that is gone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "millpond").rglob("*.py"))
PAGES = [ROOT / "docs" / name for name in ("ordering.md", "http-api.md", "flow.md")]
# Where in a call the reason stands, by what is called.
_POSITIONS = {
    **dict.fromkeys(("Verdict", "Result", "unsettled", "failure", "refuse", "RequestFault", "ends"), 1),
    **dict.fromkeys(("Poison", "InvalidEvent", "MalformedEnvelope", "UnroutableEvent"), 1),
    "_expire": 2,
}
_WORD = re.compile(r"[a-z][A-Za-z0-9_]*")


def texts(node: ast.AST | None) -> Iterator[str]:
    """The text an expression can be: a constant, or either side of a condition."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from texts(node.body)
        yield from texts(node.orelse)


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def first_arguments(tree: ast.AST, function: str) -> list[str]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and called(node) == function]
    return [text for call in calls for text in texts(call.args[0])]


def formatted(tree: ast.Module, wanted: ast.JoinedStr) -> Iterator[str]:
    """An f-string's words: its one value is its function's first parameter, so the calls say what it can be."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and any(node is wanted for node in ast.walk(function)):
            for text in first_arguments(tree, function.name):
                yield "".join(str(p.value) if isinstance(p, ast.Constant) else text for p in wanted.values)


def in_call(tree: ast.Module, node: ast.Call) -> Iterator[str]:
    for keyword in node.keywords:
        if keyword.arg == "reason":
            yield from texts(keyword.value)
            if isinstance(keyword.value, ast.JoinedStr):
                yield from formatted(tree, keyword.value)
    position = _POSITIONS.get(called(node))
    if position is not None and len(node.args) > position:
        yield from texts(node.args[position])


def in_class(node: ast.ClassDef) -> Iterator[str]:
    for line in node.body:
        if isinstance(line, ast.Assign) and [getattr(target, "id", "") for target in line.targets] == ["reason"]:
            yield from texts(line.value)


def in_function(node: ast.FunctionDef) -> Iterator[str]:
    if node.name.endswith("_reason"):
        for line in ast.walk(node):
            if isinstance(line, ast.Return):
                yield from texts(line.value)


def in_dictionary(node: ast.Dict) -> Iterator[str]:
    for key, value in zip(node.keys, node.values, strict=True):
        if "reason" in texts(key):
            yield from texts(value)


def reasons_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from in_call(tree, node)
        elif isinstance(node, ast.ClassDef):
            yield from in_class(node)
        elif isinstance(node, ast.FunctionDef):
            yield from in_function(node)
        elif isinstance(node, ast.Dict):
            yield from in_dictionary(node)


def reasons_in_code() -> dict[str, str]:
    """Each word, and a file it stands in."""
    return {
        word: source.name
        for source in SOURCES
        for word in reasons_in(ast.parse(source.read_text(encoding="utf-8")))
        if _WORD.fullmatch(word)
    }


def words_in_pages() -> set[str]:
    return {word for page in PAGES for word in re.findall(r"`([A-Za-z0-9_]+)`", page.read_text(encoding="utf-8"))}


def test_every_reason_is_explained() -> None:
    """A word that an operator finds in a log or an answer stands on one of three pages."""
    known = words_in_pages()
    assert {word: source for word, source in reasons_in_code().items() if word not in known} == {}


def test_no_reason_is_explained_that_is_gone() -> None:
    """Each word in the reason column of the tables, the second where the first is the outcome, is in the code."""
    text = (ROOT / "docs" / "ordering.md").read_text(encoding="utf-8")
    tables = text.partition("## Reason words")[2]
    rows = re.findall(r"^\| `(\w+)` \|(?: `(\w+)` \|)?", tables, flags=re.MULTILINE)
    explained = {second or first for first, second in rows}
    assert len(explained) > 30
    assert explained - reasons_in_code().keys() == set()


def test_the_search_finds_every_way_a_reason_is_written() -> None:
    """One word for each form in the code, so that the search cannot quietly find nothing."""
    forms = {
        "invalid_base64": "keyword",
        "missing_publishTime": "f-string",
        "unroutable_payload": "class attribute",
        "stale_event_ignored": "verdict",
        "duplicate_event_noop": "returned by a function",
        "too_old_to_count": "second argument of an error",
        "shutting_down": "result",
        "letter_refused": "unsettled",
        "contention": "expired tickets",
        "headers_too_large": "refused by the connection",
        "unauthorized": "refused by the API",
        "write_refused": "in a dictionary",
        "step_succeeded": "the end of a step",
    }
    assert forms.keys() - reasons_in_code().keys() == set()
