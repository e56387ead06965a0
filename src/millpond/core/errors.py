"""Every error Millpond raises on purpose, as one tree.

    MillpondError
    ├─ SettingsError            refuse to start: which setting, its value, what is allowed
    │  └─ SettingsMissing       those without a default that are not set, all at once
    ├─ UsageError               a public function or an embedded pond is called in a way that cannot work
    ├─ Poison                   the event is invalid, and a retry cannot change that
    │  ├─ MalformedEnvelope     nothing identifiable arrived: 400, nothing kept
    │  ├─ UnroutableEvent       no view feeds on it
    │  └─ InvalidEvent          a view, or the decoder, refuses its content
    ├─ ViewError                a view's own bug: retry, and bury the message once it is old
    ├─ UnownedDocument          another program wrote the document: bury, and overwrite nothing
    ├─ InvalidRun               a flow run that is not stored: 400
    │  └─ RunExists             because another has its id: 409
    ├─ StepFailed               a step of a flow run says that it failed: FAILED with its code
    ├─ StoreError
    │  ├─ Unavailable           try again; whether a commit was applied is unknown
    │  │  └─ StoreFileGone      not in this process: its file was deleted, moved or replaced
    │  ├─ AccessDenied          try again, and page the operator
    │  └─ WriteRefused          this write can never succeed: bury and alert
    ├─ PushRefused              the push request does not prove that it is from Pub/Sub: 401
    │  ├─ PushForbidden         a valid token of another account or audience: 403
    │  └─ KeysUnavailable       the token cannot be checked now: 503
    ├─ Overloaded               no room left: 429, stop pulling
    ├─ Unreachable              the server or the store that a command needs does not answer
    └─ InternalError            a bug in Millpond: nothing is acknowledged, the message is redelivered

Each adapter translates foreign exceptions into this tree in one place. What is expected in normal operation
(a conflict, a stale event) is a value, not an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from millpond.core.traceback_text import frames_of_view, place_of, text_of, trace_text, where

_Error = TypeVar("_Error", bound=BaseException)


def as_value(error: _Error) -> _Error:
    """The error without its traceback, cause and context, so that it can be kept as a value.

    A traceback refers to the frames of the calls under way, and these refer to the message. In the message's own
    result that would be a reference cycle, which only the garbage collector frees, and it runs seldom.
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


class SettingsMissing(SettingsError):
    """Settings without a default are not set. The text names all of them; `name` is the first."""

    def __init__(self, names: Sequence[str], why: str) -> None:
        MillpondError.__init__(self, f"{', '.join(names)}: must be set {why}")
        self.name = names[0]


class UsageError(MillpondError):
    """A call that cannot work: a pond does not run, or an argument is wrong. Nothing was stored."""


# The embedded server runs without Google's libraries: neither the plain package nor `make run` installs them.
INSTALL_GCP = "pip install 'millpond[gcp]', or in a checkout make install"


def missing_extra(name: str, value: object, error: ModuleNotFoundError) -> SettingsError:
    """A setting needs Google's libraries, and they are not installed."""
    return SettingsError(name, value, f"needs {INSTALL_GCP} ({error})")


class Poison(MillpondError):
    """The message can never succeed unchanged. `reason` is a stable word for dashboards and alerts.

    `view` names the view that refused it; None if no view was called.
    """

    reason = "poison"
    view: str | None = None

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason


class MalformedEnvelope(Poison):
    reason = "malformed_envelope"
    severity = "ERROR"


class UnroutableEvent(Poison):
    reason = "unroutable_payload"


class InvalidEvent(Poison):
    reason = "invalid_event"


def refused_by(view: str, fault: Poison) -> Poison:
    """The fault as that of one view. A view may raise the same object for two events, and two views for one."""
    own = fault if fault.view is None else InvalidEvent(f"{fault}", fault.reason)
    own.view = view
    return own


class WrongReturn(TypeError):
    """A method of a view returned a value of a wrong type. It becomes a ViewError with the same text.

    The text names the class, the method and the type. It quotes no value, so it is always shown.
    """


class ViewError(MillpondError):
    """A view raised an exception other than InvalidEvent. The fault is in code, so a deploy may fix it.

    Its own text has only the exception's type and line: the exception's text may quote the payload. `explained` and
    `trace_of` return more, for letters, log lines and answers, if VIEW_ERRORS allows it.
    """

    reason = "view_error"
    # Whether `detail` and `trace` may be shown: see `allow_details`.
    in_full = False

    def __init__(self, view: str, cause: BaseException) -> None:
        if isinstance(cause, WrongReturn):
            super().__init__(f"the view {view} has a bug: {cause}")
            self.detail = self.trace = ""
        else:
            frames = frames_of_view(cause)
            super().__init__(f"the view {view} raised {type(cause).__name__}{place_of(frames) or where(cause)}")
            self.detail = text_of(cause)
            self.trace = trace_text(frames, f"{type(cause).__name__}: {self.detail}")
        self.view: str | None = view


