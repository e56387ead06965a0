"""Millpond folds at-least-once, out-of-order event streams into documents that are always right.

The public API: what a module of views or steps imports, all that the built-in views and charts use, `Pond`, for
programs that embed Millpond, and `shard_of`, for producers. Everything else is private, and found through `docs/`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from millpond._version import __version__
from millpond.core.document import hash_of, representable
from millpond.core.errors import (
    InvalidEvent,
    MillpondError,
    Overloaded,
    SettingsError,
    StepFailed,
    StoreError,
    UsageError,
)
from millpond.core.fields import is_blank, text_or_none, trimmed
from millpond.core.ids import decode_id, encode_id
from millpond.core.model import Delivery, Document, Event, Outcome, Ref, Result, Snapshot, ViewResult
from millpond.core.shards import shard_of
from millpond.core.stamp import SEQUENCE_LAST, clamp_event_time, decode_stamp, find_counter, parse_sequence
from millpond.core.timestamps import parse as parse_time
from millpond.core.timestamps import to_datetime, to_text
from millpond.core.view import DELETE, Latest, Merge, Tally, View, adopted_stamp
from millpond.flow.step import Documents, StepContext, step

if TYPE_CHECKING:
    from millpond.pond import Pond
    from millpond.settings import Settings
    from millpond.settings import load as load_settings

__all__ = [
    "DELETE",
    "SEQUENCE_LAST",
    "Delivery",
    "Document",
    "Documents",
    "Event",
    "InvalidEvent",
    "Latest",
    "Merge",
    "MillpondError",
    "Outcome",
    "Overloaded",
    "Pond",
    "Ref",
    "Result",
    "Settings",
    "SettingsError",
    "Snapshot",
    "StepContext",
    "StepFailed",
    "StoreError",
    "Tally",
    "UsageError",
    "View",
    "ViewResult",
    "__version__",
    "adopted_stamp",
    "clamp_event_time",
    "decode_id",
    "decode_stamp",
    "encode_id",
    "find_counter",
    "hash_of",
    "is_blank",
    "load_settings",
    "parse_sequence",
    "parse_time",
    "representable",
    "shard_of",
    "step",
    "text_or_none",
    "to_datetime",
    "to_text",
    "trimmed",
]

# Loaded when they are first used: a module of views needs neither the engine nor a store.
_LAZY = {
    "Pond": ("millpond.pond", "Pond"),
    "Settings": ("millpond.settings", "Settings"),
    "load_settings": ("millpond.settings", "load"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return [*__all__]
