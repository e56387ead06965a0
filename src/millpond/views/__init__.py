"""The built-in views, and the loader that adds a user's own.

A views module either defines `views(settings)` and returns view objects, or simply defines view classes: each
one written in it is used.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Sequence
from types import ModuleType

from millpond.errors import SettingsError
from millpond.settings import Settings
from millpond.view import Latest, Merge, Tally, View
from millpond.views import bars, ops, pipelines, signals, ticks

BUILT_IN: tuple[ModuleType, ...] = (ops, pipelines, ticks, bars, signals)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")


def load_views(settings: Settings) -> list[View]:
    """Every view this process serves, checked so that a mistake is found at start, not at the first message."""
    views = [view for module in BUILT_IN for view in module.views(settings)]
    for name in settings.views:
        views += _views_of(_import(name), name, settings)
    _check(views, settings)
    return views


def _import(name: str) -> ModuleType:
    # A user's module usually lies in the folder the command is run from.
    if os.getcwd() not in sys.path:  # noqa: PTH109 - sys.path holds text
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise SettingsError("VIEWS", name, f"cannot be imported: {type(error).__name__}: {error}") from error


def _views_of(module: ModuleType, name: str, settings: Settings) -> list[View]:
    if hasattr(module, "views"):
        found = list(module.views(settings))
    else:
        found = [
            item()
            for item in vars(module).values()
            if inspect.isclass(item)
            and issubclass(item, View)
            and item.__module__ == module.__name__
            and not inspect.isabstract(item)
        ]
    if not found:
        raise SettingsError("VIEWS", name, "defines no view: subclass millpond.Latest, Merge or Tally in it")
    return found


def _check(views: Sequence[View], settings: Settings) -> None:
    owners: dict[str, View] = {}
    for view in views:
        root = view.collection.split("/", 1)[0]
        view.name = view.name or root
        what = f"{type(view).__module__}.{type(view).__name__}"
        problem = None
        if not isinstance(view, Latest | Merge | Tally):
            problem = "must be a Latest, a Merge or a Tally"
        elif not view.topics or isinstance(view.topics, str):
            problem = 'needs topics, for example ("orders",)'
        elif not _NAME.fullmatch(root):
            problem = f"needs a collection of letters, digits, _ . -, not {view.collection!r}"
        elif not _NAME.fullmatch(view.name):
            problem = f"needs a name of letters, digits, _ . -, not {view.name!r}"
        elif root in owners or root in {"ops_dedupe", "dead_letters", "flow_runs"}:
            problem = f"writes to {root}, which is taken: one collection belongs to one view"
        elif isinstance(view, Tally) and not view.receipts:
            problem = "is a tally, which needs receipts"
        elif isinstance(view, Tally) and settings.receipts == "message":
            problem = "is a tally, which needs RECEIPTS=logical: by message, a republished event counts twice"
        if problem:
            raise SettingsError("VIEWS", what, problem)
        owners[root] = view
