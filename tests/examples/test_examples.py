"""The example of the docs, copied into an empty folder and run against the built wheel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize(("page", "name", "lines_max"), [("views", "parcels", 14), ("flow", "invoices", 9)])
def test_the_docs_show_the_example_as_it_is(page: str, name: str, lines_max: int) -> None:
    """Whoever copies from the page gets the file: under fifteen lines of code for a view, under ten for a step."""
    code = example_from_docs(page, name)
    assert code == (ROOT / "examples" / f"{name}.py").read_text()
    assert len([line for line in code.splitlines() if line.strip()]) <= lines_max


def test_a_step_from_the_docs_runs_on_the_built_wheel(tmp_path: Path, wheel_environment: dict[str, str]) -> None:
    """Copied into an empty folder with its run: the first step adds up, the second says why it cannot."""
    (tmp_path / "invoices.py").write_text(example_from_docs("flow", "invoices"))
    run = (ROOT / "examples" / "flow_invoice.json").read_text()
    command = [sys.executable, "-m", "millpond", "flow", "run-local", "-", "--steps", "invoices", "--json"]
    done = subprocess.run(
        command, cwd=tmp_path, env=wheel_environment, input=run, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    steps = json.loads(done.stdout)["data"]["steps"]
    assert (steps["1-add-up"]["status"], steps["1-add-up"]["outputs"]) == ("SUCCEEDED", {"total": 41})
    assert (steps["2-again"]["status"], steps["2-again"]["error"]["code"]) == ("FAILED", "EMPTY_INVOICE")
    assert not (tmp_path / "var").exists()


def test_a_view_from_the_docs_runs_on_the_built_wheel(tmp_path: Path, wheel_environment: dict[str, str]) -> None:
    """Copied into an empty folder: served, fed out of order, read back, deleted."""
    (tmp_path / "parcels.py").write_text(example_from_docs())

    def millpond(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "millpond", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=wheel_environment, capture_output=True, text=True, check=False
        )

    where = "import millpond; print(millpond.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where],
        cwd=tmp_path,
        env=wheel_environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(ROOT / "src") not in found.stdout

    serve = [sys.executable, "-m", "millpond", "serve", "--views", "parcels", "--port", "0"]
    with subprocess.Popen(serve, cwd=tmp_path, env=wheel_environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = re.search(r"http://\S+", server.stdout.readline())
            assert url is not None
            publish = ("publish", "--url", url[0], "--topic", "parcel-scans", "--json", "--data")
            reasons = [json.loads(millpond(*publish, data).stdout)["reason"] for data in (NEWER, OLDER)]
            assert reasons == ["applied", "stale_event_ignored"]
            document = json.loads(millpond("get", "parcels/P7", "--json").stdout)
            assert document["data"]["depot"] == "Lyon"
            delivered = '{"parcelId": "P7", "status": "delivered", "scannedAt": "2026-01-08T13:00:00Z"}'
            assert json.loads(millpond(*publish, delivered).stdout)["reason"] == "applied"
            assert json.loads(millpond("get", "parcels/P7", "--json").stdout)["data"]["deleted"] is True
        finally:
            server.terminate()
            server.wait(timeout=10)
