"""The example run and what docs/charts.md says about it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from millpond.charts.request import BARS_DEFAULT, BARS_MAX, REQUESTS_MAX, TIMEFRAMES
from millpond.charts.sources import SCAN_DOCUMENTS_MAX
from tests.charts.market import Bench, CountingStore, documents_of
from tests.charts.sample import lines, week

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "charts.md").read_text(encoding="utf-8")
EXAMPLE = json.loads((ROOT / "examples" / "flow_charts.json").read_bytes())


def without_what_varies(manifest: Any) -> Any:
    """The clock is another each time, and the bytes are with another version of matplotlib."""
    items = [{k: v for k, v in item.items() if k not in {"bytes", "sha256"}} for item in manifest["items"]]
    return {**manifest, "items": items, "createdAt": None}


def test_the_page_shows_the_manifest_of_the_example(tmp_path: Path) -> None:
    """The run of `examples/flow_charts.json` on the sample gives what is printed there."""
    step = EXAMPLE["steps"]["charts"]
    bench = Bench(
        tmp_path,
        CountingStore(documents_of(week())),
        symbol=EXAMPLE["scope"]["symbol"],
        environment={"CHARTS_DEFAULT_TIMEZONE": "America/New_York"},
    )
    bench.export(step["inputs"], timeframe=step["timeframe"])
    made = json.loads((bench.folder / "manifest.json").read_bytes())
    (shown,) = re.findall(r"```json\n(\{\n  \"schemaVersion\".*?)```", PAGE, re.DOTALL)
    expected = json.loads(shown) | {"runId": "run-1", "stepId": "draw"}
    assert without_what_varies(made) == without_what_varies(expected)


def test_the_example_is_a_run_that_waits_for_a_worker() -> None:
    """READY, of our type, with an id, a flow and a symbol."""
    (step,) = EXAMPLE["steps"].values()
    assert (step["stepType"], step["status"]) == ("CHART_EXPORT", "READY")
    assert {"runId", "flowKey", "scope"} <= set(EXAMPLE)


def test_the_sample_is_messages() -> None:
    """A week of sessions, one line for each minute."""
    messages = [json.loads(line) for line in lines()]
    assert len(messages) == 5 * 390
    assert messages[0]["topic"] == "market-bars-1m"


def test_the_page_knows_the_limits_and_every_code() -> None:
    """A limit or a code that changes has to change there too."""
    for number in (BARS_DEFAULT, BARS_MAX, REQUESTS_MAX, SCAN_DOCUMENTS_MAX):
        assert f"{number:,}" in PAGE
    for timeframe in TIMEFRAMES:
        assert f"`{timeframe}`" in PAGE
    sources = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "src" / "millpond" / "charts").glob("*.py")
    )
    codes = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', sources)) - {"CHART_EXPORT"}
    assert len(codes) >= 8
    assert {code for code in codes if f"`{code}`" not in PAGE} == set()
