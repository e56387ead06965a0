"""Millpond folds at-least-once, out-of-order event streams into documents that are always right.

The public API: what a module of views or steps imports, and all that the built-in views and charts use. Everything
else is private, and found through `docs/`.
"""

from millpond._version import __version__
from millpond.core.document import hash_of, representable
from millpond.core.errors import InvalidEvent, StepFailed
from millpond.core.fields import is_blank, text_or_none, trimmed
from millpond.core.ids import decode_id, encode_id
from millpond.core.model import Document, Event, Ref, Snapshot
from millpond.core.stamp import SEQUENCE_LAST, clamp_event_time, decode_stamp, find_counter, parse_sequence
from millpond.core.timestamps import parse as parse_time
from millpond.core.timestamps import to_datetime, to_text
from millpond.core.view import DELETE, Latest, Merge, Tally, View, adopted_stamp
from millpond.flow.step import Documents, StepContext, step

__all__ = [
    "DELETE",
    "SEQUENCE_LAST",
    "Document",
    "Documents",
    "Event",
    "InvalidEvent",
    "Latest",
    "Merge",
    "Ref",
    "Snapshot",
    "StepContext",
    "StepFailed",
    "Tally",
    "View",
    "__version__",
    "adopted_stamp",
    "clamp_event_time",
    "decode_id",
    "decode_stamp",
    "encode_id",
    "find_counter",
    "hash_of",
    "is_blank",
    "parse_sequence",
    "parse_time",
    "representable",
    "step",
    "text_or_none",
    "to_datetime",
    "to_text",
    "trimmed",
]
