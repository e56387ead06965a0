"""Verifies the token that Pub/Sub sends with each push, before any code reads the message.

A verified token is cached until it expires. Any other token is refused at the first of these that fails: size and
form, algorithm, key, signature, issuer, times, audience, account. If the certificates cannot be fetched, it is
refused too. Never logs or repeats a token. Called by the push endpoint and the events endpoint.

google-auth is used for the signature only: its `jwt.decode` tries every certificate if a token names none, accepts
any algorithm it knows, decodes base64 laxly, and quotes the token in its errors.
"""

from __future__ import annotations

import base64
import re
import ssl
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from millpond.core.errors import INSTALL_GCP, PushForbidden, PushRefused, SettingsError
from millpond.ingress.certificates import Keys, fetch_certificates
from millpond.settings import Settings
from millpond.telemetry.log import Log

ISSUERS = ("https://accounts.google.com", "accounts.google.com")
ALGORITHM = "RS256"
# How far the issuer's clock and ours may be apart.
LEEWAY_S = 30
HEADER_BYTES_MAX = 8 * 1024
TOKENS_MAX = 1_000
# Google's tokens are valid for an hour; one that is valid longer is verified again after that.
TRUST_S_MAX = 3_600
_TOKEN = re.compile(rb"(([\w-]+)\.([\w-]+))\.([\w-]+)", re.ASCII)
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)


class PushGuard:
    """Verifies tokens, and caches those it has verified."""

    def __init__(self, audience: str, account: str, keys: Keys, clock: Callable[[], float] = time.time) -> None:
        self._audience = audience
        self._account = account
        self._keys = keys
        self._clock = clock
        # The whole header → until when it is accepted. Holds verified tokens only.
        self._known: dict[bytes, float] = {}
        # Tokens signed with a withdrawn key must not stay accepted.
        keys.on_withdrawn = self._known.clear

    def knows(self, authorization: bytes) -> bool:
        """Whether exactly this header was verified before and is still valid."""
        return self._clock() < self._known.get(authorization, 0.0)

    async def verify(self, authorization: bytes) -> None:
        """Raises PushRefused unless the header has a valid token; a valid one is cached."""
        key_id, signed, claims, signature = _take_apart(authorization)
        key = await self._keys.find(key_id)
        now = self._clock()
        if key is None or not key.valid_from - LEEWAY_S <= now < key.valid_until:
            raise PushRefused("the token's key is not among the issuer's valid certificates")
        if not key.verify(signed, signature):
            raise PushRefused("the token's signature is wrong")
        until = self._check(claims, now)
        if len(self._known) >= TOKENS_MAX:
            del self._known[next(iter(self._known))]
        self._known[authorization] = min(until, key.valid_until, now + TRUST_S_MAX)

    def _check(self, signed_claims: bytes, now: float) -> float:
        """Until when the token is valid. Call it only with claims whose signature was verified."""
        try:
            claims = msgspec.json.decode(signed_claims, type=_Claims)
        except _UNREADABLE:
            raise PushRefused("the token's claims are not iss, iat and exp as the issuer writes them") from None
        if claims.iss not in ISSUERS:
            raise PushRefused("the token is of another issuer")
        if max(claims.iat, claims.nbf) > now + LEEWAY_S:
            raise PushRefused("the token is not valid yet")
        if now >= claims.exp + LEEWAY_S:
            raise PushRefused("the token has expired")
        if claims.aud != self._audience:
            raise PushForbidden("the token's audience is not PUSH_AUDIENCE")
        if claims.email != self._account or claims.email_verified is not True:
            raise PushForbidden("the token is not of PUSH_SERVICE_ACCOUNT, or its e-mail is not verified")
        return claims.exp + LEEWAY_S


class _Head(msgspec.Struct):
    alg: str
    kid: str
    # Lists extensions that a reader must support; we support none.
    crit: Any = msgspec.UNSET


class _Claims(msgspec.Struct):
    iss: str
    iat: float
    exp: float
    nbf: float = 0.0
    aud: Any = None
    email: Any = None
    email_verified: Any = None


def _take_apart(authorization: bytes) -> tuple[str, bytes, bytes, bytes]:
    """A header's key id, the signed bytes, the claims within them, and the signature."""
    if not authorization:
        raise PushRefused("send one Authorization: Bearer header with a token of the push subscription's account")
    if len(authorization) > HEADER_BYTES_MAX:
        raise PushRefused(f"the Authorization header is over {HEADER_BYTES_MAX} bytes")
    scheme, _, token = authorization.partition(b" ")
    found = _TOKEN.fullmatch(token)
    if scheme.lower() != b"bearer" or found is None:
        raise PushRefused("the Authorization header is not Bearer and a signed token")
    signed, head, claims, signature = found.groups()
    try:
        named = msgspec.json.decode(_decoded(head), type=_Head)
        parts = named.kid, signed, _decoded(claims), _decoded(signature)
    except _UNREADABLE:
        raise PushRefused("the token cannot be read, or does not name its algorithm and key") from None
    if named.alg != ALGORITHM or named.crit is not msgspec.UNSET:
        raise PushRefused(f"the token is not signed with {ALGORITHM}, or asks for extensions")
    return parts


def _decoded(segment: bytes) -> bytes:
    """base64url without padding; the alphabet was checked before."""
    return base64.urlsafe_b64decode(segment + b"=" * (-len(segment) % 4))


def build_guard(settings: Settings, log: Log) -> PushGuard | None:
    """The guard that the settings ask for; None if they ask for none."""
    if settings.push_audience is None:
        return None
    try:
        import google.auth.crypt  # noqa: F401, PLC0415 - in an extra, and slow to import
    except ImportError:
        needs = f"needs Google's libraries to check tokens: {INSTALL_GCP}"
        raise SettingsError("PUSH_AUDIENCE", settings.push_audience, needs) from None
    url = settings.push_certs_url
    tls = None if urlsplit(url).scheme == "http" else ssl.create_default_context()
    keys = Keys(lambda: fetch_certificates(url, tls), lambda text: log.note("WARNING", text))
    # The settings have both or neither; no token has the empty account.
    return PushGuard(settings.push_audience, settings.push_service_account or "", keys)
