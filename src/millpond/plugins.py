"""Imports the modules that users name in VIEWS and STEPS. A failure is a SettingsError, one line.

Importing never changes `sys.path`, which belongs to the program. Programs of Millpond's own, the `millpond` command
and the function, call `search_working_directory` when they start.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from millpond.core.errors import SettingsError


def search_working_directory() -> None:
    """Find modules there, too: a user's modules are usually in the working directory of the command."""
    if os.getcwd() not in sys.path:  # noqa: PTH109 - sys.path holds text
        sys.path.insert(0, os.getcwd())  # noqa: PTH109


def import_module(setting: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise SettingsError(setting, name, f"cannot be imported: {type(error).__name__}: {error}") from error
