"""The endpoint behind its guard: what is refused is neither decoded nor stored, and logged once."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millpond.core.errors import KeysUnavailable, PushForbidden, SettingsError
from millpond.ingress import certificates, oidc, push
from millpond.ingress.oidc import PushGuard
from millpond.stores.memory import MemoryStore
from tests.common.issuer import (
    ACCOUNT,
    AUDIENCE,
    Gate,
    Issuer,
    good,
)
from tests.common.push import push_bytes
from tests.common.rig import Rig

BODY = push_bytes({"service": "a", "timestamp": 1})


class Door:
    """A push endpoint with a guard, and what it logged."""

    def __init__(self, gate: Gate, runner: asyncio.Runner) -> None:
        self._runner = runner
        # How many bodies were read.
        self.read = 0
        self._rig = Rig(MemoryStore())
        service = self._rig.service
        self.endpoint = push.PushEndpoint(service.engine, service.outcomes, gate.guard)

    def ask(self, *headers: tuple[bytes, bytes], times: int = 1) -> list[tuple[int, dict[bytes, bytes], Any]]:
        """The answers to so many requests at once, in the order in which they came."""
        answers: list[tuple[int, dict[bytes, bytes], Any]] = []

        async def ask_one() -> None:
            sent: list[Any] = []

            async def receive() -> dict[str, Any]:
                self.read += 1
                return {"type": "http.request", "body": BODY, "more_body": False}

            async def send(message: Any) -> None:
                sent.append(message)

            await self.endpoint({"method": "POST", "headers": [(b"host", b"x"), *headers]}, receive, send)
            beyond = dict(sent[0]["headers"][2:])
            answers.append((sent[0]["status"], beyond, json.loads(sent[1]["body"])))

        async def ask_all() -> None:
            async with asyncio.timeout(5):
                await asyncio.gather(*(ask_one() for _ in range(times)))

        self._runner.run(ask_all())
        return answers

    def lines(self) -> list[dict[str, Any]]:
        return self._rig.lines()


@pytest.fixture
def door(gate: Gate) -> Iterator[Door]:
    with asyncio.Runner() as runner:
        yield Door(gate, runner)


@pytest.mark.parametrize(
    ("make", "status", "reason", "severity"),
    [
        (lambda: b"", 401, "push_unauthenticated", "WARNING"),
        (lambda: b"Bearer nonsense", 401, "push_unauthenticated", "WARNING"),
        (lambda: good(aud="x"), 403, "push_forbidden", "WARNING"),
        (good, 503, "keys_unavailable", "ERROR"),
    ],
)
def test_a_refused_request(
    door: Door,
    issuer: Issuer,
    make: Callable[[], bytes],
    status: int,
    reason: str,
    severity: str,
) -> None:
    """Its body is not read, its answer has the usual shape, and one line tells."""
    if status == 503:
        issuer.close()
    ((got, sent, answer),) = door.ask((b"authorization", make()))
    assert (got, door.read) == (status, 0)
    assert sent == ({b"www-authenticate": b"Bearer"} if status == 401 else {})
    text = answer.pop("error")
    assert answer == {"outcome": "retry", "reason": reason, "messageId": "", "topic": "", "views": []}
    (line,) = door.lines()
    assert (line["severity"], line["http_status"], line["reason"]) == (severity, status, reason)
    assert (line["outcome"], line["retryable"], line["error"]) == ("retry", True, text)


def test_a_request_with_a_token(door: Door, issuer: Issuer) -> None:
    """Cold or warm, it is taken; the token is in no line."""
    header = good()
    for outcome in ("applied", "duplicate"):
        ((status, _, answer),) = door.ask((b"authorization", header))
        assert (status, answer["outcome"]) == (200, outcome)
    assert issuer.fetches == 1
    assert header[20:60].decode() not in json.dumps(door.lines())


def test_two_tokens_are_none(door: Door) -> None:
    """A client that sends two headers may hope that the other one is read."""
    header = good()
    ((status, _, answer),) = door.ask((b"authorization", header), (b"authorization", header))
    assert (status, answer["reason"]) == (401, "push_unauthenticated")
    assert door.ask((b"authorization", header))[0][0] == 200


def test_few_wait_for_certificates(door: Door, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came along with their headers is in memory, so beyond a number others are sent away at once."""
    monkeypatch.setattr(push, "CHECKS_MAX", 3)
    issuer.pause_s = 0.1
    answers = door.ask((b"authorization", good()), times=5)
    assert [(status, answer["reason"]) for status, _, answer in answers[:2]] == [
        (429, "backpressure_queue_full")
    ] * 2
    assert answers[0][1] == {b"retry-after": b"1"}
    assert [status for status, _, _ in answers[2:]] == [200] * 3


def test_a_bug_in_the_guard_lets_nobody_in(door: Door, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens, a request that was not verified is not taken."""

    async def stumble(_: bytes) -> None:
        raise RuntimeError("s3cr3t")

    monkeypatch.setattr(gate.guard, "verify", stumble)
    ((status, _, answer),) = door.ask((b"authorization", good()))
    assert (status, answer["reason"]) == (503, "internal_error")
    assert "s3cr3t" not in json.dumps([answer, door.lines()])


# --- start-up ----------------------------------------------------------------------------------------------------

ASKED_FOR = {"STORE": "memory", "PUSH_AUDIENCE": AUDIENCE, "PUSH_SERVICE_ACCOUNT": ACCOUNT}


def build(environment: dict[str, str]) -> PushGuard | None:
    service = Rig(MemoryStore(), **environment).service
    try:
        return oidc.build_guard(service.settings, service.log)
    finally:
        service.log.close()


def test_the_settings_make_the_guard(issuer: Issuer) -> None:
    """With PUSH_AUDIENCE there is one, and it works; without, none."""
    assert build({"STORE": "memory"}) is None
    guard = build({**ASKED_FOR, "PUSH_CERTS_URL": issuer.url})
    assert guard is not None
    header = good()
    asyncio.run(guard.verify(header))
    assert guard.knows(header)
    with pytest.raises(PushForbidden):
        asyncio.run(guard.verify(good(email="other@x")))


def test_without_googles_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that could not check anything does not start; the line says what to install."""
    monkeypatch.setitem(sys.modules, "google.auth.crypt", None)
    assert build({"STORE": "memory"}) is None
    with pytest.raises(SettingsError, match=r"PUSH_AUDIENCE=https://pond.*pip install 'millpond\[gcp\]'"):
        build(ASKED_FOR)


def test_https_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """In capitals it is https all the same: nothing is fetched without TLS."""
    seen: list[ssl.SSLContext | None] = []

    async def fetch(_: str, tls: ssl.SSLContext | None) -> tuple[dict[str, certificates.Key], int]:
        seen.append(tls)
        raise OSError

    monkeypatch.setattr(oidc, "fetch_certificates", fetch)
    guard = build({**ASKED_FOR, "PUSH_CERTS_URL": "HTTPS://keys.example/certs"})
    assert guard is not None
    with pytest.raises(KeysUnavailable):
        asyncio.run(guard.verify(good()))
    assert isinstance(seen[0], ssl.SSLContext)
    assert seen[0].verify_mode is ssl.CERT_REQUIRED
    assert seen[0].check_hostname
