"""What the tests of the engine share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from millpond.core.model import Result
from tests.common.pond import delivery

POISON = delivery({"no": "topic"}, "p1")


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def outcomes(results: list[Result]) -> list[str]:
    return [result.reason for result in results]
