"""Helpers of every adapter to Google Cloud: credentials, emulator addresses, resource names, error texts.

Used by the Firestore store, Pub/Sub letters, `ingress`, `doctor` and the CLI.
"""

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
    """The emulator's address in the variable; None if Google's service is meant."""
    return os.environ.get(variable) or None


def find_credentials(scopes: Sequence[str], purpose: str) -> Any:
    """Google's application default credentials. Called at start: it may take long, and fails without any."""
    try:
        return google.auth.default(scopes=scopes)[0]
    except GoogleAuthError as error:
        raise AccessDenied(f"no credentials {purpose}: {error_text(error)}") from None


def error_text(error: BaseException | None, chars_max: int = _TEXT_CHARS_MAX) -> str:
    """The text of a client library's error on one line, cut to `chars_max`."""
    return " ".join(f"{getattr(error, 'message', None) or error}".split())[:chars_max]


def full_name(kind: str, name: str, project: str) -> str:
    """`projects/P/topics/T` of a topic's id; a path stays as it is. The same for subscriptions."""
    return name if "/" in name else f"projects/{project}/{kind}/{name}"
