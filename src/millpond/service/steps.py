"""Loads the step modules of this process: the built-in ones and those in STEPS, in the same way."""

from __future__ import annotations

from millpond.flow.registry import Steps, load_steps
from millpond.settings import Settings

BUILT_IN_STEPS = ("millpond.charts",)


def load_configured_steps(settings: Settings) -> Steps:
    return load_steps((*BUILT_IN_STEPS, *settings.steps))
