"""Copies of the embedded store: of one moment, whole, or not there at all."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from millpond.core.errors import StoreError, Unavailable
from millpond.core.model import Ref
from millpond.stores.sqlite.backup import CopyFailed, copy_store
from millpond.stores.sqlite.store import SqliteStore
from tests.common.filled_store import DOCUMENTS, fill


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """Where copies go: empty, so that whatever is left behind is seen."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    return folder


def test_the_copy_says_what_it_holds(pond: Path, shelf: Path) -> None:
    """Size and counts are those of the copy, and nothing else lies beside it."""
    copied = copy_store(pond, shelf / "copy.db")
    assert (copied.documents, copied.receipts, copied.events) == (DOCUMENTS, DOCUMENTS, DOCUMENTS)
    assert copied.bytes == (shelf / "copy.db").stat().st_size
    assert names_in(shelf) == ["copy.db"]


def test_the_copy_is_a_store_like_any_other(pond: Path, shelf: Path) -> None:
    """It can be written to, and goes on with the versions the original had."""
    copy_store(pond, shelf / "copy.db")
    fill(shelf / "copy.db", DOCUMENTS, 10)

    async def read() -> list[str]:
        store = SqliteStore(shelf / "copy.db", read_only=True)
        found = await store.read([Ref("ponds", f"p{n}") for n in (0, DOCUMENTS + 9)])
        await store.close()
        return [str(snapshot.version) for snapshot in found]

    assert asyncio.run(read()) == ["1", "2"]


def test_the_copy_can_be_read_where_nothing_can_be_written(pond: Path, shelf: Path) -> None:
    """It is not in WAL mode, so a reader needs no second file beside it."""
    copy_store(pond, shelf / "copy.db")
    connection = apsw.Connection(str(shelf / "copy.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.execute("PRAGMA journal_mode").get == "delete"
    assert connection.execute("SELECT count(*) FROM documents").get == DOCUMENTS
    assert names_in(shelf) == ["copy.db"]
    connection.close()


def test_commits_meanwhile_neither_disturb_the_copy_nor_enter_it(pond: Path, shelf: Path) -> None:
    """A writer that commits between any two steps: the copy never begins again, and is of the moment it began."""
    seen: list[int] = []

    def commit(done: int, _: int) -> None:
        seen.append(done)
        assert len(seen) < 100, "it begins again and again"
        fill(pond, DOCUMENTS + 10 * len(seen), 10)

    copied = copy_store(pond, shelf / "copy.db", commit)
    assert len(seen) > 1
    assert seen == sorted(seen)
    assert copied.documents == DOCUMENTS
    later = copy_store(pond, shelf / "later.db")
    assert later.documents == DOCUMENTS + 10 * len(seen)


@pytest.mark.parametrize("taken", ["copy.db", "copy.db-wal", "copy.db-journal"])
def test_what_is_there_is_not_touched(pond: Path, shelf: Path, taken: str) -> None:
    """Neither a file of that name nor a journal that would be applied to the copy is overwritten or joined."""
    (shelf / taken).write_bytes(b"mine")
    with pytest.raises(CopyFailed, match=f"{taken} exists"):
        copy_store(pond, shelf / "copy.db")
    assert (shelf / taken).read_bytes() == b"mine"
    assert names_in(shelf) == [taken]


def test_a_file_that_appears_meanwhile_stays(pond: Path, shelf: Path) -> None:
    """Two backups to one name at the same time: the first one's file is whole, the second says so."""

    def appear(_done: int, _total: int) -> None:
        (shelf / "copy.db").write_bytes(b"first")

    with pytest.raises(CopyFailed, match="another program meanwhile"):
        copy_store(pond, shelf / "copy.db", appear)
    assert (shelf / "copy.db").read_bytes() == b"first"
    assert names_in(shelf) == ["copy.db"]


def test_a_file_system_without_hard_links(pond: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as FAT: the copy gets its name by renaming, and nothing is left of the other one."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert copy_store(pond, shelf / "copy.db").documents == DOCUMENTS
    assert names_in(shelf) == ["copy.db"]


def test_the_copy_is_durable_before_it_has_its_name(
    pond: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut leaves a whole copy or none: first its content, then its name, then the folder that holds it."""
    done: list[str] = []
    fsync, link = os.fsync, os.link

    def noted_fsync(file: int) -> None:
        done.append(f"sync {Path(f'/proc/self/fd/{file}').readlink().suffix or 'folder'}")
        fsync(file)

    def noted_link(source: Path, target: Path) -> None:
        done.append("name")
        link(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "link", noted_link)
    copy_store(pond, shelf / "copy.db")
    assert done == ["sync .partial", "name", "sync folder"]


def test_an_interrupted_copy_leaves_nothing(pond: Path, shelf: Path) -> None:
    """Ctrl-C in the middle."""

    def interrupt(_done: int, _total: int) -> None:
        assert any(name.endswith(".partial") for name in names_in(shelf))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_store(pond, shelf / "copy.db", interrupt)
    assert names_in(shelf) == []


def test_a_damaged_store_makes_no_backup(pond: Path, shelf: Path) -> None:
    """A page that is no page is copied, found by the check, and thrown away with the copy."""
    content = bytearray(pond.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 2048] = b"\xa5" * 2048
    pond.write_bytes(content)
    with pytest.raises(CopyFailed, match=r"damaged|malformed"):
        copy_store(pond, shelf / "copy.db")
    assert names_in(shelf) == []


def test_a_disk_too_small_is_said_before_it_is_full(
    pond: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot fit is not begun."""
    usage = shutil.disk_usage(shelf)._replace(free=100_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(CopyFailed, match=r"has 100\.0 kB free, and the copy needs"):
        copy_store(pond, shelf / "copy.db")
    assert names_in(shelf) == []


def test_a_disk_that_takes_no_more_leaves_nothing(pond: Path, shelf: Path) -> None:
    """The system refuses to write on, half way through a real file."""
    program = (
        "import sys, pathlib; from millpond.stores.sqlite.backup import *\n"
        "try: copy_store(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))\n"
        "except CopyFailed as error: print(error)"
    )

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    done = subprocess.run(
        [sys.executable, "-c", program, str(pond), str(shelf / "copy.db")],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=small_files,
    )
    assert "copy.db could not be written: the disk failed" in done.stdout
    assert names_in(shelf) == []


def test_the_copy_is_as_secret_as_the_store(pond: Path, shelf: Path) -> None:
    """A user who could not read the store cannot read its backup."""
    pond.chmod(0o640)
    copy_store(pond, shelf / "copy.db")
    assert stat.S_IMODE((shelf / "copy.db").stat().st_mode) == 0o640


def test_what_is_no_store_is_not_copied(tmp_path: Path, shelf: Path) -> None:
    """A database of another program, a file that is none, and a store of a newer Millpond."""
    other = tmp_path / "other.db"
    apsw.Connection(str(other)).execute("CREATE TABLE t(x)")
    with pytest.raises(StoreError, match="no Millpond store"):
        copy_store(other, shelf / "copy.db")
    apsw.Connection(str(other)).execute("PRAGMA user_version = 99")
    with pytest.raises(Unavailable, match="schema 99"):
        copy_store(other, shelf / "copy.db")
    other.write_bytes(b"no database, but long enough to be taken for one " * 100)
    with pytest.raises(Unavailable, match="not a Millpond store"):
        copy_store(other, shelf / "copy.db")
    with pytest.raises(CopyFailed, match="there is no folder"):
        copy_store(other, shelf / "none" / "copy.db")
    assert names_in(shelf) == []
