"""An embedded store with something in it."""

from tests.common.filled_store import pond

__all__ = ["pond"]
