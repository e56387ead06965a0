"""An issuer of push tokens: real RSA keys, certificates served on loopback, and every kind of token."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import hashlib
import hmac
import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

from millpond.ingress import certificates, oidc
from millpond.ingress.certificates import Keys
from millpond.ingress.oidc import PushGuard

AUDIENCE = "https://pond.example/pubsub/push"
ACCOUNT = "push@project.iam.gserviceaccount.com"
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
Sign = Callable[[bytes], bytes]


@cache
def private_key(name: str = "a", bits: int = 2048) -> rsa.RSAPrivateKey:
    """A key of its own for each name, made once for the whole run."""
    del name
    return rsa.generate_private_key(public_exponent=65_537, key_size=bits)


@cache
def certificate(key: Private, days: tuple[float, float] = (-1, 1), san: str = "issuer.test") -> str:
    """A self-signed certificate in PEM, valid from and until so many days from now; the same each time."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, san)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + dt.timedelta(days=days[0]))
        .not_valid_after(now + dt.timedelta(days=days[1]))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(san)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


class Issuer:
    """A key server on 127.0.0.1, told what to answer, and the tokens its keys sign."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.certificates = {"k-a": certificate(private_key("a"))}
        self.status = 200
        self.headers = {"cache-control": "public, max-age=3600, must-revalidate"}
        self.body: bytes | None = None
        self.pause_s = 0.0
        self.fetches = 0
        issuer = self

        class Certificates(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.answer(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Certificates)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}/certs"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        self.fetches += 1
        body = json.dumps(self.certificates).encode() if self.body is None else self.body
        with contextlib.suppress(OSError):
            time.sleep(self.pause_s)
            request.send_response(self.status)
            for name, value in {"content-length": str(len(body)), **self.headers}.items():
                request.send_header(name, value)
            request.end_headers()
            request.wfile.write(body)

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def encoded(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def jwt(head: Any, claims: Any, sign: Sign) -> bytes:
    """A token of anything, signed by anything. Bytes go in as they are, all else as JSON."""
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (head, claims)]
    signed = b".".join(encoded(part) for part in parts)
    return signed + b"." + encoded(sign(signed))


def rs256(name: str = "a") -> Sign:
    return lambda signed: private_key(name).sign(signed, padding.PKCS1v15(), hashes.SHA256())


def rs512(signed: bytes) -> bytes:
    return private_key("a").sign(signed, padding.PKCS1v15(), hashes.SHA512())


def pss(signed: bytes) -> bytes:
    pss_padding = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)
    return private_key("a").sign(signed, pss_padding, hashes.SHA256())


def hs256(secret: bytes) -> Sign:
    return lambda signed: hmac.digest(secret, signed, hashlib.sha256)


def now() -> int:
    return int(time.time())


def head(**changes: Any) -> dict[str, Any]:
    return changed({"alg": "RS256", "kid": "k-a", "typ": "JWT"}, changes)


def claims(**changes: Any) -> dict[str, Any]:
    """What Pub/Sub's tokens hold."""
    usual = {"aud": AUDIENCE, "azp": "1", "email": ACCOUNT, "email_verified": True, "sub": "1"}
    return changed({**usual, "iss": "https://accounts.google.com", "iat": now(), "exp": now() + 3600}, changes)


