"""Which step types this process does: those that functions of the given modules declare with `@step`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from millpond.core.errors import SettingsError
from millpond.flow.step import NEEDS_ATTRIBUTE, TYPES_ATTRIBUTE, StepFunction
from millpond.plugins import import_module

Steps = Mapping[str, StepFunction]
TYPE_CHARS_MAX = 200


def load_steps(modules: Iterable[str]) -> Steps:
    """Step type → function. Two functions for one type are a mistake, found at start."""
    steps: dict[str, StepFunction] = {}
    for name in modules:
        found = _steps_of(import_module("STEPS", name))
        if not found:
            raise SettingsError("STEPS", name, 'defines no step: put @millpond.step("TYPE") above a function in it')
        for step_type, function in found.items():
            if not _is_installed(function):
                continue
            if step_type in steps and steps[step_type] is not function:
                raise SettingsError("STEPS", name, f"defines {step_type}, which is taken: one type, one function")
            steps[step_type] = function
    return steps


def _is_installed(function: StepFunction) -> bool:
    """Whether the modules it needs are there. If not, other workers do its types, and no step fails here."""
    return all(importlib.util.find_spec(name) is not None for name in _declared(function, NEEDS_ATTRIBUTE))


def _steps_of(module: ModuleType) -> dict[str, StepFunction]:
    """What the module's functions declare."""
    found: dict[str, StepFunction] = {}
    for item in vars(module).values():
        for step_type in _declared(item, TYPES_ATTRIBUTE):
            if not isinstance(step_type, str) or not 0 < len(step_type) <= TYPE_CHARS_MAX:
                raise SettingsError("STEPS", module.__name__, f"@step needs a type as text, not {step_type!r:.80}")
            if found.setdefault(step_type, item) is not item:
                raise SettingsError("STEPS", module.__name__, f"defines {step_type} twice")
    return found


def _declared(item: object, attribute: str) -> tuple[Any, ...]:
    """What `@step` stored on an object. Objects such as mocks have every attribute, but not as a tuple."""
    declared = getattr(item, attribute, None)
    return declared if isinstance(declared, tuple) else ()
