"""Tests for a user's own views: `check_view`, its failure and its report. Part of the public API.

    from millpond.testing import check_view

    def test_orders():
        check_view(Orders(), events=[{"orderId": "o-1", "at": "2026-01-08T12:00:00Z", "status": "paid"}])

Never imports the engine before a check runs: the pytest plugin imports this package at the start of every run.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from millpond.testing.faults import CheckError, CheckReport, ViewFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import SearchStrategy

    from millpond.core.model import Delivery
    from millpond.core.view import View

__all__ = ["CheckError", "CheckReport", "ViewFault", "check_view"]


def check_view(
    view: View | type[View],
    events: Sequence[dict[str, Any] | Delivery] | str | PathLike[str] | SearchStrategy[dict[str, Any]],
    *,
    worlds: int = 200,
    seed: int = 0,
) -> CheckReport:
    """Check that the view's documents are the same whatever happens to its events on their way.

    `events` are payloads (or whole deliveries), a file of lines that `millpond ingest` takes, or a hypothesis
    strategy of payloads. Raises ViewFault with the smallest history that shows a fault, and CheckError if the
    arguments cannot be used. The same arguments always give the same result.
    """
    from millpond.testing.check import check  # noqa: PLC0415 - imports the engine

    return check(view, events, worlds=worlds, seed=seed)