def changed(usual: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """With these values instead; `...` takes a field away."""
    return {name: value for name, value in {**usual, **changes}.items() if value is not ...}


def bearer(token: bytes) -> bytes:
    return b"Bearer " + token


def good(**changes: Any) -> bytes:
    """A header that is right but for these claims."""
    return bearer(jwt(head(), claims(**changes), rs256()))


class Clock:
    """Stands still until told."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Gate:
    """A guard, its clocks, and what it warned of."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self.wall, self.steady = Clock(time.time()), Clock(1_000.0)
        self.warnings: list[str] = []
        keys = Keys(lambda: certificates.fetch_certificates(url, tls), self.warnings.append, self.steady)
        self.guard = PushGuard(AUDIENCE, ACCOUNT, keys, self.wall)

    def verify(self, *headers: bytes) -> list[BaseException | None]:
        """All at once; what each met."""

        async def all_of_them() -> list[BaseException | None]:
            return await asyncio.gather(*map(self.guard.verify, headers), return_exceptions=True)

        return asyncio.run(all_of_them())

    def meets(self, header: bytes) -> type[BaseException] | None:
        (error,) = self.verify(header)
        return None if error is None else type(error)


def tampered(**changes: Any) -> bytes:
    """Other claims under a signature that was good for the usual ones."""
    first, _, signature = jwt(head(), claims(), rs256()).split(b".")
    return bearer(b".".join([first, encoded(json.dumps(claims(**changes)).encode()), signature]))


def signed_as(sign: Sign, **changes: Any) -> bytes:
    return bearer(jwt(head(**changes), claims(), sign))


def public_pem() -> bytes:
    return (
        private_key("a")
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


DEEP = b'{"alg":"RS256","kid":"k-a","x":' + b"[" * 5_000
ENDLESS = b'{"exp":1e999,"iat":1,"iss":"accounts.google.com"}'
UNAUTHENTICATED: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "only the scheme": lambda: b"Bearer",
    "only the scheme and a space": lambda: b"Bearer ",
    "another scheme": lambda: b"Basic cHVzaDpwdXNo",
    "a good token under another scheme": lambda: good().replace(b"Bearer", b"Basic"),
    "a good token without a scheme": lambda: good().removeprefix(b"Bearer "),
    "two spaces": lambda: good().replace(b" ", b"  "),
    "a trailing space": lambda: good() + b" ",
    "a trailing line break": lambda: good() + b"\n",
    "two tokens": lambda: good() + b", " + good(),
    "one segment": lambda: b"Bearer abc",
    "two segments": lambda: good().rpartition(b".")[0],
    "four segments": lambda: good() + b".x",
    "an empty signature": lambda: good().rpartition(b".")[0] + b".",
    "a cut signature": lambda: good()[:-3],
    "padding": lambda: good() + b"==",
    "base64 with a plus": lambda: good().replace(b".", b".+", 1),
    "base64 of impossible length": lambda: b"Bearer a.b.c",
    "bytes beyond ASCII": lambda: good() + "é".encode(),
    "over 8 KiB": lambda: good(padding="x" * 8_192),
    "alg none": lambda: signed_as(lambda _: b"x", alg="none"),
    "alg none, unsigned": lambda: signed_as(lambda _: b"", alg="none"),
    "alg None": lambda: signed_as(lambda _: b"x", alg="None"),
    "alg missing": lambda: signed_as(rs256(), alg=...),
    "alg null": lambda: signed_as(rs256(), alg=None),
    "alg a list": lambda: signed_as(rs256(), alg=["RS256"]),
    "alg in small letters": lambda: signed_as(rs256(), alg="rs256"),
    "HS256 with the certificate": lambda: signed_as(hs256(certificate(private_key("a")).encode()), alg="HS256"),
    "HS256 with the public key": lambda: signed_as(hs256(public_pem()), alg="HS256"),
    "HS256 with the public key, called RS256": lambda: signed_as(hs256(public_pem())),
    "RS512": lambda: signed_as(rs512, alg="RS512"),
    "RS512, called RS256": lambda: signed_as(rs512),
    "PS256": lambda: signed_as(pss, alg="PS256"),
    "PS256, called RS256": lambda: signed_as(pss),
    "RS256, called RS384": lambda: signed_as(rs256(), alg="RS384"),
    "an extension that must be understood": lambda: signed_as(rs256(), crit=["exp"]),
    "no extension, but the field": lambda: signed_as(rs256(), crit=None),
    "an unknown key": lambda: signed_as(rs256("stranger"), kid="k-z"),
    "our key under an unknown id": lambda: signed_as(rs256(), kid="k-z"),
    "no key id": lambda: signed_as(rs256(), kid=...),
    "an empty key id": lambda: signed_as(rs256(), kid=""),
    "a key id that is a number": lambda: signed_as(rs256(), kid=1),
    "another key under our id": lambda: signed_as(rs256("stranger")),
    "the attacker's own key in the token": lambda: signed_as(rs256("stranger"), jwk={"kty": "RSA"}, x5u="http://x"),
    "no signature worth the name": lambda: signed_as(lambda _: b"\0" * 256),
    "a signature that a front end took away": lambda: good().rpartition(b".")[0] + b".SIGNATURE_REMOVED_BY_GOOGLE",
    "claims exchanged": lambda: tampered(sub="2"),
    "claims exchanged, all else equal": lambda: tampered(exp=now() + 7200),
    "a head that is no JSON": lambda: bearer(jwt(b"{", claims(), rs256())),
    "a head that is a list": lambda: bearer(jwt([head()], claims(), rs256())),
    "a head too deep": lambda: bearer(jwt(DEEP, {}, lambda _: b"x")),
    "a head that is no UTF-8": lambda: bearer(jwt(b'{"alg":"RS256","kid":"\xff"}', claims(), rs256())),
    "claims that are no JSON": lambda: bearer(jwt(head(), b"claims", rs256())),
    "claims that are a list": lambda: bearer(jwt(head(), [claims()], rs256())),
    "claims that are text": lambda: bearer(jwt(head(), "claims", rs256())),
    "claims that are null": lambda: bearer(jwt(head(), None, rs256())),
    "claims too deep": lambda: bearer(jwt(head(), b"[" * 5_000, rs256())),
    "another issuer": lambda: good(iss="https://accounts.example.com"),
    "an issuer over plain http": lambda: good(iss="http://accounts.google.com"),
    "an issuer with more behind": lambda: good(iss="https://accounts.google.com/"),
    "an issuer in a list": lambda: good(iss=["https://accounts.google.com"]),
    "no issuer": lambda: good(iss=...),
    "expired": lambda: good(iat=now() - 7200, exp=now() - 3600),
    "expired just beyond the leeway": lambda: good(exp=now() - oidc.LEEWAY_S - 1),
    "no expiry": lambda: good(exp=...),
    "an expiry that is null": lambda: good(exp=None),
    "an expiry that is text": lambda: good(exp=str(now() + 3600)),
    "an expiry that is true": lambda: good(exp=True),
    "an expiry beyond all numbers": lambda: bearer(jwt(head(), ENDLESS, rs256())),
    "issued in the future": lambda: good(iat=now() + 600),
    "no time of issue": lambda: good(iat=...),
    "a time of issue that is text": lambda: good(iat="now"),
    "not valid yet": lambda: good(nbf=now() + 600),
    "not valid from null": lambda: good(nbf=None),
}
FORBIDDEN: dict[str, Callable[[], bytes]] = {
    "another audience": lambda: good(aud="https://other.example/pubsub/push"),
    "an audience with more behind": lambda: good(aud=AUDIENCE + "/"),
    "an audience in capitals": lambda: good(aud=AUDIENCE.upper()),
    "an audience that begins like ours": lambda: good(aud=AUDIENCE[:-1]),
    "a list with our audience": lambda: good(aud=[AUDIENCE]),
    "a list with ours and another": lambda: good(aud=["https://other.example", AUDIENCE]),
    "an empty audience": lambda: good(aud=""),
    "an audience that is null": lambda: good(aud=None),
    "no audience": lambda: good(aud=...),
    "another account": lambda: good(email="other@project.iam.gserviceaccount.com"),
    "an account in capitals": lambda: good(email=ACCOUNT.upper()),
    "an account in a list": lambda: good(email=[ACCOUNT]),
    "an empty account": lambda: good(email=""),
    "an account that is null": lambda: good(email=None),
    "no account": lambda: good(email=...),
    "an account not verified": lambda: good(email_verified=False),
    "verified, as text": lambda: good(email_verified="true"),
    "verified, as a number": lambda: good(email_verified=1),
    "verified, as a list": lambda: good(email_verified=[True]),
    "verified, as null": lambda: good(email_verified=None),
    "verified, not said": lambda: good(email_verified=...),
}
