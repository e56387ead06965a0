"""What every adapter to Google Cloud needs: credentials, where an emulator is, names, and errors in one line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import google.auth
from google.auth.exceptions import GoogleAuthError

from millpond.core.errors import AccessDenied

FIRESTORE_EMULATOR_VARIABLE = "FIRESTORE_EMULATOR_HOST"
PUBSUB_EMULATOR_VARIABLE = "PUBSUB_EMULATOR_HOST"
_TEXT_CHARS_MAX = 300


def find_emulator(variable: str) -> str | None:
    """The address the variable names; None where it is the service."""
    return os.environ.get(variable) or None


def find_credentials(scopes: Sequence[str], purpose: str) -> Any:
    """The usual ones. At start, because it may take long, and because without any nothing will ever work."""
    try:
        return google.auth.default(scopes=scopes)[0]
    except GoogleAuthError as error:
        raise AccessDenied(f"no credentials {purpose}: {error_text(error)}") from None


def error_text(error: BaseException | None, chars_max: int = _TEXT_CHARS_MAX) -> str:
    """What a client library's error says, on one line and not too long."""
    return " ".join(f"{getattr(error, 'message', None) or error}".split())[:chars_max]


def full_name(kind: str, name: str, project: str) -> str:
    """`projects/P/topics/T` of a topic's id; a path stays as it is. The same for subscriptions."""
    return name if "/" in name else f"projects/{project}/{kind}/{name}"
