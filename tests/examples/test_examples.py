"""The example of the docs, copied into an empty folder and run against the built wheel."""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib
import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from millpond.core.model import Put, Ref
from millpond.stores.sqlite.store import SqliteStore
from tests.common.pond import Pond, at, delivery
from tests.common.process import MILLPOND, run
from tests.common.server import Server

ROOT = Path(__file__).parents[2]
# Examples are written as a user would: without annotations.
Passages = importlib.import_module("examples.turnstiles").Passages
NEWER = '{"parcelId": "P7", "depot": "Lyon", "scannedAt": "2026-01-08T12:00:00Z"}'
OLDER = '{"parcelId": "P7", "depot": "Oslo", "scannedAt": "2026-01-08T11:00:00Z"}'


@pytest.fixture(scope="module")
def wheel_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `millpond` is the built wheel, not this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    python = [sys.executable, "-m"]
    build = [*python, "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    target = folder / "site"
    install = [*python, "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(target), sysconfig.get_path("purelib")])}


def example_from_docs(page: str = "views", name: str = "parcels") -> str:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    found = re.search(rf"<!-- example: {name}.py -->\n```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("page", "name", "lines_max"),
    [("views", "parcels", 14), ("flow", "invoices", 9), ("embedding", "fastapi_app", 12)],
)
def test_the_docs_show_the_example_as_it_is(page: str, name: str, lines_max: int) -> None:
    """A reader who copies gets the file: a view of at most 14 lines, a step of 9, a host application of 12."""
    code = example_from_docs(page, name)
    assert code == (ROOT / "examples" / f"{name}.py").read_text()
    assert len([line for line in code.splitlines() if line.strip()]) <= lines_max


def test_documents_of_another_program_are_taken_over_as_the_docs_say(tmp_path: Path) -> None:
    """The view of the page, on a store that holds an order: an older event is stale, a newer one is applied."""
    code = example_from_docs("cutover", "shop")
    assert code == (ROOT / "examples" / "shop.py").read_text()
    (tmp_path / "shop.py").write_text(code)
    store = SqliteStore(tmp_path / "shop.db")
    noon = dt.datetime(2026, 1, 8, 12, tzinfo=dt.UTC)
    there = Put(Ref("orders", "o-1"), None, {"status": "shipped", "updatedAt": noon})
    asyncio.run(store.commit([there]))
    asyncio.run(store.close())
    environment = {**os.environ, "STORE": f"sqlite:{tmp_path / 'shop.db'}"}

    def publish(server: Server, status: str, at: str) -> Any:
        data = json.dumps({"orderId": "o-1", "status": status, "changedAt": at})
        command = [*MILLPOND, "publish", "--url", server.url, "--topic", "orders", "--data", data, "--json"]
        return run(command, tmp_path, environment).json["reason"]

    doctor = run([*MILLPOND, "doctor", "--views", "shop", "--json"], tmp_path, environment).json
    assert [one["found"] for one in doctor["findings"] if one["check"] == "documents"] == [
        "1 document of orders written by another program, and adopted"
    ]
    with Server(tmp_path, environment, [*MILLPOND, "serve", "--views", "shop", "--port", "0"]) as server:
        assert publish(server, "packed", "2026-01-08T11:00:00Z") == "stale_event_ignored"
        assert publish(server, "returned", "2026-01-08T13:00:00Z") == "applied"


def test_a_step_from_the_docs_runs_on_the_built_wheel(tmp_path: Path, wheel_environment: dict[str, str]) -> None:
    """Copied into an empty folder with its run: the first step adds up, the second says why it cannot."""
    (tmp_path / "invoices.py").write_text(example_from_docs("flow", "invoices"))
    invoice = (ROOT / "examples" / "flow_invoice.json").read_bytes()
    local = [*MILLPOND, "flow", "run-local", "-", "--steps", "invoices", "--json"]
    done = run(local, tmp_path, wheel_environment, stdin=invoice)
    assert done.code == 1, done
    steps = done.json["data"]["steps"]
    assert (steps["1-add-up"]["status"], steps["1-add-up"]["outputs"]) == ("SUCCEEDED", {"total": 41})
    assert (steps["2-again"]["status"], steps["2-again"]["error"]["code"]) == ("FAILED", "EMPTY_INVOICE")
    assert not (tmp_path / "var").exists()


def test_a_view_from_the_docs_runs_on_the_built_wheel(tmp_path: Path, wheel_environment: dict[str, str]) -> None:
    """Copied into an empty folder: served, fed out of order, read back, deleted."""
    (tmp_path / "parcels.py").write_text(example_from_docs())

    def millpond(*arguments: str) -> Any:
        return run([*MILLPOND, *arguments, "--json"], tmp_path, wheel_environment).json

    where = "import millpond; print(millpond.__file__)"
    assert str(ROOT / "src") not in run([sys.executable, "-c", where], tmp_path, wheel_environment).out
    serve = [*MILLPOND, "serve", "--views", "parcels", "--port", "0"]
    store = {"STORE": "sqlite:var/millpond.db"}
    with Server(tmp_path, {**wheel_environment, **store}, serve) as server:
        publish = ("publish", "--url", server.url, "--topic", "parcel-scans", "--data")
        assert [millpond(*publish, data)["reason"] for data in (NEWER, OLDER)] == ["applied", "stale_event_ignored"]
        assert millpond("get", "parcels/P7")["data"]["depot"] == "Lyon"
        delivered = '{"parcelId": "P7", "status": "delivered", "scannedAt": "2026-01-08T13:00:00Z"}'
        assert millpond(*publish, delivered)["reason"] == "applied"
        assert millpond("get", "parcels/P7")["data"]["deleted"] is True


@pytest.mark.parametrize(
    ("sent", "people"),
    [
        ([3, 3], 6),
        (["3", 3], 6),
        ([3, "3"], 6),
        (["3", "3"], 6),
        ([3.0, "3"], 6),
        ([None, "2"], 3),
        ([0, "5"], 5),
    ],
    ids=repr,
)
def test_a_tally_of_the_examples_adds_numbers_that_were_sent_as_text(sent: list[Any], people: int) -> None:
    """Producers send "3" as often as 3; the sum is an integer all the same, in every order."""
    for values in (sent, sent[::-1]):
        pond = Pond([Passages()])
        for number, value in enumerate(values):
            passage = {"station": "Oslo", "day": "2026-01-08", "people": value, "passedAt": at(number)}
            pond.send(delivery(passage, f"m{number}", attributes={"topic": "turnstiles"}))
        total = pond.get("passages_by_day/Oslo__2026-01-08")["people"]
        assert (type(total), total) == (int, people)


@pytest.mark.parametrize("value", ["three", True, 2.5, [3], {"n": 3}], ids=repr)
def test_a_tally_of_the_examples_buries_what_is_no_number(value: Any) -> None:
    """It is poison that names the field, not a bug of the view."""
    passage = {"station": "Oslo", "day": "2026-01-08", "people": value, "passedAt": at(0)}
    (result,) = Pond([Passages()]).send(delivery(passage, attributes={"topic": "turnstiles"}))
    assert (result.outcome, result.reason) == ("poison", "invalid_event")
    assert "people must be a whole number" in str(result.error)
