"""Parsers of settings: text → value. Each raises ValueError with what is allowed. Pure; `table` uses them."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from millpond.core.suggest import suggest

Parse = Callable[[str], Any]


def text(allowed: str = "text, not empty") -> Parse:
    def parsed(value: str) -> str:
        if not value.strip():
            raise ValueError(allowed)
        return value.strip()

    return parsed


def optional(value: str) -> str | None:
    return value.strip() or None


def whole(low: int, high: int) -> Parse:
    def parsed(value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return number

    return parsed


def number(low: float, high: float, *, off: bool = False) -> Parse:
    def parsed(value: str) -> float | None:
        if off and value.strip().lower() in {"off", ""}:
            return None
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not low <= number <= high:
            raise ValueError(f"a number from {low:,} to {high:,}" + (", or off" if off else ""))
        return number

    return parsed


def one_of(*allowed: str, **earlier: str) -> Parse:
    def parsed(value: str) -> str:
        if value in earlier:
            return earlier[value]
        if value not in allowed:
            raise ValueError("one of " + ", ".join(allowed))
        return value

    return parsed


def on_off(value: str) -> bool:
    words = {
        "on": True,
        "true": True,
        "1": True,
        "yes": True,
        "off": False,
        "false": False,
        "0": False,
        "no": False,
    }
    if value.strip().lower() not in words:
        raise ValueError("on or off")
    return words[value.strip().lower()]


def event_log(value: str) -> bool:
    """On or off; `auto`, the default of earlier builds, is on."""
    return value.strip().lower() == "auto" or on_off(value)


def store(value: str) -> str:
    if value in {"memory", "firestore"} or (value.startswith("sqlite:") and value.removeprefix("sqlite:").strip()):
        return value
    raise ValueError("sqlite:PATH, firestore, or memory (nothing is kept)")


def prefix(value: str) -> str:
    """A prefix that makes no collection name illegal."""
    if not re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,98}[_.-])?", value.strip()):
        raise ValueError("up to 100 letters, digits, _, - and ., first a letter or a digit, last _, - or .")
    return value.strip()


def project(value: str) -> str:
    """A project id. It is part of every resource name, so an impossible one is refused at start."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,99}", value.strip()):
        raise ValueError("the id of a Google Cloud project")
    return value.strip()


def database(value: str) -> str:
    if not re.fullmatch(r"\(default\)|[A-Za-z0-9][A-Za-z0-9-]{0,62}", value.strip()):
        raise ValueError("(default), or letters, digits and -")
    return value.strip()


def dlq_topic(value: str) -> str | None:
    """A topic id or path; `{subscription}` in it is replaced by the short name of the message's subscription."""
    text = value.strip()
    if not text:
        return None
    filled = text.replace("{subscription}", "subscription")
    if re.fullmatch(r"(projects/[a-z0-9.:-]+/topics/)?(?!goog)[A-Za-z][A-Za-z0-9_.~+%-]{2,254}", filled):
        return text
    raise ValueError(
        "a topic id or projects/P/topics/T, where {subscription} may stand for the subscription's name"
    )


def certs_url(value: str) -> str:
    """https, because the keys from this URL decide which tokens are accepted; http only to 127.0.0.1, for tests."""
    parts = urlsplit(value.strip())
    if parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname == "127.0.0.1")):
        return value.strip()
    raise ValueError("an https URL (http only to 127.0.0.1)")


def timezone(value: str) -> str:
    if value.strip() == "UTC":
        return "UTC"  # which needs no database of zones
    try:
        return zoneinfo.ZoneInfo(value.strip()).key
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("a time zone's name, such as UTC or America/New_York") from None


def modules(value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    if not all(part.isidentifier() for name in names for part in name.split(".")):
        raise ValueError("names of Python modules, separated by commas")
    return names


def some_of(*known: str) -> Parse:
    """`all`, `none`, or some of the known names. The words stay as they were given: ("all",) or ("none",)."""

    def parsed(value: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
        if names in {("all",), ("none",)}:
            return names
        wrong = next((name for name in names if name not in known), None)
        if wrong is not None or not names:
            raise ValueError(f"all, none, or names separated by commas; {suggest(wrong or '', known)}")
        return names

    return parsed


def topic_map(value: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(value or "{}", type=dict[str, str])
    except (msgspec.MsgspecError, RecursionError):
        raise ValueError('a JSON object, subscription to topic: {"my-subscription": "market-ticks"}') from None


class _Route(msgspec.Struct, forbid_unknown_fields=True):
    kind: str = ""
    topic: str = ""


def routes(value: str) -> dict[str, dict[str, str]]:
    allowed = 'a JSON object, subscription to kind and topic: {"my-sub": {"kind": "market-ticks", "topic": "t"}}'
    try:
        routes = msgspec.json.decode(value or "{}", type=dict[str, _Route])
    except (msgspec.MsgspecError, RecursionError):
        raise ValueError(allowed) from None
    if any(not route.kind and not route.topic for route in routes.values()):
        raise ValueError(allowed)
    return {name: {"kind": route.kind or route.topic, "topic": route.topic} for name, route in routes.items()}
