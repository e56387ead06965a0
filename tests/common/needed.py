"""What a test needs of the machine and does not find: a failure where it is required, a skipped test elsewhere."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

# `.ci/run` sets the second one; `make check` asks for the same two.
REQUIRED = ("CI", "MILLPOND_REQUIRE_EMULATORS")


def lacking(how_to_get: str, *, skipped_as: str | None = None) -> NoReturn:
    if any(os.environ.get(name) for name in REQUIRED):
        pytest.fail(how_to_get)
    pytest.skip(skipped_as or how_to_get)
