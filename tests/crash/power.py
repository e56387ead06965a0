"""What a power cut leaves on a disk: all that was synced, and of the rest whatever chance decides.

Between two syncs a disk may keep any of the sectors written, in any order, and the file's new size with or
without its content. Names are kept in the order they were made and removed, up to some point; they are sure once
their folder was synced.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.crash.recorder import Acknowledged, Created, Deleted, Resized, Step, Synced, Written

SECTOR = 512
# Of what was not synced: none of it, all of it, the first of it with a torn end, or sectors here and there.
KEPT = ("nothing", "everything", "beginning", "scattered")


class _File:
    """The content that is sure, and what was done to it since."""

    def __init__(self, content: bytes = b"") -> None:
        self.sure = bytearray(content)
        self.unsure: list[Written | Resized] = []

    def sync(self) -> None:
        self.sure = self._with(self.unsure)
        self.unsure = []

    def left(self, kept: str, chance: random.Random) -> bytes:
        if kept == "nothing":
            return bytes(self.sure)
        if kept == "everything":
            return bytes(self._with(self.unsure))
        if kept == "beginning":
            number = chance.randrange(len(self.unsure) + 1)
            return bytes(self._with([*self.unsure[:number], *_torn(self.unsure[number:], chance)]))
        return bytes(self._with(_scattered(self.unsure, len(self.sure), chance)))

    def _with(self, steps: Iterable[Written | Resized]) -> bytearray:
        content = bytearray(self.sure)
        for step in steps:
            if isinstance(step, Resized):
                del content[step.size :]
                content.extend(bytes(step.size - len(content)))
            else:
                content.extend(bytes(max(0, step.offset - len(content))))
                content[step.offset : step.offset + len(step.content)] = step.content
        return content


class Disk:
    """A folder of files, as it is, and as it would be after a cut."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self._sure = {name: _File(content) for name, content in (files or {}).items()}
        self._now = dict(self._sure)
        # Names made (with their file) and removed (without) since the folder was synced.
        self._unsure: list[tuple[str, _File | None]] = []

    def take(self, step: Step) -> None:
        """Do what the journal says was done."""
        if isinstance(step, Created):
            self._rename(step.name, _File())
        elif isinstance(step, Deleted):
            self._rename(step.name, None)
            if step.synced:
                self._sync_folder()
        elif isinstance(step, Synced):
            self._now[step.name].sync()
            if step.folder:
                self._sync_folder()
        elif not isinstance(step, Acknowledged):
            self._now[step.name].unsure.append(step)

    def cut(self, kept: str, chance: random.Random) -> dict[str, bytes]:
        """The files that are there when the power is back."""
        number = {"nothing": 0, "everything": len(self._unsure)}.get(kept)
        names = dict(self._sure)
        for name, file in self._unsure[: chance.randrange(len(self._unsure) + 1) if number is None else number]:
            _set(names, name, file)
        return {name: file.left(kept, chance) for name, file in names.items()}

    def _rename(self, name: str, file: _File | None) -> None:
        _set(self._now, name, file)
        self._unsure.append((name, file))

    def _sync_folder(self) -> None:
        self._sure = dict(self._now)
        self._unsure = []


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make the folder hold these files and nothing else: shared memory did not survive, either."""
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _set(names: dict[str, _File], name: str, file: _File | None) -> None:
    if file is None:
        names.pop(name, None)
    else:
        names[name] = file


def _torn(steps: list[Written | Resized], chance: random.Random) -> list[Written]:
    """The first of the steps, up to some byte of it."""
    if not steps or isinstance(steps[0], Resized):
        return []
    name, offset, content = steps[0]
    return [Written(name, offset, content[: chance.randrange(len(content) + 1)])]


def _scattered(steps: list[Written | Resized], size: int, chance: random.Random) -> list[Written | Resized]:
    """Some sectors of some writes, and now and then garbage behind them where the file has grown."""
    survivors: list[Written | Resized] = []
    end = 0
    for step in steps:
        if isinstance(step, Resized):
            survivors += [step] if chance.random() < 0.5 else []
            continue
        end = max(end, step.offset + len(step.content))
        at = step.offset
        while at < step.offset + len(step.content):
            stop = min((at // SECTOR + 1) * SECTOR, step.offset + len(step.content))
            if chance.random() < 0.5:
                survivors.append(Written(step.name, at, step.content[at - step.offset : stop - step.offset]))
            at = stop
    if end > size and chance.random() < 0.25:
        # The new size was kept, and a block that never got its content.
        survivors.append(Written(steps[0].name, end, chance.randbytes(chance.randrange(1, 3 * SECTOR))))
    return survivors
