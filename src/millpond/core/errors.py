"""Every error Millpond raises on purpose, as one tree.

    MillpondError
    ├─ SettingsError            refuse to start: which setting, its value, what is allowed
    ├─ Poison                   the event is at fault and will be tomorrow too
    │  ├─ MalformedEnvelope     nothing identifiable arrived: 400, nothing kept
    │  ├─ UnroutableEvent       no view feeds on it
    │  └─ InvalidEvent          a view, or the decoder, refuses its content
    ├─ ViewError                a view's own bug: retry, and bury the message once it is old
    ├─ InvalidRun               a flow run that is not stored: 400
    │  └─ RunExists             because another has its id: 409
    ├─ StepFailed               a step of a flow run says that it failed: FAILED with its code
    ├─ StoreError
    │  ├─ Unavailable           try again; also "we cannot know whether it was applied"
    │  │  └─ StoreFileGone      not by this process: its file was deleted, moved or replaced
    │  ├─ AccessDenied          try again and page somebody
    │  └─ WriteRefused          this write can never succeed: bury and alert
    ├─ PushRefused              not the broker, as far as we can tell: 401
    │  ├─ PushForbidden         somebody else's token: 403
    │  └─ KeysUnavailable       nobody can say: 503
    ├─ Overloaded               no room left: 429, stop pulling
    ├─ Unreachable              the server or the store that a command needs does not answer
    └─ InternalError            a bug of ours: nothing is acknowledged, the message comes again

Adapters translate foreign exceptions into this tree in one place each. What is expected to happen in
normal operation (a conflict, a stale event) is a value, not an exception.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TypeVar

_DETAIL_CHARS_MAX = 1_000
_Error = TypeVar("_Error", bound=BaseException)


def as_value(error: _Error) -> _Error:
    """The error, to be kept, without where it was raised and what led to it: its text and fields say what matters.

    A traceback holds the frames of all that were being called, and these the message they worked on. Kept in a
    message's own result that is a reference cycle, which only the garbage collector frees, and it runs seldom.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


class MillpondError(Exception):
    """The root: catching it catches everything Millpond raises on purpose."""


class SettingsError(MillpondError):
    """A setting is wrong. The text names the setting, its value and what is allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name}={value!s:.200}: {allowed}")
        self.name = name


def missing_extra(name: str, value: object, error: ModuleNotFoundError) -> SettingsError:
    """A setting asks for what only Google's libraries can do, and they are not installed."""
    return SettingsError(name, value, f"needs pip install 'millpond[gcp]' ({error})")


class Poison(MillpondError):
    """The message can never succeed as it is. `reason` is a stable word for dashboards and alerts.

    `view` names the view that refused it; None where no view was asked.
    """

    reason = "poison"
    view: str | None = None

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason


class MalformedEnvelope(Poison):
    reason = "malformed_envelope"


class UnroutableEvent(Poison):
    reason = "unroutable_payload"


class InvalidEvent(Poison):
    reason = "invalid_event"


class ViewError(MillpondError):
    """A view raised something else than InvalidEvent. The fault is in code, so a deploy may heal it."""

    reason = "view_error"

    def __init__(self, view: str, cause: BaseException) -> None:
        super().__init__(f"the view {view} raised {type(cause).__name__}{_where(cause)}")
        self.view = view
        # The cause's own text, which may quote the payload: for the letter, never for the log.
        self.detail = _text_of(cause)


class InvalidRun(MillpondError):
    """A flow run cannot be taken as it is. Nothing is stored."""

    reason = "invalid_run"


class RunExists(InvalidRun):
    """Another run has this id."""

    reason = "run_exists"


class StepFailed(MillpondError):
    """A step's work failed. `code` is a stable word for whoever reads the run; the text says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class StoreError(MillpondError):
    """The store did not do what was asked. `code` is the foreign status, for logs."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class Unavailable(StoreError):
    reason = "store_unavailable"


class StoreFileGone(Unavailable):
    """The embedded store's file was deleted, moved or replaced. Only a restart heals that, no second try."""

    reason = "store_file_gone"


class AccessDenied(StoreError):
    reason = "access_denied"


class WriteRefused(StoreError):
    reason = "write_refused"


def kind_of(error: BaseException) -> str:
    """An error's type as people know it: that of the tree above, whatever it was refined to."""
    for kind in (Unavailable, AccessDenied, WriteRefused):
        if isinstance(error, kind):
            return kind.__name__
    return type(error).__name__


class PushRefused(MillpondError):
    """Not the broker, as far as we can tell: nothing is taken. `severity` is that of its log line."""

    status = 401
    reason = "push_unauthenticated"
    severity = "WARNING"


class PushForbidden(PushRefused):
    """A token of Google's, but of somebody else or for somebody else."""

    status = 403
    reason = "push_forbidden"


class KeysUnavailable(PushRefused):
    """Nobody can say whether the token is good: the message comes again."""

    status = 503
    reason = "keys_unavailable"
    severity = "ERROR"


class Overloaded(MillpondError):
    reason = "backpressure_queue_full"


class Unreachable(MillpondError):
    """The server, or the store, is not where it was looked for."""


class InternalError(MillpondError):
    """Something we did not foresee. Its own text may quote a payload, so only its kind and place are told."""

    reason = "internal_error"

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}{_where(cause)}")


def json_type(value: object) -> str:
    """A value's type in words. Errors name types, never values: their texts are logged, payloads are not."""
    words = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    return "null" if value is None else words.get(type(value), type(value).__name__)


def _text_of(cause: BaseException) -> str:
    try:
        return f"{cause}"[:_DETAIL_CHARS_MAX]
    except Exception:  # noqa: BLE001 - a view's own exception may have a bug of its own
        return ""


def _where(cause: BaseException) -> str:
    trace = cause.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" at {PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
