"""The store's file deleted, moved or replaced under a running server: noticed, said, nothing more acknowledged."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from millpond.core.errors import StoreFileGone, Unavailable
from millpond.core.model import Committed, Put, Ref
from millpond.stores.sqlite.store import SqliteStore
from tests.common.server import Answer, Server, Start, starting
from tests.crash.recorder import sqlite_on

NOTICED_S = 5.0
T0 = "2026-01-08T12:00:00Z"
Harm = Callable[[Path], None]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(lambda: tmp_path / "unused") as started:
        yield started


def serve(start: Start, tmp_path: Path) -> Server:
    """A server whose store lies in a folder of its own, with one document in it."""
    place = tmp_path / "place"
    place.mkdir()
    server = start(tmp_path, STORE=f"sqlite:{place / 'pond.db'}")
    assert send(server, "before").status == 200
    return server


def send(server: Server, name: str) -> Answer:
    return server.send({"service": name, "timestamp": T0}, message_id=name)


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def replace(path: Path) -> None:
    """As a restored backup, or an editor, does it."""
    other = path.with_name("other")
    shutil.copy(path, other)
    other.replace(path)


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def put_back(path: Path) -> None:
    """Away, and back again after a while: the same file under the same name."""
    path.rename(path.with_name("away"))
    time.sleep(1.5)
    path.with_name("away").rename(path)


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def delete_shared_memory(path: Path) -> None:
    path.with_name(f"{path.name}-shm").unlink()


LASTING: list[Harm] = [delete, delete_all, replace, move_folder, delete_log, delete_shared_memory]
HARMS: list[Harm] = [*LASTING, put_back]


def said(server: Server) -> dict[str, Any]:
    """The line of what happened; it must come by itself."""
    line = server.wait_for(lambda line: '"store_file_gone"' in line, NOTICED_S)
    return dict(json.loads(line))


@pytest.mark.parametrize("harm", HARMS, ids=[harm.__name__ for harm in HARMS])
def test_it_is_noticed_by_an_idle_server(start: Start, tmp_path: Path, harm: Harm) -> None:
    """One CRITICAL line: what happened, to which file, what to do. Not ready, and every push is answered 503."""
    server = serve(start, tmp_path)
    path = tmp_path / "place" / "pond.db"
    harm(path)
    line = said(server)
    assert line["severity"] == "CRITICAL"
    assert str(path) in line["message"]
    assert "restart" in line["message"]
    assert "docs/runbook.md#store-failing" in line["message"]
    for probe in ("/ready", "/health"):
        answer = server.get(probe)
        assert (answer.status, answer.json["reason"]) == (503, "store_file_gone")
    assert server.get("/live").status == 200
    began = time.monotonic()
    # A message that changes something, and one that came before.
    answers = [send(server, "after"), send(server, "before")]
    assert [(answer.status, answer.json["reason"]) for answer in answers] == [(503, "store_file_gone")] * 2
    assert time.monotonic() - began < 2.0, "it was tried again and again"
    assert sum('"CRITICAL"' in line for line in server.output) == 1


@pytest.mark.parametrize("harm", LASTING, ids=[harm.__name__ for harm in LASTING])
async def test_the_first_commit_after_it_is_not_acknowledged(tmp_path: Path, harm: Harm) -> None:
    """Not even within the second between two looks; and the store stays refused, for reads as well."""
    path = tmp_path / "pond" / "pond.db"
    path.parent.mkdir()
    store = SqliteStore(path)
    try:
        assert isinstance(await store.commit([Put(Ref("ponds", "a"), None, {"n": 1})]), Committed)
        harm(path)
        for _ in range(2):
            with pytest.raises(StoreFileGone):
                await store.commit([Put(Ref("ponds", "b"), None, {"n": 2})])
            with pytest.raises(StoreFileGone):
                await store.read([Ref("ponds", "a")])
            with pytest.raises(StoreFileGone):
                await store.try_write()
            with pytest.raises(StoreFileGone):
                await store.sweep(0, None)
    finally:
        await store.close()


async def test_a_file_that_goes_during_a_commit(tmp_path: Path) -> None:
    """Deleted between the look before the commit and its sync: durable in a file without a name is not durable."""
    path, disk = tmp_path / "pond.db", _DeletingDisk()
    with sqlite_on(disk):
        store = SqliteStore(path)
    try:
        disk.victim = path
        with pytest.raises(StoreFileGone):
            await store.commit([Put(Ref("ponds", "a"), None, {"n": 1})])
        assert disk.victim is None
    finally:
        await store.close()
        disk.unregister()


async def test_a_name_that_cannot_be_looked_at_is_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a commit is not acknowledged either, but the next one may be."""
    store = SqliteStore(tmp_path / "pond.db")
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", _refuse)
        with pytest.raises(Unavailable) as raised:
            await store.commit([Put(Ref("ponds", "a"), None, {"n": 1})])
        assert not isinstance(raised.value, StoreFileGone)
    assert isinstance(await store.commit([Put(Ref("ponds", "a"), None, {"n": 1})]), Committed)
    await store.close()


