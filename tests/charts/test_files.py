"""Files: names that depend on the request alone, whole or not at all, and no litter."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from millpond.charts import files
from millpond.charts.request import Request
from millpond.core.errors import StepFailed


def request(index: int = 1, timeframe: str = "1m", template: str | None = None) -> Request:
    return Request(index=index, timeframe=timeframe, template=template, start=None, end=None)


@pytest.mark.parametrize(
    ("symbol", "asked", "name"),
    [
        ("SPY", request(), "01-SPY-1m.png"),
        ("BRK.B", request(2, "5m", "dark"), "02-BRK.B-5m-dark.png"),
        ("BTC/USD", request(3, "1h", "desk 7/é"), "03-BTC_USD-1h-desk_7_.png"),
        ("../../etc/passwd", request(50), "50-.._.._etc_passwd-1m.png"),
        ("^GSPC", request(template=""), "01-_GSPC-1m.png"),
        ("日経\n\x00", request(), "01-_-1m.png"),
        ("X" * 500, request(template="y" * 200), f"01-{'X' * 40}-1m-{'y' * 40}.png"),
    ],
)
def test_names_are_safe_short_and_say_what_is_in_the_file(symbol: str, asked: Request, name: str) -> None:
    """On every file system; the number keeps them apart."""
    assert files.file_name(asked, symbol) == name
    assert re.fullmatch(r"[\w.-]{1,120}", name, re.ASCII)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """And nothing else is left in the folder; others may read it."""
    files.make_folder(tmp_path / "a" / "b")
    for content in (b"one", b"two"):
        files.publish(tmp_path / "a" / "b", "x.png", content)
        assert (tmp_path / "a" / "b" / "x.png").read_bytes() == content
    assert os.listdir(tmp_path / "a" / "b") == ["x.png"]  # noqa: PTH208 - hidden files too
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "a" / "b" / "x.png").stat().st_mode & 0o777 == 0o666 & ~umask


def test_what_is_published_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written and synced under another name in the same folder, renamed, and then the folder is synced."""
    calls: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def spied_fsync(descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        size = target.stat().st_size
        calls.append("fsync folder" if target.is_dir() else f"fsync {size} bytes in {target.parent.name}")
        fsync(descriptor)

    def spied_replace(self: Path, target: Path) -> Path:
        calls.append(f"rename to {target.name}")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", spied_fsync)
    monkeypatch.setattr(Path, "replace", spied_replace)
    files.publish(tmp_path, "x.png", b"content")
    assert calls == [f"fsync 7 bytes in {tmp_path.name}", "rename to x.png", "fsync folder"]


def test_what_a_crash_left_does_not_pile_up(tmp_path: Path) -> None:
    """The next attempt removes it, and no file of another program."""
    (tmp_path / ".01-SPY-1m.png.0badf00d.tmp").write_bytes(b"half")
    (tmp_path / "01-SPY-1m.png").write_bytes(b"whole")
    (tmp_path / ".keep").write_bytes(b"")
    files.make_folder(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".keep", "01-SPY-1m.png"]  # noqa: PTH208


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is found out when the file is synced, at the latest."""
    files.publish(tmp_path, "x.png", b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StepFailed, match="No space left on device") as failed:
        files.publish(tmp_path, "x.png", b"new")
    assert failed.value.code == "ARTIFACTS_NOT_WRITABLE"
    assert str(tmp_path) in str(failed.value)
    assert "ARTIFACTS_DIR" in str(failed.value)
    assert os.listdir(tmp_path) == ["x.png"]  # noqa: PTH208
    assert (tmp_path / "x.png").read_bytes() == b"old"


def test_a_folder_that_cannot_be_synced_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network file systems refuse; every other error is told."""
    fsync = os.fsync

    def on_folders(number: int) -> Any:
        def spied(descriptor: int) -> None:
            if Path(f"/proc/self/fd/{descriptor}").readlink().is_dir():
                raise OSError(number, os.strerror(number))
            fsync(descriptor)

        return spied

    monkeypatch.setattr(os, "fsync", on_folders(22))
    files.publish(tmp_path, "x.png", b"content")
    monkeypatch.setattr(os, "fsync", on_folders(5))
    with pytest.raises(StepFailed, match="Input/output error"):
        files.publish(tmp_path, "x.png", b"content")


def test_a_file_where_the_folder_should_be_is_told(tmp_path: Path) -> None:
    """With its path."""
    (tmp_path / "run").write_bytes(b"")
    with pytest.raises(StepFailed, match=str(tmp_path / "run")) as failed:
        files.make_folder(tmp_path / "run" / "step")
    assert failed.value.code == "ARTIFACTS_NOT_WRITABLE"
