"""What the tests of the engine share."""

from __future__ import annotations

from millpond.core.model import Result
from tests.common.pond import delivery

POISON = delivery({"no": "topic"}, "p1")


def outcomes(results: list[Result]) -> list[str]:
    return [result.reason for result in results]
