"""Which step types this process can do: the built-in ones, and a user's own from the modules in STEPS."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from types import ModuleType

from millpond.charts import step as chart_export
from millpond.core.errors import SettingsError
from millpond.flow.step import TYPES_ATTRIBUTE, StepFunction
from millpond.plugins import import_module
from millpond.settings import Settings

Steps = Mapping[str, StepFunction]
TYPE_CHARS_MAX = 200


def load_steps(settings: Settings) -> Steps:
    """Step type → function. Two functions for one type are a mistake, found at start."""
    steps: dict[str, StepFunction] = {}
    if charts_can_be_drawn():
        steps |= _steps_of(chart_export)
    for name in settings.steps:
        found = _steps_of(import_module("STEPS", name))
        if not found:
            raise SettingsError("STEPS", name, 'defines no step: put @millpond.step("TYPE") above a function in it')
        for step_type, function in found.items():
            if step_type in steps and steps[step_type] is not function:
                raise SettingsError("STEPS", name, f"defines {step_type}, which is taken: one type, one function")
            steps[step_type] = function
    return steps


def charts_can_be_drawn() -> bool:
    """Without matplotlib the type is not ours: another worker may have it, and a step must not fail for that."""
    return importlib.util.find_spec("matplotlib") is not None


def _steps_of(module: ModuleType) -> dict[str, StepFunction]:
    """What the module's functions declare."""
    found: dict[str, StepFunction] = {}
    for item in vars(module).values():
        # Some objects answer to every attribute there is, but not with a tuple.
        types = getattr(item, TYPES_ATTRIBUTE, None)
        for step_type in types if isinstance(types, tuple) else ():
            if not isinstance(step_type, str) or not 0 < len(step_type) <= TYPE_CHARS_MAX:
                raise SettingsError("STEPS", module.__name__, f"@step needs a type as text, not {step_type!r:.80}")
            if found.setdefault(step_type, item) is not item:
                raise SettingsError("STEPS", module.__name__, f"defines {step_type} twice")
    return found
