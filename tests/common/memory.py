"""The resident memory of a process, from /proc."""

from __future__ import annotations

from pathlib import Path


class Memory:
    """In MiB."""

    def __init__(self, pid: int) -> None:
        self._folder = Path("/proc") / str(pid)

    def now(self) -> float:
        return self._read("VmRSS")

    def begin(self) -> None:
        """Forget the highest so far."""
        (self._folder / "clear_refs").write_text("5", encoding="ascii")

    def peak(self) -> float:
        return self._read("VmHWM")

    def _read(self, name: str) -> float:
        for line in (self._folder / "status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
        raise LookupError(name)
