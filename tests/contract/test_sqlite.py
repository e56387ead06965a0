"""What only the embedded store promises: upgrades, one writer, and names for SQLite's errors.

That it survives power cuts, and disks that are full or fail, is in tests/crash.
"""

from __future__ import annotations

import asyncio
import fcntl
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import apsw
import pytest

from millpond.core import timestamps
from millpond.core.collections import RECEIPTS
from millpond.core.errors import AccessDenied, StoreError, Unavailable, WriteRefused
from millpond.core.model import Committed, Delete, Put, Ref, Snapshot
from millpond.stores.sqlite import rows as sqlite_rows
from millpond.stores.sqlite import schema as sqlite_schema
from millpond.stores.sqlite.connection import open_writer
from millpond.stores.sqlite.errors import translate
from millpond.stores.sqlite.lock import StoreInUse, StoreLock, find_holder
from millpond.stores.sqlite.store import SqliteStore
from tests.common.sqlite_writer import writer_of
from tests.common.stores import Run

A, B = Ref("ponds", "a"), Ref("ponds", "b")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pond.db"


@pytest.fixture
def pond(path: Path) -> SqliteStore:
    return SqliteStore(path)


def test_sqlite_is_a_current_one() -> None:
    """Up to 3.51.2 two connections could corrupt a WAL; the library bundles its own SQLite."""
    assert tuple(int(part) for part in apsw.sqlite_lib_version().split(".")) > (3, 51, 2)


def test_receipts_whose_hashes_collide_are_told_apart(pond: SqliteStore, run: Run) -> None:
    """Their index is a CRC-32, which these two share: the id decides what is found, made, replaced, deleted."""
    one, other = Ref(RECEIPTS, "plumless"), Ref(RECEIPTS, "buckeroo")
    assert zlib.crc32(one.id.encode()) == zlib.crc32(other.id.encode())
    first = run(pond.commit([Put(one, None, {"n": 1})])).versions[0]
    assert run(pond.read([other])) == [Snapshot(other, None, None)]
    second = run(pond.commit([Put(other, None, {"n": 2})])).versions[0]
    assert run(pond.read([one, other])) == [Snapshot(one, first, {"n": 1}), Snapshot(other, second, {"n": 2})]
    # Under one version, so that only the id is left to tell them apart.
    both = run(pond.commit([Put(one, first, {"n": 3}), Put(other, second, {"n": 4})])).versions[0]
    third = run(pond.commit([Put(one, both, {"n": 5})])).versions[0]
    assert run(pond.read([one, other])) == [Snapshot(one, third, {"n": 5}), Snapshot(other, both, {"n": 4})]
    run(pond.commit([Delete(one, third), Delete(other, both)]))
    both = run(pond.commit([Put(one, None, {"n": 6}), Put(other, None, {"n": 7})])).versions[0]
    assert run(pond.commit([Delete(one, both)])) == Committed([None])
    assert run(pond.read([one, other])) == [Snapshot(one, None, None), Snapshot(other, both, {"n": 7})]


