"""The step as a worker runs it: bars in the store → files, manifest, outputs, or a failure that says what to do."""

from __future__ import annotations

import asyncio
import hashlib
import io
import itertools
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from millpond.charts import draw as drawing
from millpond.charts import files
from millpond.charts.step import chart_export
from millpond.charts.times import MINUTE_US
from millpond.core import timestamps
from millpond.core.errors import StepFailed
from millpond.flow.step import TYPES_ATTRIBUTE, ClaimLost
from tests.charts.market import OPEN, Bench, CountingStore, documents_of, walk

SESSION = documents_of(walk(390))
NOW = OPEN + 400 * MINUTE_US


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, CountingStore(SESSION), now=NOW)


def manifest_of(bench: Bench) -> Any:
    return json.loads((bench.folder / "manifest.json").read_bytes())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_does_the_steps_of_its_type() -> None:
    """The registry finds it by what `@step` left."""
    assert getattr(chart_export, TYPES_ATTRIBUTE) == ("CHART_EXPORT",)


def test_without_inputs_it_draws_the_last_120_minutes(bench: Bench) -> None:
    """One picture, one manifest, small outputs with paths below ARTIFACTS_DIR."""
    assert bench.export() == {
        "manifest": "run-1/draw/manifest.json",
        "images": ["run-1/draw/01-SPY-1m.png"],
        "succeeded": 1,
        "failed": 0,
    }
    assert names_in(bench.folder) == ["01-SPY-1m.png", "manifest.json"]
    (item,) = manifest_of(bench)["items"]
    assert item["bars"] == 120
    assert item["from"] == timestamps.to_text(OPEN + 270 * MINUTE_US)
    assert item["to"] == timestamps.to_text(OPEN + 390 * MINUTE_US)


def test_the_manifest_says_what_was_asked_what_is_there_and_what_is_not(bench: Bench) -> None:
    """Exactly these fields, and they are true of the files."""
    requests = [
        {"timeframe": "5m", "from": "2026-01-08T14:30:00Z", "to": "2026-01-08T17:02:00Z"},
        {"timeframe": "3m", "chartTemplateId": "working"},
        {"to": "2026-01-08T15:00:00Z", "chartTemplateId": "dark"},
        {"from": "2027-01-01T00:00:00Z"},
    ]
    outputs = bench.export({"minImages": 2, "requests": requests}, timeframe="15m")
    assert (outputs["succeeded"], outputs["failed"]) == (2, 2)
    assert outputs["images"] == ["run-1/draw/01-SPY-5m.png", "run-1/draw/03-SPY-15m-dark.png"]
    manifest = manifest_of(bench)
    items, failures = manifest.pop("items"), manifest.pop("failures")
    assert list(manifest.items()) == [
        ("schemaVersion", 1),
        ("runId", "run-1"),
        ("stepId", "draw"),
        ("createdAt", timestamps.to_text(NOW)),
        ("symbol", "SPY"),
        ("timeframe", "15m"),
        ("minImages", 2),
        ("requested", 4),
    ]
    for item in items:
        content = (bench.folder / item["file"]).read_bytes()
        assert item.pop("sha256") == hashlib.sha256(content).hexdigest()
        assert item.pop("bytes") == len(content)
        assert (item.pop("width"), item.pop("height")) == Image.open(io.BytesIO(content)).size
    assert items == [
        {
            "index": 1,
            "file": "01-SPY-5m.png",
            "timeframe": "5m",
            "from": "2026-01-08T14:30:00Z",
            "to": "2026-01-08T17:05:00Z",
            "bars": 31,
            "skipped": 0,
            "chartTemplateId": None,
        },
        {
            "index": 3,
            "file": "03-SPY-15m-dark.png",
            "timeframe": "15m",
            "from": "2026-01-08T14:30:00Z",
            "to": "2026-01-08T15:00:00Z",
            "bars": 2,
            "skipped": 0,
            "chartTemplateId": "dark",
        },
    ]
    assert [(f.pop("message")[:25], f) for f in failures] == [
        (
            "timeframe must be one of ",
            {"index": 2, "timeframe": None, "chartTemplateId": "working", "code": "INVALID_REQUEST"},
        ),
        (
            "the run's symbol has no b",
            {"index": 4, "timeframe": "15m", "chartTemplateId": None, "code": "NO_BARS"},
        ),
    ]


