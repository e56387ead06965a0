"""Whether a client talks to Google's service or to an emulator, and at which address. Never imports a client."""

from __future__ import annotations

import os

FIRESTORE_EMULATOR_VARIABLE = "FIRESTORE_EMULATOR_HOST"
PUBSUB_EMULATOR_VARIABLE = "PUBSUB_EMULATOR_HOST"


def find_emulator(variable: str) -> str | None:
    """The emulator's address in the variable; None if Google's service is meant."""
    return os.environ.get(variable) or None
