"""What producers send, through the pure core: route and plan, one message after the other."""

from __future__ import annotations

import pytest

from tests.producers.cases import Case, check_in_core, load


@pytest.mark.parametrize("case", load("producers/producers.json"), ids=lambda case: case.name)
def test_a_producer_is_understood(case: Case) -> None:
    """Outcomes, documents, and what is not there."""
    check_in_core(case)