@pytest.mark.parametrize(
    ("fields", "first", "count"),
    [
        ({"from": "2026-01-08T15:00:00Z"}, 30, 120),
        ({"to": "2026-01-08T17:00:00Z"}, 30, 120),
        ({"to": "2026-01-08T15:00:00Z"}, 0, 30),
        ({"from": "2026-01-08T20:00:00Z"}, 330, 60),
        ({"from": "2026-01-08T15:00:00Z", "to": "2026-01-08T15:01:00Z"}, 30, 1),
    ],
)
def test_one_end_given_means_120_bars_from_there(
    bench: Bench, fields: dict[str, Any], first: int, count: int
) -> None:
    """Or as many as there are."""
    bench.export({"requests": [fields]})
    (item,) = manifest_of(bench)["items"]
    assert item["bars"] == count
    assert item["from"] == timestamps.to_text(OPEN + first * MINUTE_US)


@pytest.mark.parametrize("bars_id", ["natural", "nested", "event"])
def test_bars_are_found_however_they_are_named(tmp_path: Path, bars_id: str) -> None:
    """The same minutes give the same bytes."""
    store = CountingStore(
        documents_of(walk(200), " btc/usd", bars_id), documents_of(walk(9, seed=9), "BTC", bars_id)
    )
    bench = Bench(tmp_path, store, symbol="btc/usd ", now=NOW, environment={"BARS_ID": bars_id})
    assert bench.export()["images"] == ["run-1/draw/01-BTC_USD-1m.png"]
    chart = drawing.Chart(symbol="BTC/USD", timeframe="1m", bars=walk(200)[-120:], zone="UTC")
    assert (bench.folder / "01-BTC_USD-1m.png").read_bytes() == drawing.draw(chart).png


def test_times_are_written_in_the_zone_of_the_setting(bench: Bench) -> None:
    """CHARTS_DEFAULT_TIMEZONE makes another picture."""
    bench.export()
    utc = (bench.folder / "01-SPY-1m.png").read_bytes()
    bench.environment["CHARTS_DEFAULT_TIMEZONE"] = "America/New_York"
    bench.export()
    chart = drawing.Chart(symbol="SPY", timeframe="1m", bars=walk(390)[-120:], zone="America/New_York")
    assert (bench.folder / "01-SPY-1m.png").read_bytes() == drawing.draw(chart).png != utc


def test_bad_bars_are_skipped_and_counted(bench: Bench) -> None:
    """A price that is missing is no reason to draw nothing."""
    documents = documents_of(walk(10))
    del documents[min(documents)]["close"]
    bench.store = CountingStore(documents)
    bench.export()
    (item,) = manifest_of(bench)["items"]
    assert (item["bars"], item["skipped"]) == (9, 1)
    for document in documents.values():
        document["low"] = None
    bench.store = CountingStore(documents)
    with pytest.raises(StepFailed, match="has no bars; 10 could not be used"):
        bench.export()


def test_doing_it_again_gives_the_same_files(bench: Bench) -> None:
    """Byte for byte, under the same names, with nothing beside them; only createdAt moves."""
    inputs = {"requests": [{}, {"timeframe": "5m", "chartTemplateId": "dark"}]}
    bench.export(inputs)
    before = {path.name: path.read_bytes() for path in bench.folder.iterdir()}
    (bench.folder / ".02-SPY-5m-dark.png.0badf00d.tmp").write_bytes(b"half")
    bench.now += 17_000_000
    bench.export(inputs)
    after = {path.name: path.read_bytes() for path in bench.folder.iterdir()}
    assert {name: text for name, text in before.items() if name != "manifest.json"} == {
        name: text for name, text in after.items() if name != "manifest.json"
    }
    created = [json.loads(found["manifest.json"])["createdAt"] for found in (before, after)]
    assert created[0] < created[1]


