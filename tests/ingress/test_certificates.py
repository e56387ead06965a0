"""The keys that sign tokens: fetched once for all, never used past their time, and a key server that fails."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import ssl
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding

from millpond.core.errors import KeysUnavailable, PushRefused
from millpond.ingress import certificates
from tests.common.issuer import (
    Gate,
    Issuer,
    certificate,
    good,
    now,
    private_key,
    rs256,
    signed_as,
)


class Fault(NamedTuple):
    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] | None = None
    pause_s: float = 0.0


FAULTS = {
    "500": (Fault(500), "HTTP 500"),
    "404": (Fault(404), "HTTP 404"),
    "204": (Fault(204, b""), "HTTP 204"),
    "203, which a proxy made": (Fault(203), "HTTP 203"),
    "a redirect": (Fault(302, headers={"location": "/elsewhere"}), "HTTP 302"),
    "no JSON": (Fault(body=b"<html>"), "not a JSON object"),
    "a list": (Fault(body=b"[]"), "not a JSON object"),
    "numbers": (Fault(body=b'{"k-a": 1}'), "not a JSON object"),
    "keys as JWK": (Fault(body=b'{"keys": [{"kid": "k-a"}]}'), "not a JSON object"),
    "too deep": (Fault(body=b'{"k-a":' + b"[" * 100_000), "not a JSON object"),
    "nothing in it": (Fault(body=b"{}"), "no RSA certificate"),
    "no certificate": (Fault(body=b'{"k-a": "certificate"}'), "no RSA certificate"),
    "too much": (Fault(body=b"x" * 300_000), "too large"),
    "too little": (Fault(headers={"content-length": "100000"}), "ends early"),
    "too late": (Fault(pause_s=2.0), "TimeoutError"),
}


@pytest.mark.parametrize(("fault", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_a_key_server_that_fails(
    gate: Gate, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, fault: Fault, text: str
) -> None:
    """No token is accepted; why is said; the next try comes after a pause, and heals."""
    monkeypatch.setattr(certificates, "FETCH_S", 0.5)
    issuer.status, issuer.body, issuer.pause_s = fault.status, fault.body, fault.pause_s
    usual = issuer.headers
    issuer.headers = {**usual, **(fault.headers or {})}
    header = good()
    for _ in range(3):
        (error,) = gate.verify(header)
        assert isinstance(error, KeysUnavailable)
        assert text in str(error)
    assert issuer.fetches == 1
    assert gate.warnings == []
    issuer.status, issuer.body, issuer.pause_s, issuer.headers = 200, None, 0.0, usual
    assert gate.meets(header) is KeysUnavailable
    gate.steady.now += certificates.ASK_AGAIN_WITHOUT_KEYS_S
    assert gate.meets(header) is None
    assert issuer.fetches == 2


def test_a_key_server_that_is_down(gate: Gate, issuer: Issuer) -> None:
    """Before anything was fetched: refused, not believed."""
    issuer.close()
    (error,) = gate.verify(good())
    assert isinstance(error, KeysUnavailable)
    assert "ConnectionRefusedError" in str(error)


def test_a_key_server_that_drips(issuer: Issuer, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is that of the whole exchange, not of each read."""
    monkeypatch.setattr(certificates, "FETCH_S", 0.3)

    def drip(request: http.server.BaseHTTPRequestHandler) -> None:
        with contextlib.suppress(OSError):
            for _ in range(30):
                request.wfile.write(b"HTTP/1.1 200 OK\r\n" if _ == 0 else b"x: y\r\n")
                request.wfile.flush()
                time.sleep(0.1)

    monkeypatch.setattr(issuer, "answer", drip)
    began = time.monotonic()
    assert gate.meets(good()) is KeysUnavailable
    assert time.monotonic() - began < 1.5


def test_tls_is_verified(tmp_path: Path) -> None:
    """A certificate of the server's own making is not believed, unless a setting says so."""
    key = private_key("tls")
    pem = certificate(key, san="127.0.0.1")
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "server.pem").write_bytes(pem.encode() + private)
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(tmp_path / "server.pem")
    told = ssl.create_default_context(cadata=pem)
    told.check_hostname = False
    with Issuer(server_side) as issuer:
        (error,) = Gate(issuer.url, ssl.create_default_context()).verify(good())
        assert "SSLCertVerificationError" in str(error)
        assert Gate(issuer.url, told).meets(good()) is None


