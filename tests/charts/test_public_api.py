"""CHART_EXPORT is a step module like a user's: written on the public API, and unknown to the flow worker."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import millpond

PACKAGE = Path(millpond.__file__).parent
CHARTS = "millpond.charts"


def forbidden(code: str) -> list[str]:
    """What a module imports of Millpond that is neither public nor part of the charts."""
    return [name for name in _imports(code) if not _is_allowed(name)]


def _imports(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _is_allowed(name: str) -> bool:
    if name.startswith("."):
        return False
    if name.split(".", maxsplit=1)[0] != "millpond" or f"{name}.".startswith(f"{CHARTS}."):
        return True
    return name.removeprefix("millpond.") in millpond.__all__


def test_charts_import_only_the_public_api_and_each_other() -> None:
    """What the step needs, any user's step can have."""
    files = sorted((PACKAGE / "charts").glob("*.py"))
    assert {"__init__.py", "draw.py", "step.py"} <= {file.name for file in files}
    assert {file.name: bad for file in files if (bad := forbidden(file.read_text(encoding="utf-8")))} == {}


def test_a_private_import_is_noticed() -> None:
    """In each of its forms, also within a function."""
    for code in (
        "import millpond.core.ids",
        "import millpond",
        "from millpond import settings",
        "from millpond.core.ids import encode_id",
        "from ..core import ids",
        "def f():\n    from millpond.flow.step import ClaimLost",
    ):
        assert len(forbidden(code)) == 1
    assert forbidden("import json\nfrom millpond import step\nfrom millpond.charts import files") == []


def test_the_flow_worker_does_not_know_of_charts() -> None:
    """No module, comment or text in it mentions them: it is given step modules by name."""
    files = sorted((PACKAGE / "flow").rglob("*.py"))
    assert len(files) > 10
    for file in files:
        text = file.read_text(encoding="utf-8").lower()
        assert [word for word in ("chart", "candle", "matplotlib") if word in text] == [], file.name
