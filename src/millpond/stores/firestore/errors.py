"""gRPC status → what it means to us. The only place that looks at a client exception."""

from __future__ import annotations

from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import GoogleAuthError
from grpc import StatusCode

from millpond.core.errors import AccessDenied, StoreError, Unavailable, WriteRefused
from millpond.gcp import error_text

# Nothing was applied, because a document is not what the commit says it is. Another emulator, and the documents
# for the same thing, say NOT_FOUND or FAILED_PRECONDITION where this one says ALREADY_EXISTS: all alike to us.
_PRECONDITION = frozenset(
    {StatusCode.ALREADY_EXISTS, StatusCode.NOT_FOUND, StatusCode.FAILED_PRECONDITION, StatusCode.ABORTED}
)
# One of the writes, as it is, will never be taken.
_REFUSED = frozenset({StatusCode.INVALID_ARGUMENT, StatusCode.OUT_OF_RANGE})
# Only people can mend it: who we are, what we may do, or what was never set up. Paths are checked before they are
# sent, so a read that is refused is not about the message.
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


def translate_commit(error: Exception) -> StoreError:
    """Our error for a commit that failed by no conflict.

    Whatever is not plainly a refusal may have been applied: `Unavailable` says try again, and read first.
    """
    code = _code(error)
    if code in _REFUSED:
        return WriteRefused(f"Firestore, committing: {code.name}: {error_text(error)}", code=code.name)
    return translate(error, "committing")


def translate(error: Exception, doing: str) -> StoreError:
    """Our error for a read or a query that failed."""
    code = _code(error)
    text = f"Firestore, {doing}: {code.name}: {error_text(error)}"
    return AccessDenied(text, code=code.name) if code in _DENIED else Unavailable(text, code=code.name)


def _code(error: Exception) -> StatusCode:
    if not isinstance(error, GoogleAPICallError):
        return StatusCode.UNAUTHENTICATED
    return error.grpc_status_code or StatusCode.UNKNOWN