def test_what_is_read_together_is_of_one_moment(
    pond: SqliteStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit between two of its look-ups is not seen by the second: a plan on halves of it would be wrong."""
    version = run(pond.commit([Put(A, None, {"n": 1}), Put(B, None, {"n": 1})])).versions[0]
    fetch, meanwhile = sqlite_rows.fetch, [Put(A, version, {"n": 2}), Put(B, version, {"n": 2})]
    loops: list[asyncio.AbstractEventLoop] = []

    def interrupted(connection: apsw.Connection, ref: Ref) -> Any:
        found = fetch(connection, ref)
        if meanwhile:
            writes = [meanwhile.pop(), meanwhile.pop()]
            # Reads have a thread of their own, so the event loop is free to commit.
            committing = asyncio.run_coroutine_threadsafe(pond.commit(writes), loops[0])
            assert isinstance(committing.result(timeout=5), Committed)
        return found

    async def read() -> list[Any]:
        loops.append(asyncio.get_running_loop())
        return [found.data for found in await pond.read([A, B])]

    monkeypatch.setattr(sqlite_rows, "fetch", interrupted)
    assert run(read()) == [{"n": 1}, {"n": 1}]
    assert run(read()) == [{"n": 2}, {"n": 2}]


def test_the_write_ahead_log_does_not_grow_for_ever(path: Path, run: Run) -> None:
    """It is folded back into the file once it holds 16 MiB, while the store is written to and read."""
    store = SqliteStore(path)
    for number in range(40):
        run(store.commit([Put(Ref("ponds", str(number)), None, {"blob": "x" * 1_000_000})]))
        run(store.read([Ref("ponds", str(number))]))
    assert path.with_name("pond.db-wal").stat().st_size < 20 * 1024 * 1024
    assert path.stat().st_size > 20 * 1024 * 1024
    run(store.close())


def test_a_schema_is_upgraded_on_open(path: Path) -> None:
    """Step by step, each with its version, all or nothing."""
    migrations = (*sqlite_schema.MIGRATIONS, "CREATE TABLE next_year(x)", "CREATE TABLE after_that(x)")
    open_writer(path, migrations[:2]).close()
    connection = open_writer(path, migrations)
    assert connection.execute("PRAGMA user_version").get == len(migrations)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    assert {"documents", "next_year", "after_that"} <= tables
    with pytest.raises(apsw.SQLError):
        open_writer(path, (*migrations, "CREATE TABLE half(x); nonsense"))
    assert connection.execute("PRAGMA user_version").get == len(migrations)
    assert not list(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'half'"))


def test_a_newer_schema_is_refused(path: Path) -> None:
    """An older Millpond must not guess what a newer one wrote."""
    connection = open_writer(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(Unavailable, match="99"):
        SqliteStore(path)


def test_what_is_no_store_is_refused(path: Path) -> None:
    """A file of something else is left alone, with a clear word."""
    path.write_text("my notes, which are not a database, but are long enough to look at" * 20)
    with pytest.raises(Unavailable, match="not a Millpond store"):
        SqliteStore(path)


def test_every_sqlite_error_has_a_place() -> None:
    """Walk them all: only what can never succeed is refused, the unknown counts as unavailable."""
    kinds: dict[str, type[StoreError]] = {}
    for name in dir(apsw):
        kind = getattr(apsw, name)
        if isinstance(kind, type) and issubclass(kind, apsw.Error):
            translated = translate(kind("text"))
            assert (translated.code, "(text)" in str(translated)) == (name, True)
            kinds[name] = type(translated)
    assert len(kinds) > 25
    assert "the disk is full" in str(translate(apsw.FullError("text")))
    assert {name for name, kind in kinds.items() if kind is WriteRefused} == {"TooBigError"}
    denied = {name for name, kind in kinds.items() if kind is AccessDenied}
    assert denied == {"PermissionsError", "ReadOnlyError", "AuthError"}
    assert all(kind is Unavailable for kind in kinds.values() if kind not in {WriteRefused, AccessDenied})


def test_a_second_writer_is_refused_and_told_who_the_first_is(path: Path) -> None:
    """By the operating system's lock, so that a crash leaves nothing behind."""
    assert find_holder(path) is None
    lock = StoreLock(path)
    lock.announce("http://127.0.0.1:1234")
    with pytest.raises(StoreInUse, match=r"process \d+ \(http://127.0.0.1:1234\)"):
        StoreLock(path)
    holder = find_holder(path)
    assert holder is not None
    assert holder.url == "http://127.0.0.1:1234"
    lock.release()
    assert find_holder(path) is None
    StoreLock(path).release()


def test_two_who_look_do_not_take_each_other_for_the_writer(path: Path) -> None:
    """Commands may ask at the same moment who holds the store."""
    StoreLock(path).release()
    with path.with_name("pond.db.lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert find_holder(path) is None


def test_a_killed_writer_leaves_no_lock(path: Path) -> None:
    """Kill -9 releases it."""
    script = (
        "import sys, time, pathlib; from millpond.stores.sqlite.lock import StoreLock; "
        "lock = StoreLock(pathlib.Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreInUse):
            StoreLock(path)
        holder.kill()
        holder.wait()
    StoreLock(path).release()


def test_a_sweep_deletes_so_many_at_a_time(pond: SqliteStore, path: Path, run: Run) -> None:
    """However much has expired: the writer, for which messages wait, is held up for a moment only."""
    expired = {"expireAt": timestamps.to_datetime(1)}
    run(pond.commit([Put(Ref(name, str(n)), None, expired) for name in ("ponds", RECEIPTS) for n in range(5)]))
    swept = [sqlite_rows.sweep(writer_of(path), 1, 2) for _ in range(4)]
    assert swept == [4, 4, 2, 0]


def test_readers_work_beside_the_writer(path: Path, run: Run) -> None:
    """Another process may look while the server writes, and sees whole commits."""
    store = SqliteStore(path)
    reader = SqliteStore(path, read_only=True)
    run(store.commit([Put(A, None, {"n": 1}), Put(B, None, {"n": 1})]))
    assert [found.data for found in run(reader.read([A, B]))] == [{"n": 1}, {"n": 1}]
    with pytest.raises(StoreError, match="reading only"):
        run(reader.commit([Put(A, None, {})]))
    run(reader.close())
    run(store.close())
