"""Fetches and caches the public keys that verify push tokens. Never uses an expired key. Called by `oidc`."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from millpond.core.errors import KeysUnavailable
from millpond.http_client import Address, ClosedEarly, ReplyTooLarge, fetch

KEY_BITS_MIN = 2_048
# For the whole exchange with the key server; a push waits for it.
FETCH_S = 3.0
CERTIFICATES_BYTES_MAX = 256 * 1024
AGE_S_MIN, AGE_S_MAX = 60, 86_400
# After this part of their lifetime certificates are fetched again, while the old ones are still used.
REFRESH_AFTER = 0.8
# A token can name any key: unknown ones must not cause a request to the key server each.
ASK_AGAIN_S = 60.0
ASK_AGAIN_WITHOUT_KEYS_S = 5.0
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=(\d{1,9})(?=$|[\s,])", re.IGNORECASE)


class Key(NamedTuple):
    """A certificate's key, and when it may be used. `verify` takes the signed bytes and the signature."""

    verify: Callable[[bytes, bytes], bool]
    valid_from: float
    valid_until: float


class Keys:
    """The issuer's keys by id. They are used until they expire, and one fetch serves every waiting request."""

    def __init__(
        self,
        fetch: Callable[[], Awaitable[tuple[dict[str, Key], int]]],
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`fetch` returns the keys and how many seconds they may be used."""
        self.on_withdrawn: Callable[[], None] = lambda: None
        self._fetch = fetch
        self._warn = warn
        self._clock = clock
        self._keys: dict[str, Key] = {}
        self._asked_at = self._refresh_at = self._expires_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        # Why the last fetch failed; empty if it did not.
        self._fault = ""

    async def find(self, key_id: str) -> Key | None:
        """None if the issuer has no such key. Raises KeysUnavailable if that cannot be known."""
        now = self._clock()
        if now >= self._expires_at:
            await self._refresh(ASK_AGAIN_WITHOUT_KEYS_S)
            if self._clock() >= self._expires_at:
                raise KeysUnavailable(f"the certificates cannot be fetched: {self._fault}")
        elif now >= self._refresh_at:
            self._begin(ASK_AGAIN_S)
        if key_id not in self._keys:
            await self._refresh(ASK_AGAIN_S)
            if key_id not in self._keys and self._fault:
                raise KeysUnavailable(f"the token's key is not known, and no news can be fetched: {self._fault}")
        return self._keys.get(key_id)

    async def _refresh(self, every_s: float) -> None:
        fetching = self._begin(every_s)
        if fetching is not None:
            # Shielded: one waiting request may be cancelled while others still need the keys.
            await asyncio.shield(fetching)

    def _begin(self, every_s: float) -> asyncio.Task[None] | None:
        """The fetch in progress; starts one unless the last began less than `every_s` ago."""
        now = self._clock()
        if self._fetching is None and now - self._asked_at >= every_s:
            self._asked_at = now
            self._fetching = asyncio.get_running_loop().create_task(self._fetch_once(now))
        return self._fetching

    async def _fetch_once(self, began: float) -> None:
        try:
            keys, age_s = await self._fetch()
        except Exception as error:  # noqa: BLE001 - every failure means: no new keys
            self._fault = str(error) if isinstance(error, _BadAnswer) else type(error).__name__
            if began < self._expires_at:
                # No push is refused yet, so no other log line reports it.
                self._warn(f"the certificates of PUSH_CERTS_URL could not be fetched anew: {self._fault}")
        else:
            if not self._keys.keys() <= keys.keys():
                self.on_withdrawn()
            self._keys, self._fault = keys, ""
            self._refresh_at, self._expires_at = began + age_s * REFRESH_AFTER, began + age_s
        finally:
            self._fetching = None


class _BadAnswer(Exception):
    """The key server's answer is unusable; the text says why."""


async def fetch_certificates(url: str, tls: ssl.SSLContext | None) -> tuple[dict[str, Key], int]:
    """One GET: no redirects, no proxies, only status 200, with limits on size and time."""
    limit = CERTIFICATES_BYTES_MAX
    try:
        reply = await fetch(Address.parse(url), timeout_s=FETCH_S, tls=tls, reply_bytes_max=limit)
    except ClosedEarly:
        raise _BadAnswer("the answer ends early") from None
    except ReplyTooLarge:
        raise _BadAnswer("the answer is too large") from None
    if reply.status != 200:
        raise _BadAnswer(f"the answer is HTTP {reply.status}")
    return read_certificates(reply.body), age_s_max(reply.headers.get("cache-control", ""))


def age_s_max(cache_control: str) -> int:
    """How long an answer may be used: its own max-age, within our bounds."""
    found = _MAX_AGE.search(cache_control)
    return min(max(int(found[1]) if found else 0, AGE_S_MIN), AGE_S_MAX)


def read_certificates(body: bytes) -> dict[str, Key]:
    """The keys of a JSON object of PEM certificates. A value that is not an RSA certificate is left out."""
    try:
        certificates = msgspec.json.decode(body, type=dict[str, str])
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise _BadAnswer("the answer is not a JSON object of certificates") from None
    keys = {key_id: key for key_id, pem in certificates.items() if (key := _read_certificate(pem)) is not None}
    if not keys:
        raise _BadAnswer("the answer holds no RSA certificate")
    return keys


def _read_certificate(pem: str) -> Key | None:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - of the extra, see build_guard
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey  # noqa: PLC0415
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415
    from google.auth.crypt import RSAVerifier  # noqa: PLC0415

    try:
        certificate = load_pem_x509_certificate(pem.encode())
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return None
    if not isinstance(key, RSAPublicKey) or key.key_size < KEY_BITS_MIN:
        return None
    verifier = RSAVerifier(key)  # type: ignore[no-untyped-call]
    valid_from, valid_until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return Key(verifier.verify, valid_from.timestamp(), valid_until.timestamp())
