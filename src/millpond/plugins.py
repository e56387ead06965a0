"""Modules that users name in settings (VIEWS, STEPS), imported with one clear line where that fails."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from millpond.core.errors import SettingsError


def import_module(setting: str, name: str) -> ModuleType:
    # A user's module usually lies in the folder the command is run from.
    if os.getcwd() not in sys.path:  # noqa: PTH109 - sys.path holds text
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise SettingsError(setting, name, f"cannot be imported: {type(error).__name__}: {error}") from error