def allow_details(faults: Iterable[Fault], *, in_full: bool) -> None:
    """Say of every exception of a view whether it may be shown in full, as VIEW_ERRORS has it."""
    for fault in faults:
        if isinstance(fault, ViewError):
            fault.in_full = in_full


def explained(error: BaseException | None) -> str:
    """The text of an error. If a view raised and VIEW_ERRORS allows it, with the text of that exception."""
    if isinstance(error, ViewError) and error.in_full and error.detail:
        return f"{error}: {error.detail}"
    return "" if error is None else f"{error}"


def trace_of(error: BaseException | None) -> str | None:
    """The traceback through the view, if a view raised and VIEW_ERRORS allows it."""
    return error.trace or None if isinstance(error, ViewError) and error.in_full else None


class UnownedDocument(MillpondError):
    """A document exists, has no stamp, and its view does not adopt it: another program wrote it."""

    reason = "unowned_document"

    def __init__(self, view: str, path: str) -> None:
        super().__init__(
            f"{path} exists and was not written by Millpond, so the view {view} does not overwrite it: name the "
            'field of its time (adopt = "updatedAt") or overwrite it (existing = "replace"), then replay the letter'
        )
        self.view = view


class InvalidRun(MillpondError):
    """A flow run was refused. Nothing is stored."""

    reason = "invalid_run"


class RunExists(InvalidRun):
    """Another run has this id."""

    reason = "run_exists"


class EditRefused(MillpondError):
    """A dead letter was not edited. `reason` is a stable word for programs; the text says what to do."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class StepFailed(MillpondError):
    """A step's work failed. `code` is a stable word for programs that read the run; the text says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class StoreError(MillpondError):
    """The store did not do what was asked. `code` is the foreign status, for logs.

    `view` names the view whose write it was; None if it is not one view's.
    """

    view: str | None = None

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class Unavailable(StoreError):
    reason = "store_unavailable"


class StoreFileGone(Unavailable):
    """The embedded store's file was deleted, moved or replaced. Retries cannot succeed; a restart is needed."""

    reason = "store_file_gone"


class AccessDenied(StoreError):
    reason = "access_denied"


class WriteRefused(StoreError):
    reason = "write_refused"


# Why a view, or the whole message, cannot be processed: it is invalid, the view failed, another program owns the
# document, the write is impossible, or access was denied. `fault.view` is None if it concerns the whole message.
Fault = Poison | ViewError | UnownedDocument | WriteRefused | AccessDenied
# The order of gravity: the gravest fault of a message is the one that its answer and its letter begin with.
_GRAVITY = (AccessDenied, WriteRefused, ViewError, UnownedDocument, Poison)


def gravest(faults: Iterable[Fault]) -> Fault:
    """Of one fault or more, the one to act on first."""
    return min(faults, key=_gravity)


def _gravity(fault: Fault) -> int:
    return next(rank for rank, kind in enumerate(_GRAVITY) if isinstance(fault, kind))


def kind_of(error: BaseException) -> str:
    """The name of an error's type for logs and metrics: the documented base type, not its subclass."""
    for kind in (Unavailable, AccessDenied, WriteRefused):
        if isinstance(error, kind):
            return kind.__name__
    return type(error).__name__


class PushRefused(MillpondError):
    """The request does not prove that it is from Pub/Sub: it is refused. `severity` is that of its log line."""

    status = 401
    reason = "push_unauthenticated"
    severity = "WARNING"


class PushForbidden(PushRefused):
    """A token that Google signed, but of another account or for another audience."""

    status = 403
    reason = "push_forbidden"


class KeysUnavailable(PushRefused):
    """The signing keys cannot be fetched, so the token cannot be checked: Pub/Sub redelivers the message."""

    status = 503
    reason = "keys_unavailable"
    severity = "ERROR"


class Overloaded(MillpondError):
    reason = "backpressure_queue_full"


class Unreachable(MillpondError):
    """The server, or the store, does not answer at its address."""


class InternalError(MillpondError):
    """An unexpected exception. Its text may quote a payload, so the message has only its type and place."""

    reason = "internal_error"

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}{where(cause)}")


def json_type(value: object) -> str:
    """A value's type in words. Error texts are logged, and payloads must not be: errors name types, not values."""
    words = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    return "null" if value is None else words.get(type(value), type(value).__name__)
