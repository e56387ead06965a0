"""Who may push: every kind of token that must not pass, and what a known one costs."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import pytest

from millpond.core.errors import PushForbidden, PushRefused
from millpond.ingress import oidc
from millpond.ingress.certificates import read_certificates
from tests.common.issuer import (
    FORBIDDEN,
    UNAUTHENTICATED,
    Gate,
    Issuer,
    certificate,
    good,
    now,
    private_key,
    rs256,
    signed_as,
)


@pytest.mark.parametrize("iss", ["https://accounts.google.com", "accounts.google.com"])
def test_a_good_token(gate: Gate, issuer: Issuer, iss: str) -> None:
    """It is verified once and known from then on."""
    header = good(iss=iss)
    assert not gate.guard.knows(header)
    assert gate.verify(header) == [None]
    assert gate.guard.knows(header)
    assert issuer.fetches == 1


@pytest.mark.parametrize("make", UNAUTHENTICATED.values(), ids=UNAUTHENTICATED.keys())
def test_a_token_that_proves_nothing(
    gate: Gate, make: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """401, never known, and the refusal's text repeats nothing of it."""
    monkeypatch.setattr(oidc, "TOKENS_MAX", 1)
    refused(gate, make(), PushRefused)


@pytest.mark.parametrize("make", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_a_token_of_somebody_else(gate: Gate, make: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's signature alone is no permission: 403, and never known."""
    monkeypatch.setattr(oidc, "TOKENS_MAX", 1)
    refused(gate, make(), PushForbidden)


def refused(gate: Gate, header: bytes, kind: type[PushRefused]) -> None:
    known = good()
    assert gate.verify(known) == [None], "the certificates are there"
    for _ in range(2):
        (error,) = gate.verify(header)
        assert type(error) is kind, error
        assert not gate.guard.knows(header)
    assert gate.guard.knows(known), "there is room for one, and what was refused took none"
    for part in header.replace(b".", b" ").split()[1:]:
        assert len(part) < 8 or part.decode("latin-1") not in str(error)


def test_clocks_a_little_apart(gate: Gate) -> None:
    """Within the leeway a token is good; it is known no longer than that."""
    begin = gate.wall.now = now()
    early, late = good(iat=begin + 29, exp=begin + 3600), good(iat=begin - 3600, exp=begin - 29)
    assert gate.verify(early, late) == [None, None]
    gate.wall.now = begin + 2
    assert gate.guard.knows(early)
    assert not gate.guard.knows(late)
    assert gate.meets(late) is PushRefused


def test_known_until_it_expires(gate: Gate) -> None:
    """An hour's token is asked nothing for an hour, then refused."""
    begin = gate.wall.now = now()
    header = good(iat=begin, exp=begin + 3000)
    assert gate.meets(header) is None
    gate.wall.now = begin + 3029
    assert gate.guard.knows(header)
    gate.wall.now = begin + 3030
    assert not gate.guard.knows(header)
    assert gate.meets(header) is PushRefused


def test_a_long_lived_token_is_looked_at_again(gate: Gate) -> None:
    """However long it says it lives, it is taken on trust for an hour only."""
    begin = gate.wall.now = now()
    header = good(iat=begin, exp=begin + 10_000_000)
    assert gate.meets(header) is None
    gate.wall.now = begin + oidc.TRUST_S_MAX
    assert not gate.guard.knows(header)
    assert gate.meets(header) is None


def test_a_token_is_known_no_longer_than_its_key_is_valid(gate: Gate, issuer: Issuer) -> None:
    """A certificate that ends before the token takes it along: at that second it is refused."""
    issuer.certificates["k-short"] = certificate(private_key("b"), days=(-1, 0.01))
    ends = read_certificates(json.dumps(issuer.certificates).encode())["k-short"].valid_until
    header = signed_as(rs256("b"), kid="k-short")
    gate.wall.now = ends - 2
    assert gate.meets(header) is None
    gate.wall.now = ends - 1
    assert gate.guard.knows(header)
    gate.wall.now = ends
    assert not gate.guard.knows(header)
    assert gate.meets(header) is PushRefused


def test_few_tokens_are_remembered(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest make room; they are verified again when they come."""
    monkeypatch.setattr(oidc, "TOKENS_MAX", 3)
    headers = [good(sub=str(number)) for number in range(5)]
    for header in headers:
        gate.meets(header)
    assert [gate.guard.knows(header) for header in headers] == [False, False, True, True, True]
    assert gate.meets(headers[0]) is None


def test_a_known_token_costs_microseconds(gate: Gate, issuer: Issuer) -> None:
    """Measured call by call, on real clocks, with a thousand others known; nothing is fetched."""
    header = good()
    gate.verify(header, *(good(sub=str(number)) for number in range(oidc.TOKENS_MAX - 1)))
    # As it comes from the network: equal, but never the same object.
    arrivals = [bytes(bytearray(header)) for _ in range(10_000)]
    taken = []
    for arrival in arrivals:
        began = time.perf_counter_ns()
        known = gate.guard.knows(arrival)
        taken.append(time.perf_counter_ns() - began)
        assert known
    assert statistics.median(taken) < 20_000
    assert issuer.fetches == 1


# --- certificates ------------------------------------------------------------------------------------------------