def test_a_restart_heals_it(start: Start, tmp_path: Path) -> None:
    """The file put back as the line says: the next process has everything that was acknowledged."""
    server = serve(start, tmp_path)
    place = tmp_path / "place"
    place.rename(tmp_path / "elsewhere")
    said(server)
    (tmp_path / "elsewhere").rename(place)
    assert server.get("/ready").status == 503
    assert server.terminate() == 0
    again = start(tmp_path, STORE=f"sqlite:{place / 'pond.db'}")
    assert again.document("ops_services/dev__before") is not None
    assert send(again, "after").status == 200


def test_ending_saves_what_a_deleted_log_holds(start: Start, tmp_path: Path) -> None:
    """With the database in its place, a process told to end folds the log that only it has back into it."""
    server = serve(start, tmp_path)
    delete_log(tmp_path / "place" / "pond.db")
    said(server)
    assert server.terminate() == 0
    again = start(tmp_path, STORE=f"sqlite:{tmp_path / 'place' / 'pond.db'}")
    assert again.document("ops_services/dev__before") is not None


def test_ending_leaves_the_file_that_took_its_place_alone(start: Start, tmp_path: Path) -> None:
    """A restored store, with a log of its own, is not touched by the process that had the earlier one."""
    server = serve(start, tmp_path)
    place, copies = tmp_path / "place", tmp_path / "copies"
    copies.mkdir()
    for file in place.glob("pond.db*"):
        shutil.copy(file, copies / file.name)
    delete_all(place / "pond.db")
    for file in copies.iterdir():
        shutil.copy(file, place / file.name)
    before = {file.name: file.read_bytes() for file in place.iterdir() if not file.name.endswith(".lock")}
    said(server)
    assert server.terminate() == 0
    after = {file.name: file.read_bytes() for file in place.iterdir() if not file.name.endswith(".lock")}
    assert after == before


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc, as the runbook's commands do")
def test_the_runbooks_rescue_works(start: Start, tmp_path: Path) -> None:
    """What only the process holds, copied by its file descriptors, is a whole store."""
    server = serve(start, tmp_path)
    path, saved = tmp_path / "place" / "pond.db", tmp_path / "saved"
    delete_all(path)
    said(server)
    saved.mkdir()
    for descriptor in Path(f"/proc/{server.process.pid}/fd").iterdir():
        name = Path(str(descriptor.readlink()).removesuffix(" (deleted)")).name
        if name in {path.name, f"{path.name}-wal"}:
            shutil.copy(descriptor, saved / name)
    server.kill()
    again = start(saved, STORE=f"sqlite:{saved / path.name}")
    assert again.document("ops_services/dev__before") is not None


class _DeletingDisk(apsw.VFS):
    """Deletes the database as soon as its log is synced: after the commit, and before its sender is told of it."""

    def __init__(self) -> None:
        self.name = "deleting"
        self.victim: Path | None = None
        super().__init__(self.name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802 - SQLite's name, here and below
        return _DeletingFile(self, name, flags)


class _DeletingFile(apsw.VFSFile):
    def __init__(self, disk: _DeletingDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        if self._disk.victim is not None:
            self._disk.victim.unlink()
            self._disk.victim = None


def _refuse(*_: object, **__: object) -> os.stat_result:
    raise PermissionError(13, "Permission denied")
