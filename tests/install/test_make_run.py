"""`make run` in a fresh copy of the tree: what it installs, how long it takes, and what works with that alone."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.common.process import ROOT, Process, Ran, run
from tests.common.server import Server
from tests.docs.test_deploy import pins

# A slow network must not fail the test; the time is printed at the end of every run (`measured:`).
START_MAX_S = 300.0
# 60 MB were measured with Python 3.11; everything together has more than 600.
SIZE_MAX_MB = 75.0
# Of the package index and the proxy, which a machine may need. MAKEFLAGS would hand our own make's variables on.
_LENT = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_", "REQUESTS_CA_")
_IMPORT_ALL = """
import importlib
from millpond.cli.root import COMMANDS
for entry in COMMANDS.values():
    importlib.import_module(f"millpond.cli.{entry.module}")
"""
ORDERS = """
from millpond import Latest

class Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"
    time = "at"

    def document(self, event):
        return {"status": event.require("status")}
"""


class FreshServer(Server):
    """A server whose start installs its packages first."""

    start_s = START_MAX_S


class Copy(NamedTuple):
    """A copy of the tree in which `make run` has served once."""

    folder: Path
    environment: dict[str, str]
    seconds: float

    @property
    def packages(self) -> set[str]:
        found = (self.folder / ".venv").glob("lib/python*/site-packages/*.dist-info")
        return {path.name.partition("-")[0].lower().replace("_", "-") for path in found}

    @property
    def megabytes(self) -> float:
        paths = (self.folder / ".venv").rglob("*")
        return sum(path.lstat().st_size for path in paths if not path.is_dir()) / 1e6

    def make(self, *arguments: str) -> Ran:
        command = ["make", "--no-print-directory", *arguments]
        return run(command, self.folder, self.environment, timeout_s=START_MAX_S)

    def millpond(self, *arguments: str, **settings: str) -> Ran:
        command = [str(self.folder / ".venv" / "bin" / "millpond"), *arguments]
        return run(command, self.folder, {**self.environment, **settings})


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """What a clone has: everything but what .gitignore names, changes that are not committed included."""
    folder = tmp_path_factory.mktemp("clone") / "millpond"
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().split()]
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", *ignored))
    environment = {name: value for name, value in os.environ.items() if name.upper().startswith(_LENT)}
    started = time.monotonic()
    with FreshServer(folder, {**environment, "STORE": "sqlite:var/millpond.db"}, ["make", "run"]) as server:
        assert server.get("/live").status == 200
        seconds = time.monotonic() - started
    yield Copy(folder, environment, seconds)
    shutil.rmtree(folder)


def test_make_run_serves_soon(copy: Copy, record_property: Callable[[str, object], None]) -> None:
    """From a fresh clone to the first answer, packages included."""
    text = f"make run answers {copy.seconds:.1f} s after a fresh clone, with {copy.megabytes:.0f} MB installed"
    record_property("measured", text)
    assert copy.seconds < START_MAX_S


def test_make_run_installs_only_what_the_embedded_server_needs(copy: Copy) -> None:
    """The packages of its lock and no other: not Google's libraries, nor a developer's tools, nor matplotlib."""
    lock = {pin.partition("==")[0] for pin in pins("requirements.embedded.lock")}
    # Python's own venv brings the first two.
    assert copy.packages - {"pip", "setuptools", "millpond"} <= lock
    assert {"millpond", "apsw", "uvicorn"} <= copy.packages
    unwanted = ("google", "grpc", "mypy", "playwright", "matplotlib", "ruff", "pytest")
    assert [name for name in lock if name.startswith(unwanted)] == []
    assert copy.megabytes < SIZE_MAX_MB


def test_every_command_loads_without_the_rest(copy: Copy) -> None:
    """Its help, its options and what it imports at the start need nothing that `make run` does not install."""
    python = str(copy.folder / ".venv" / "bin" / "python")
    ran = run([python, "-c", _IMPORT_ALL], copy.folder, copy.environment)
    assert (ran.code, ran.err) == (0, "")


def test_what_needs_no_cloud_works_without_the_rest(copy: Copy) -> None:
    """A view is tested, fed from a file, read, verified and simulated; the doctor finds no problem."""
    (copy.folder / "orders.py").write_text(ORDERS)
    order = {"orderId": "o-1", "at": "2026-01-08T12:00:00Z", "status": "new"}
    line = {"topic": "orders", "data": order, "publishTime": "2026-01-08T12:00:01Z"}
    (copy.folder / "orders.jsonl").write_text(json.dumps(line))
    assert copy.millpond("test", "orders", "--events", "orders.jsonl", "--worlds", "5").code == 0
    assert copy.millpond("ingest", "orders.jsonl", VIEWS="orders").code == 0
    assert copy.millpond("get", "orders/o-1", "--json").json["data"]["status"] == "new"
    assert copy.millpond("verify", VIEWS="orders").code == 0
    assert copy.millpond("simulate", "--seeds", "2").code == 0
    assert copy.millpond("doctor").code == 0


def test_what_needs_more_says_what_to_install(copy: Copy) -> None:
    """Firestore without Google's libraries is one line that names the command, for a checkout too."""
    firestore = {"GCP_PROJECT": "p", "ENV": "dev", "SYSTEM_EVENTS_TOPIC": "s", "DEFAULT_REGION": "r"}
    ran = copy.millpond("ls", STORE="firestore", **firestore)
    assert ran.code == 2
    assert "pip install 'millpond[gcp]', or in a checkout make install" in ran.err


def test_make_demo_needs_nothing_more(copy: Copy) -> None:
    """It starts at once in the environment of `make run`, and its documents are right."""
    before = copy.packages
    with Process(["make", "demo"], copy.folder, {**copy.environment, "PORT": "0", "STORE": "memory"}) as demo:
        demo.wait_for(lambda line: " delivered" in line and "0 documents different" in line, START_MAX_S)
        assert not any("Installing" in line for line in demo.output)
    assert copy.packages == before


def test_make_run_installs_again_only_if_its_lock_changed(copy: Copy) -> None:
    """Also after `make install`, whose stamp is newer: nothing is installed, and nothing removed."""
    (copy.folder / ".venv" / ".installed").touch()
    assert copy.make("--dry-run", "run").out == "exec .venv/bin/millpond serve\n"
    (copy.folder / "requirements.embedded.lock").touch()
    assert "--require-hashes -r requirements.embedded.lock" in copy.make("--dry-run", "run").out
    (copy.folder / ".venv" / ".embedded").touch()
    (copy.folder / ".venv" / ".installed").unlink()


def test_make_install_adds_to_the_environment_of_make_run(copy: Copy) -> None:
    """What is there stays, unless a lock changed after an earlier `make install`: then it is made anew."""
    # Without packages, which would take a minute: `true` is called in pip's place.
    without_packages = ("install", "VENV=other", "PIP_INSTALL=true")
    other = copy.folder / "other"
    other.mkdir()
    (other / ".embedded").touch()
    (other / "kept").touch()
    assert copy.make(*without_packages).code == 0
    assert (other / "kept").exists()
    assert copy.make(*without_packages).out == "make: Nothing to be done for 'install'.\n"
    (copy.folder / "requirements.lock").touch()
    assert copy.make(*without_packages).code == 0
    assert not (other / "kept").exists()
    assert (other / ".installed").exists()
    assert copy.make(*without_packages).out == "make: Nothing to be done for 'install'.\n"
