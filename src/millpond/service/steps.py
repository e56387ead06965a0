"""The step modules of this process: the built-in ones, by name, and those in STEPS. One way to load both."""

from __future__ import annotations

from millpond.flow.registry import Steps, load_steps
from millpond.settings import Settings

BUILT_IN_STEPS = ("millpond.charts",)


def load_configured_steps(settings: Settings) -> Steps:
    return load_steps((*BUILT_IN_STEPS, *settings.steps))
