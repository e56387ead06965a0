"""Millpond folds at-least-once, out-of-order event streams into documents that are always right.

What a module of views or steps imports. Everything else is found through `docs/`.
"""

from millpond._version import __version__
from millpond.core.errors import InvalidEvent, StepFailed
from millpond.core.model import Event
from millpond.core.view import DELETE, Latest, Merge, Tally, View
from millpond.flow.step import StepContext, step

__all__ = [
    "DELETE",
    "Event",
    "InvalidEvent",
    "Latest",
    "Merge",
    "StepContext",
    "StepFailed",
    "Tally",
    "View",
    "__version__",
    "step",
]
