"""Every error Millpond raises on purpose, as one tree.

    MillpondError
    ├─ SettingsError            refuse to start: which setting, its value, what is allowed
    ├─ Poison                   the event is invalid, and a retry cannot change that
    │  ├─ MalformedEnvelope     nothing identifiable arrived: 400, nothing kept
    │  ├─ UnroutableEvent       no view feeds on it
    │  └─ InvalidEvent          a view, or the decoder, refuses its content
    ├─ ViewError                a view's own bug: retry, and bury the message once it is old
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

from pathlib import PurePath
from typing import NamedTuple, TypeVar

_DETAIL_CHARS_MAX = 1_000
# A traceback keeps its first and its last calls, each on one line of bounded length.
_FRAMES_MAX = 20
_FRAMES_FIRST = 5
_FRAME_CHARS_MAX = 300
_OWN_PACKAGE = f"{__name__.rpartition('.')[0]}."
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


def missing_extra(name: str, value: object, error: ModuleNotFoundError) -> SettingsError:
    """A setting needs Google's libraries, and they are not installed."""
    return SettingsError(name, value, f"needs pip install 'millpond[gcp]' ({error})")


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
    # Whether `detail` and `trace` may be shown. The engine sets it.
    in_full = False

    def __init__(self, view: str, cause: BaseException) -> None:
        if isinstance(cause, WrongReturn):
            super().__init__(f"the view {view} has a bug: {cause}")
            self.detail = self.trace = ""
        else:
            frames = _frames_of_view(cause)
            super().__init__(f"the view {view} raised {type(cause).__name__}{_place(frames) or _where(cause)}")
            self.detail = _text_of(cause)
            self.trace = _trace(frames, f"{type(cause).__name__}: {self.detail}")
        self.view = view


def explained(error: BaseException | None) -> str:
    """The text of an error. If a view raised and VIEW_ERRORS allows it, with the text of that exception."""
    if isinstance(error, ViewError) and error.in_full and error.detail:
        return f"{error}: {error.detail}"
    return "" if error is None else f"{error}"


def trace_of(error: BaseException | None) -> str | None:
    """The traceback through the view, if a view raised and VIEW_ERRORS allows it."""
    return error.trace or None if isinstance(error, ViewError) and error.in_full else None


class InvalidRun(MillpondError):
    """A flow run was refused. Nothing is stored."""

    reason = "invalid_run"


class RunExists(InvalidRun):
    """Another run has this id."""

    reason = "run_exists"


class StepFailed(MillpondError):
    """A step's work failed. `code` is a stable word for programs that read the run; the text says what to do."""

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
    """The embedded store's file was deleted, moved or replaced. Retries cannot succeed; a restart is needed."""

    reason = "store_file_gone"


class AccessDenied(StoreError):
    reason = "access_denied"


class WriteRefused(StoreError):
    reason = "write_refused"


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
        super().__init__(f"{type(cause).__name__}{_where(cause)}")


def json_type(value: object) -> str:
    """A value's type in words. Error texts are logged, and payloads must not be: errors name types, not values."""
    words = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    return "null" if value is None else words.get(type(value), type(value).__name__)


def _text_of(cause: BaseException) -> str:
    try:
        # Text with a lone surrogate could be neither stored nor logged.
        return f"{cause}"[:_DETAIL_CHARS_MAX].encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 - a view's own exception may have a bug of its own
        return ""


class _Frame(NamedTuple):
    file: str
    line: int
    function: str


def _frames_of_view(cause: BaseException) -> list[_Frame]:
    """The calls from the view's method inward, without those of this package: they say nothing about the bug."""
    frames = []
    trace = cause.__traceback__
    while trace is not None:
        if not trace.tb_frame.f_globals.get("__name__", "").startswith(_OWN_PACKAGE):
            code = trace.tb_frame.f_code
            frames.append(_Frame(code.co_filename, trace.tb_lineno, code.co_qualname))
        trace = trace.tb_next
    return frames


def _trace(frames: list[_Frame], exception: str) -> str:
    """The lines of Python's traceback, the last call last, without source: the core reads no files. Bounded."""
    lines = [f'File "{frame.file}", line {frame.line}, in {frame.function}' for frame in frames]
    if len(lines) > _FRAMES_MAX:
        left_out = len(lines) - _FRAMES_MAX
        lines[_FRAMES_FIRST : _FRAMES_FIRST + left_out] = [f"... {left_out} calls are left out"]
    bounded = [line[:_FRAME_CHARS_MAX].encode(errors="replace").decode() for line in lines]
    return "\n".join([*bounded, exception])


def _place(frames: list[_Frame]) -> str:
    return f" at {PurePath(frames[-1].file).name}:{frames[-1].line}" if frames else ""


def _where(cause: BaseException) -> str:
    trace = cause.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" at {PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
