"""The set-up every measurement shares: cores, folder, sizes, and servers, each on a store of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.messages import Runs
from benchmarks.processes import Cores, Server, serving
from benchmarks.results import Sizes
from tests.common.server import SERVE


class Bench(NamedTuple):
    folder: Path
    cores: Cores
    sizes: Sizes
    runs: Runs

    @contextlib.contextmanager
    def server(
        self, name: str, command: Sequence[str] = SERVE, settings: Mapping[str, str] | None = None
    ) -> Iterator[Server]:
        """A server on default settings but for the store's path. Its files are deleted when it stops."""
        settings = {"STORE": f"sqlite:{self.folder / name}.db", **(settings or {})}
        try:
            with serving(command, settings, self.folder / f"{name}.log", self.cores) as server:
                yield server
        finally:
            for file in self.folder.glob(f"{name}.*"):
                file.unlink()


def say(text: str) -> None:
    print(text, flush=True)