def test_a_crowd_shares_one_fetch(gate: Gate, issuer: Issuer) -> None:
    """A hundred cold requests, of a few tokens and unknown keys, ask the key server once."""
    issuer.pause_s = 0.1
    unknown = [signed_as(rs256(), kid=f"k-{number}") for number in range(20)]
    met = gate.verify(*[good()] * 40, *[good(sub="2")] * 40, *unknown)
    assert met[:80] == [None] * 80
    assert all(type(error) is PushRefused for error in met[80:])
    assert issuer.fetches == 1


def test_one_who_leaves_does_not_take_the_fetch_along(gate: Gate, issuer: Issuer) -> None:
    """A request that is cancelled while it waits leaves the others waiting."""
    issuer.pause_s = 0.2

    async def leave() -> None:
        first = asyncio.create_task(gate.guard.verify(good()))
        second = asyncio.create_task(gate.guard.verify(good(sub="2")))
        await asyncio.sleep(0.05)
        first.cancel()
        await second

    asyncio.run(leave())
    assert issuer.fetches == 1


def test_rotation(gate: Gate, issuer: Issuer) -> None:
    """A key that appears is found by asking again, at most once a minute; the old one serves on."""
    assert gate.meets(good()) is None
    issuer.certificates["k-b"] = certificate(private_key("b"))
    rotated = signed_as(rs256("b"), kid="k-b")
    assert gate.meets(rotated) is PushRefused
    gate.steady.now += certificates.ASK_AGAIN_S
    assert gate.verify(rotated, good(sub="2")) == [None, None]
    assert issuer.fetches == 2


def test_made_up_keys_do_not_reach_the_key_server(gate: Gate, issuer: Issuer) -> None:
    """However many an attacker names, it is asked once a minute."""
    gate.meets(good())
    for number in range(200):
        gate.steady.now += 0.5
        assert gate.meets(signed_as(rs256(), kid=f"k-{number}")) is PushRefused
    assert issuer.fetches == 2


def test_an_unknown_key_while_the_key_server_is_down(gate: Gate, issuer: Issuer) -> None:
    """Whether it is new or made up is unknown: come again. Known keys serve on."""
    gate.meets(good())
    issuer.close()
    gate.steady.now += certificates.ASK_AGAIN_S
    assert gate.meets(signed_as(rs256("b"), kid="k-b")) is KeysUnavailable
    assert gate.meets(good(sub="2")) is None


def test_certificates_end(gate: Gate, issuer: Issuer) -> None:
    """Until max-age they serve without the key server; from then on no new token is accepted."""
    gate.meets(good())
    issuer.close()
    gate.steady.now += 3599
    assert gate.meets(good(sub="2")) is None
    gate.steady.now += 1
    assert gate.meets(good(sub="3")) is KeysUnavailable


def others() -> list[asyncio.Task[Any]]:
    """Every other task of the event loop: a fetch in the background is one."""
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def test_certificates_are_fetched_ahead_of_their_end(gate: Gate, issuer: Issuer) -> None:
    """In the background: requests are served by the old ones, even if the key server is slow."""
    gate.meets(good())
    issuer.pause_s = 0.2

    async def verify_and_wait() -> float:
        began = time.monotonic()
        await gate.guard.verify(good(sub="2"))
        took = time.monotonic() - began
        (fetching,) = others()
        await fetching
        return took

    gate.steady.now += 3600 * certificates.REFRESH_AFTER
    assert asyncio.run(verify_and_wait()) < 0.2
    assert issuer.fetches == 2
    gate.steady.now += 3599
    issuer.close()
    assert gate.meets(good(sub="3")) is None, "the new ones live an hour from their own fetch"


