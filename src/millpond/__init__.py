"""Millpond folds at-least-once, out-of-order event streams into documents that are always right.

What a module of views or steps imports. Everything else is found through `docs/`.
"""

from millpond._version import __version__
from millpond.errors import InvalidEvent, StepFailed
from millpond.flow.step import StepContext, step
from millpond.model import Event
from millpond.view import DELETE, Latest, Merge, Tally, View

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
