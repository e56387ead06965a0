"""gRPC status → conflict, or an error of the store port. The only place that inspects a client exception."""

from __future__ import annotations

from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import GoogleAuthError
from grpc import StatusCode

from millpond.core.errors import AccessDenied, StoreError, Unavailable, WriteRefused
from millpond.gcp.error_text import error_text

# Nothing was applied, because a precondition of the commit failed. Emulators and Firestore's documentation differ
# in the status for the same case (ALREADY_EXISTS, NOT_FOUND, FAILED_PRECONDITION), so all of them are conflicts.
_PRECONDITION = frozenset(
    {StatusCode.ALREADY_EXISTS, StatusCode.NOT_FOUND, StatusCode.FAILED_PRECONDITION, StatusCode.ABORTED}
)
# One of the writes can never be accepted.
_REFUSED = frozenset({StatusCode.INVALID_ARGUMENT, StatusCode.OUT_OF_RANGE})
# Only an operator can fix it: credentials, permissions, or a missing database or index. Paths are checked before
# they are sent, so a refused read is not the message's fault.
_DENIED = frozenset(
    {
        StatusCode.PERMISSION_DENIED,
        StatusCode.UNAUTHENTICATED,
        StatusCode.NOT_FOUND,
        StatusCode.FAILED_PRECONDITION,
        StatusCode.UNIMPLEMENTED,
        *_REFUSED,
    }
)
CLIENT_ERRORS = (GoogleAPICallError, GoogleAuthError)


def is_conflict(error: Exception) -> bool:
    """Whether a *commit* failed by a precondition or by contention: read again, plan again."""
    return isinstance(error, GoogleAPICallError) and error.grpc_status_code in _PRECONDITION


def is_existing(error: Exception) -> bool:
    """Whether the conflict is a document that was to be created and exists."""
    return isinstance(error, GoogleAPICallError) and error.grpc_status_code is StatusCode.ALREADY_EXISTS


def translate_commit(error: Exception) -> StoreError:
    """The port's error for a commit that failed without a conflict.

    Unless it was refused, the commit may have been applied: after `Unavailable` the caller reads and tries again.
    """
    code = _code(error)
    if code in _REFUSED:
        return WriteRefused(f"Firestore, committing: {code.name}: {error_text(error)}", code=code.name)
    return translate(error, "committing")


def translate(error: Exception, doing: str) -> StoreError:
    """The port's error for a read or a query that failed."""
    code = _code(error)
    text = f"Firestore, {doing}: {code.name}: {error_text(error)}"
    return AccessDenied(text, code=code.name) if code in _DENIED else Unavailable(text, code=code.name)


def _code(error: Exception) -> StatusCode:
    if not isinstance(error, GoogleAPICallError):
        return StatusCode.UNAUTHENTICATED
    return error.grpc_status_code or StatusCode.UNKNOWN