def test_a_failing_refresh_is_told(gate: Gate, issuer: Issuer) -> None:
    """No request is refused yet, so the log is warned, at most once a minute."""
    gate.meets(good())
    issuer.status = 500

    async def verify_and_wait(header: bytes) -> None:
        await gate.guard.verify(header)
        await asyncio.gather(*others())

    gate.steady.now += 3600 * certificates.REFRESH_AFTER
    for number in range(3):
        asyncio.run(verify_and_wait(good(sub=f"2{number}")))
    assert gate.warnings == [
        "the certificates of PUSH_CERTS_URL could not be fetched anew: the answer is HTTP 500",
    ]
    assert issuer.fetches == 2


def test_a_withdrawn_key_takes_its_tokens_along(gate: Gate, issuer: Issuer) -> None:
    """What it signed is no longer known once the certificates come without it."""
    header = good()
    gate.meets(header)
    issuer.certificates = {"k-b": certificate(private_key("b"))}
    gate.steady.now += certificates.ASK_AGAIN_S
    assert gate.meets(signed_as(rs256("b"), kid="k-b")) is None
    assert not gate.guard.knows(header)
    assert gate.meets(header) is PushRefused


def test_one_key_of_several_is_withdrawn(gate: Gate, issuer: Issuer) -> None:
    """It takes its tokens along although other keys stay; those keys' tokens are only verified once more."""
    kept = issuer.certificates["k-b"] = certificate(private_key("b"))
    withdrawn, other = good(), signed_as(rs256("b"), kid="k-b")
    assert gate.verify(withdrawn, other) == [None, None]
    issuer.certificates = {"k-b": kept}
    gate.steady.now += certificates.ASK_AGAIN_S
    assert gate.meets(signed_as(rs256("b"), kid="k-unknown")) is PushRefused, "which makes the guard ask again"
    assert not gate.guard.knows(withdrawn)
    assert gate.verify(other) == [None]


def test_a_certificate_has_a_life_of_its_own(gate: Gate, issuer: Issuer) -> None:
    """Outside of it, and where the key is weak or no RSA key, it is as if it were not there; the others serve."""
    elliptic = ec.generate_private_key(ec.SECP256R1())
    issuer.certificates |= {
        "k-old": certificate(private_key("b"), days=(-2, -1)),
        "k-new": certificate(private_key("b"), days=(1, 2)),
        "k-weak": certificate(private_key("weak", 1024)),
        "k-ec": certificate(elliptic),
        "k-bad": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    }
    for name, signer in {"k-old": "b", "k-new": "b", "k-bad": "b"}.items():
        assert gate.meets(signed_as(rs256(signer), kid=name)) is PushRefused, name

    def weak(signed: bytes) -> bytes:
        return private_key("weak", 1024).sign(signed, padding.PKCS1v15(), hashes.SHA256())

    assert gate.meets(signed_as(weak, kid="k-weak")) is PushRefused
    by_ec = partial(elliptic.sign, signature_algorithm=ec.ECDSA(hashes.SHA256()))
    assert gate.meets(signed_as(by_ec, kid="k-ec")) is PushRefused
    assert gate.meets(signed_as(by_ec, kid="k-ec", alg="ES256")) is PushRefused
    assert gate.meets(good()) is None
    gate.wall.now += 86_400
    assert gate.meets(good(exp=now() + 100_000)) is PushRefused, "the day of k-a is over"


@pytest.mark.parametrize(
    ("cache_control", "age_s"),
    [
        ("public, max-age=19845, must-revalidate, no-transform", 19_845),
        ("max-age=600", 600),
        ("Max-Age=600", 600),
        ("s-maxage=600", certificates.AGE_S_MIN),
        ("max-age=0", certificates.AGE_S_MIN),
        ("max-age=-1", certificates.AGE_S_MIN),
        ("max-age=999999999999999999", certificates.AGE_S_MIN),
        ("max-age=999999999", certificates.AGE_S_MAX),
        ("no-store", certificates.AGE_S_MIN),
        ("", certificates.AGE_S_MIN),
    ],
)
def test_how_long_certificates_serve(cache_control: str, age_s: int) -> None:
    """As the answer says, but neither seconds nor for ever."""
    assert certificates.age_s_max(cache_control) == age_s


# --- the push endpoint -------------------------------------------------------------------------------------------
