"""The folder of `millpond new` where only the built wheel and pytest are installed: each command of its README."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.common.process import ROOT, Ran, run
from tests.common.server import Server
from tests.docs.test_deploy import DOCKERFILE, pins

INSTALL_S = 180.0


class Wheel(NamedTuple):
    """An environment with the wheel, and the folder that its `millpond new shop` made."""

    binaries: Path
    shop: Path

    def run(self, *command: str, folder: Path | None = None, **settings: str) -> Ran:
        return run(command, self.shop if folder is None else folder, self.environment(settings))

    def environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        return {"PATH": f"{self.binaries}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": "", **settings}

    def serve(self, folder: Path, **settings: str) -> Server:
        own = {"STORE": "sqlite:var/millpond.db", **settings}
        return Server(folder, self.environment(own), [str(self.binaries / "millpond"), "serve"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """The dependencies have the versions of the lock, so that a release of today breaks no test of yesterday."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    versions = folder / "versions.txt"
    versions.write_text("\n".join(sorted(pins("requirements.lock"))))
    python = folder / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(python.parents[1])], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    install = [*pip, "--constraint", str(versions), str(built), "pytest"]
    subprocess.run(install, check=True, timeout=INSTALL_S, stdout=sys.stderr)
    made = Wheel(python.parent, folder / "shop")
    assert made.run("millpond", "new", "shop", folder=folder).code == 0
    return made


def blocks(wheel: Wheel, heading: str) -> list[str]:
    """The shell commands below a heading of the README, block by block."""
    text = (wheel.shop / "README.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def test_only_the_wheel_and_pytest_are_there(wheel: Wheel) -> None:
    """Neither this checkout nor an extra is within reach of what follows."""
    where = "import millpond, sys; print(millpond.__file__, *sys.path, sep='\\n')"
    assert str(ROOT) not in wheel.run("python", "-c", where).out
    assert wheel.run("python", "-c", "import importlib.util as u; print(u.find_spec('matplotlib'))").out == "None\n"


def test_its_tests_pass(wheel: Wheel) -> None:
    """By pytest, and by `millpond test`, as the README says; the bad sample is the only poison."""
    install, *commands = blocks(wheel, "Test it")[0].splitlines()
    assert install == "pip install pytest"
    assert commands[0] == "pytest"
    ran = wheel.run("pytest")
    assert (ran.code, "2 passed" in ran.out) == (0, True), ran
    ran = wheel.run("sh", "-ec", commands[1])
    assert (ran.code, ran.err) == (0, ""), ran
    assert "5 applied, 1 poison; 2 documents" in ran.out


def test_its_view_serves_what_the_readme_says(wheel: Wheel) -> None:
    """Fed with the samples, read, explained, and its dead letter corrected, each command pasted as it stands."""
    serve, feed = blocks(wheel, "Serve it")
    assert serve.splitlines()[-1] == "millpond serve"
    look, correct = blocks(wheel, "Correct a dead letter")
    settings = dict(re.findall(r"(\w+)=(\w+)", serve))
    with wheel.serve(wheel.shop, **settings) as server:
        ran = wheel.run("sh", "-c", feed)
        assert ran.code == 0, ran
        assert "stale_event_ignored" in ran.out
        orders = [server.document(f"shop/o-{number}") for number in (1, 2, 3)]
        assert [order and order["status"] for order in orders] == ["paid", "paid", None]
        ran = wheel.run("sh", "-ec", look)
        assert (ran.code, "items must be a whole number" in ran.out) == (0, True), ran
        # In the same terminal, where the settings were exported.
        ran = wheel.run("sh", "-ec", f"{feed.splitlines()[0]}\n{correct}")
        assert ran.code == 0, ran
        order = server.document("shop/o-3")
        assert order is not None
        assert (order["items"], order["total"]) == (3, "7.50")
        assert [letter["state"] for letter in server.letters()] == ["succeeded"]


def test_its_image_carries_the_view(wheel: Wheel, tmp_path: Path) -> None:
    """Each step of its Dockerfile, on a folder in the image's place; Millpond's own command then serves it."""
    text = (wheel.shop / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    assert [step for step, _ in steps] == ["ARG", "FROM", "COPY", "ENV"]
    (_, argument), (_, base), (_, copy), (_, variables) = steps
    assert base == f"${{{argument.partition('=')[0]}}}"
    source, target = copy.split()
    ignored = (wheel.shop / ".dockerignore").read_text(encoding="utf-8").split()
    assert ignored[-2:] == ["*", f"!{source}"]
    inside = tmp_path / target.strip("/")
    inside.mkdir(parents=True)
    shutil.copy(wheel.shop / source, inside)
    settings = dict(pair.split("=") for pair in variables.split())
    assert settings == {"PYTHONPATH": target.rstrip("/"), "VIEWS": "shop", "BUILT_IN_VIEWS": "none"}
    # Neither in the working folder, which a volume may hide, nor instead of the command.
    assert "\nWORKDIR /data\n" in DOCKERFILE
    assert not target.startswith("/data")
    data = tmp_path / "data"
    data.mkdir()
    with wheel.serve(data, **{**settings, "PYTHONPATH": str(inside)}) as server:
        event = {"orderId": "o-9", "changedAt": "2026-01-08T12:00:00Z", "status": "new"}
        answer = server.send(event, attributes={"topic": "shop-events"})
        assert (answer.status, answer.json["reason"]) == (200, "applied"), answer
        assert server.document("shop/o-9") is not None


def test_its_samples_have_each_kind_of_trouble(wheel: Wheel, tmp_path: Path) -> None:
    """A duplicate, a late event and a bad message, which a reader sees become what the README says."""
    shutil.copytree(wheel.shop, tmp_path / "again", ignore=shutil.ignore_patterns("var", "__pycache__"))
    ran = wheel.run("millpond", "ingest", "events.jsonl", "--json", folder=tmp_path / "again", VIEWS="shop")
    assert ran.code == 1
    assert json.loads(ran.out)["outcomes"] == {"applied": 3, "duplicate": 1, "stale_ignored": 1, "poison": 1}
