"""What an attack does to the server's memory, on its default settings: a small part of what the proof does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proof.memory.run import Measured, attack_guarded, attack_open

SCALE = 0.06


@pytest.mark.parametrize("attack", [attack_open, attack_guarded])
def test_memory_comes_back(tmp_path: Path, attack: Callable[[Path, float], Iterator[Measured]]) -> None:
    """Uploads that are aborted or come all at once, and poison of 10 MB, cost what is in flight and no more."""
    assert [measured for measured in attack(tmp_path, SCALE) if not measured.held] == []
