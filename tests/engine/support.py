"""What the tests of the engine share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millpond.core.model import Committed, Conflict, LogEntry, Result, Write
from millpond.sim.store import unnamed
from tests.common.faulty_store import FaultyStore
from tests.common.pond import delivery

POISON = delivery({"no": "topic"}, "p1")


def outcomes(results: list[Result]) -> list[str]:
    return [result.reason for result in results]


class Unnamed(FaultyStore):
    """As Firestore, it does not name the documents of a conflict."""

    def __init__(self) -> None:
        super().__init__()
        self.refused_commits = 0
        self.on_refusal: Callable[[], None] = lambda: None

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        committed = await super().commit(writes, log)
        if isinstance(committed, Conflict):
            self.refused_commits += 1
            self.on_refusal()
            return unnamed(committed, writes)
        return committed
