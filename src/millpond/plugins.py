"""Imports the modules that users name in VIEWS and STEPS. A failure is a SettingsError, one line.

Never changes `sys.path`, which belongs to the program: the `millpond` command adds its working directory itself.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from millpond.core.errors import SettingsError


def import_module(setting: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise SettingsError(setting, name, f"cannot be imported: {type(error).__name__}: {error}") from error
