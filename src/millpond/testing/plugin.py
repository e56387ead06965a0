"""The pytest plugin: a fixture that opens in-memory ponds. pytest finds it by the entry point `pytest11`.

It is imported in every run of pytest on a machine that has Millpond, so it imports no engine before a test asks for
a pond.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from millpond.core.view import View
    from millpond.testing.pond import SyncPond

MakePond = Callable[..., "SyncPond"]


@pytest.fixture
def make_pond() -> Iterator[MakePond]:
    """Open a pond in memory with these views; it is closed when the test is over.

    pond = make_pond(Orders()); pond.publish("orders", {...}); pond.get("orders", "o-1")
    """
    from millpond.testing.pond import SyncPond  # noqa: PLC0415 - imports the engine

    with contextlib.ExitStack() as ponds:

        def make(*views: View | type[View]) -> SyncPond:
            return ponds.enter_context(SyncPond(views))

        yield make
