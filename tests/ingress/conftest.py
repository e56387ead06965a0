"""An issuer of tokens, and a guard that trusts it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.common.issuer import (
    Gate,
    Issuer,
)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture
def gate(issuer: Issuer) -> Gate:
    return Gate(issuer.url)


# --- tokens ------------------------------------------------------------------------------------------------------
