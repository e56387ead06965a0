"""Millpond folds at-least-once, out-of-order event streams into documents that are always right.

What a views module imports. Everything else is found through `docs/`.
"""

from millpond._version import __version__
from millpond.errors import InvalidEvent
from millpond.model import Event
from millpond.view import DELETE, Latest, Merge, Tally, View

__all__ = ["DELETE", "Event", "InvalidEvent", "Latest", "Merge", "Tally", "View", "__version__"]
