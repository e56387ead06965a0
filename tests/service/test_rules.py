"""Which settings become which rules."""

from __future__ import annotations

import pytest

from millpond import settings as settings_module
from millpond.core.errors import SettingsError
from millpond.service.rules import engine_rules

FIRESTORE = {
    "STORE": "firestore",
    "GCP_PROJECT": "p",
    "ENV": "prod",
    "SYSTEM_EVENTS_TOPIC": "system.events",
    "DEFAULT_REGION": "europe-west1",
}
EXPOSED = {"HOST": "0.0.0.0"}  # noqa: S104 - nothing listens


@pytest.mark.parametrize(
    ("environment", "in_full"),
    [
        ({}, True),
        ({"STORE": "memory"}, True),
        ({"HOST": "::1"}, True),
        ({"HOST": "localhost"}, True),
        (EXPOSED, False),
        ({"HOST": "pond.example.org"}, False),
        ({"STORE": "memory", **EXPOSED}, False),
        (FIRESTORE, False),
        ({**FIRESTORE, **EXPOSED}, False),
        ({**FIRESTORE, "VIEW_ERRORS": "full"}, True),
        ({**EXPOSED, "VIEW_ERRORS": "full"}, True),
        ({"VIEW_ERRORS": "brief"}, False),
        ({"VIEW_ERRORS": "auto"}, True),
    ],
    ids=str,
)
def test_exceptions_of_views_are_shown_in_full_on_the_own_machine(
    environment: dict[str, str], in_full: bool
) -> None:
    """They may quote payloads: neither a shared store nor other machines get them, unless asked for."""
    assert engine_rules(settings_module.load(environment)).view_errors_in_full is in_full


def test_another_word_is_refused() -> None:
    with pytest.raises(SettingsError, match="VIEW_ERRORS=verbose: must be one of auto, full, brief"):
        settings_module.load({"VIEW_ERRORS": "verbose"})
