"""SQLite's result codes → the errors of the store port. Called by the store and by backups.

Only a write that can never succeed is WriteRefused. Every other error, including unknown ones, is Unavailable or
AccessDenied: the message is retried, so nothing is lost.
"""

from __future__ import annotations

import apsw

from millpond.core.errors import AccessDenied, StoreError, Unavailable, WriteRefused

_KINDS: dict[type[apsw.Error], tuple[type[StoreError], str]] = {
    apsw.FullError: (Unavailable, "the disk is full"),
    apsw.IOError: (Unavailable, "the disk failed"),
    apsw.BusyError: (Unavailable, "another process holds the store"),
    apsw.LockedError: (Unavailable, "another connection holds the store"),
    apsw.NoMemError: (Unavailable, "out of memory"),
    apsw.CorruptError: (Unavailable, "the store file is damaged"),
    apsw.NotADBError: (Unavailable, "the file is not a Millpond store"),
    apsw.CantOpenError: (Unavailable, "the store file cannot be opened"),
    apsw.PermissionsError: (AccessDenied, "no permission for the store file"),
    apsw.ReadOnlyError: (AccessDenied, "the store file is not writable"),
    apsw.AuthError: (AccessDenied, "no permission for the store file"),
    apsw.TooBigError: (WriteRefused, "a row is too big for SQLite"),
}


def translate(error: apsw.Error) -> StoreError:
    kind, text = _KINDS.get(type(error), (Unavailable, "SQLite failed"))
    return kind(f"{text} ({error})", code=type(error).__name__)
