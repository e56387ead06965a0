"""Google's application default credentials, or the error that there are none. Called when a client is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import google.auth
from google.auth.exceptions import GoogleAuthError

from millpond.core.errors import AccessDenied
from millpond.gcp.error_text import error_text


def find_credentials(scopes: Sequence[str], purpose: str) -> Any:
    """Google's application default credentials. Called at start: it may take long, and fails without any."""
    try:
        return google.auth.default(scopes=scopes)[0]
    except GoogleAuthError as error:
        raise AccessDenied(f"no credentials {purpose}: {error_text(error)}") from None