def test_too_few_images_fail_the_step_and_the_manifest_is_there(bench: Bench) -> None:
    """By default all must succeed; what was drawn stays, and the text leads on."""
    inputs: dict[str, Any] = {"requests": [{}, {"timeframe": "2h"}, {"from": "2027-01-01T00:00:00Z"}]}
    with pytest.raises(StepFailed) as failed:
        bench.export(inputs)
    assert failed.value.code == "TOO_FEW_IMAGES"
    assert str(failed.value) == (
        "1 of 3 charts were drawn and minImages is 3; request 2: timeframe must be one of 1m, 5m, 15m, 1h; "
        "see run-1/draw/manifest.json"
    )
    assert names_in(bench.folder) == ["01-SPY-1m.png", "manifest.json"]
    with pytest.raises(StepFailed):
        bench.export({**inputs, "minImages": 2})
    assert bench.export({**inputs, "minImages": 1})["succeeded"] == 1


def test_no_images_may_be_enough(bench: Bench) -> None:
    """With minImages 0 the attempt is enough."""
    outputs = bench.export({"minImages": 0, "requests": [{"timeframe": "x"}]})
    assert outputs == {"manifest": "run-1/draw/manifest.json", "images": [], "succeeded": 0, "failed": 1}


@pytest.mark.parametrize(
    ("symbol", "inputs", "code"),
    [
        (None, {}, "MISSING_SYMBOL"),
        ("SPY", [], "INVALID_INPUTS"),
        ("SPY", {"minImages": 9}, "INVALID_INPUTS"),
        ("🚀" * 500, {}, "INVALID_INPUTS"),
    ],
)
def test_what_makes_no_sense_leaves_no_files(bench: Bench, symbol: Any, inputs: Any, code: str) -> None:
    """It is refused before anything is made."""
    bench.symbol = symbol
    with pytest.raises(StepFailed) as failed:
        bench.export(inputs)
    assert failed.value.code == code
    assert not bench.folder.exists()


def test_a_symbol_may_be_anything(bench: Bench) -> None:
    """Its name is made safe for the file, and is in the manifest as it is."""
    symbol = "$\\FRAC{1}{0}\n../🚀"
    bench.store = CountingStore(documents_of(walk(5), symbol))
    bench.symbol = symbol
    assert bench.export()["images"] == ["run-1/draw/01-_FRAC_1_0_.._-1m.png"]
    assert manifest_of(bench)["symbol"] == symbol


def test_nothing_is_published_after_the_claim_is_lost(bench: Bench) -> None:
    """Asked before each file: the first is there, the second is not, and neither is a manifest."""
    answers = itertools.chain([False, False], itertools.repeat(True))
    bench.is_lost = lambda: next(answers)
    with pytest.raises(ClaimLost):
        bench.export({"requests": [{}, {}]})
    assert names_in(bench.folder) == ["01-SPY-1m.png"]


def test_a_folder_that_cannot_be_written_is_told(bench: Bench) -> None:
    """With its path and what to do."""
    (bench.root / "run-1").write_bytes(b"")
    with pytest.raises(StepFailed, match="ARTIFACTS_DIR") as failed:
        bench.export()
    assert failed.value.code == "ARTIFACTS_NOT_WRITABLE"


def test_the_event_loop_is_never_blocked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """While something is drawn or written, the loop still answers: each waits here until it did."""
    seen: list[str] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        def watched(name: str, function: Any) -> Any:
            def wait_for_the_loop(*arguments: Any) -> Any:
                answered = threading.Event()
                loop.call_soon_threadsafe(answered.set)
                assert answered.wait(10)
                seen.append(name)
                return function(*arguments)

            return wait_for_the_loop

        for module, name in ((drawing, "draw"), (files, "publish"), (files, "make_folder")):
            monkeypatch.setattr(module, name, watched(name, getattr(module, name)))
        await chart_export(bench.context())

    asyncio.run(scenario())
    assert seen == ["make_folder", "draw", "publish", "publish"]


def test_without_matplotlib_it_says_what_to_install(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the worker was told to do it all the same."""
    monkeypatch.setitem(sys.modules, "millpond.charts.draw", None)
    with pytest.raises(StepFailed, match=r"pip install 'millpond\[charts\]'") as failed:
        bench.export()
    assert failed.value.code == "CHARTS_NOT_INSTALLED"


def test_matplotlib_is_not_loaded_before_something_is_drawn() -> None:
    """A worker that draws nothing neither needs it nor waits for it."""
    code = (
        "import sys, millpond.charts.step, millpond.charts.files, millpond.charts.labels; "
        "sys.exit(any(name.partition('.')[0] in {'matplotlib', 'numpy', 'PIL'} for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
