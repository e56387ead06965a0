"""A server's URL, taken apart and checked, and the option type for it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import click

F = TypeVar("F", bound=Callable[..., Any])
_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    """A URL, taken apart."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, text: str) -> Address:
        """Raises ValueError with what is wrong."""
        wanted = "must be a URL such as http://127.0.0.1:8080"
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise ValueError(wanted) from None
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
            raise ValueError(wanted)
        if not path.isascii() or not path.isprintable() or " " in path:
            raise ValueError(f"{wanted}, with its path percent-encoded")
        return cls(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path)

    @property
    def base(self) -> str:
        return f"{self.scheme}://{self.netloc}"

    @property
    def netloc(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def url_option(default: str | None, text: str) -> Callable[[F], F]:
    """`--url`, given to the command as an Address."""

    def parsed(ctx: click.Context, param: click.Parameter, value: str | None) -> Address | None:
        try:
            return None if value is None else Address.parse(value)
        except ValueError as error:
            raise click.BadParameter(f"{value!r} {error}", ctx, param) from None

    return click.option(
        "--url", metavar="URL", default=default, show_default=default is not None, callback=parsed, help=text
    )
