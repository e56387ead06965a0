"""The earlier build's source, unpacked once for a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrade.earlier_build import unpack_source


@pytest.fixture(scope="session")
def earlier_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_source(tmp_path_factory.mktemp("earlier"))
