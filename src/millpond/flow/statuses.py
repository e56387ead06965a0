"""The statuses a step can have, as its run stores them."""

from __future__ import annotations

READY = "READY"
RUNNING = "RUNNING"
SUCCEEDED = "SUCCEEDED"
FAILED = "FAILED"
STATUSES = (READY, RUNNING, SUCCEEDED, FAILED)
