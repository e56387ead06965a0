"""Loads and checks every view of this process: the built-in ones, and those of the modules in VIEWS.

A module in VIEWS either defines `views(settings)`, which returns view objects, or view classes: each class that is
defined in the module is used.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from types import ModuleType

from millpond.core.collections import is_own, root_of
from millpond.core.errors import SettingsError
from millpond.core.view import METHOD_OF_KIND, Latest, Merge, Tally, View
from millpond.plugins import import_module
from millpond.settings import Settings
from millpond.views.bars import MinuteBars
from millpond.views.pipelines import IngestPipelines
from millpond.views.services import OpsServices
from millpond.views.signals import TradeSignals
from millpond.views.ticks import LatestTicks, TickHistory

_UNDEFINED = (Latest.document, Merge.fields, Tally.fold)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")


def built_in_views(settings: Settings) -> list[View]:
    """The built-in views, configured by the settings."""
    skew_us, backfill_days = settings.max_future_skew_us, settings.bars_max_backfill_days
    views: list[View] = [
        OpsServices(
            topic=settings.system_events_topic,
            env=settings.env,
            region=settings.default_region,
            id_form=settings.ops_service_id,
            max_future_skew_us=skew_us,
        ),
        IngestPipelines(env=settings.env, max_future_skew_us=skew_us),
        LatestTicks(
            late_after_s=settings.ticks_max_late_s or None,
            has_history=settings.tick_history,
            max_future_skew_us=skew_us,
        ),
        MinuteBars(
            id_form=settings.bars_id,
            late_after_s=backfill_days * 86_400 if backfill_days else None,
            max_future_skew_us=skew_us,
        ),
        TradeSignals(
            id_form=settings.signals_id,
            distinct_by_version=settings.signals_distinct_by_version,
            max_future_skew_us=skew_us,
        ),
    ]
    if settings.tick_history:
        history = TickHistory(retention_days=settings.tick_history_ttl_days, max_future_skew_us=skew_us)
        views.insert(3, history)
    return views


def load_views(settings: Settings) -> list[View]:
    """Every view of this process. Mistakes raise SettingsError at start, not at the first message."""
    views = built_in_views(settings)
    for name in settings.views:
        views += _views_of(import_module("VIEWS", name), name, settings)
    _check(views, settings)
    return views


def _views_of(module: ModuleType, name: str, settings: Settings) -> list[View]:
    if hasattr(module, "views"):
        found = list(module.views(settings))
    else:
        found = [
            item()
            for item in vars(module).values()
            if inspect.isclass(item) and issubclass(item, View) and item.__module__ == module.__name__
        ]
    if not found:
        raise SettingsError("VIEWS", name, "defines no view: subclass millpond.Latest, Merge or Tally in it")
    return found


def _check(views: Sequence[View], settings: Settings) -> None:
    taken: set[str] = set()
    for view in views:
        root = root_of(view.collection)
        view.name = view.name or root
        if not isinstance(view.time, str):
            view.time = tuple(view.time)
        problem = _problem_of(view, root, settings)
        if problem is None and (is_own(root) or root in taken):
            problem = f"writes to {root}, which is taken: one collection belongs to one view"
        if problem is not None:
            raise SettingsError("VIEWS", f"{type(view).__module__}.{type(view).__name__}", problem)
        taken.add(root)


def _problem_of(view: View, root: str, settings: Settings) -> str | None:
    if not isinstance(view, Latest | Merge | Tally):
        return "must be a Latest, a Merge or a Tally"
    method = METHOD_OF_KIND[view.kind]
    if getattr(type(view), method) in _UNDEFINED:
        return f"must define {method}()"
    if not view.topics or isinstance(view.topics, str):
        return 'needs topics, for example ("orders",)'
    if not _NAME.fullmatch(root):
        return f"needs a collection of letters, digits, _ . -, not {view.collection!r}"
    if not _NAME.fullmatch(view.name):
        return f"needs a name of letters, digits, _ . -, not {view.name!r}"
    if isinstance(view, Tally) and (not view.receipts or settings.receipts == "message"):
        return "is a tally, which needs receipts = True and RECEIPTS=logical: without, an event may count twice"
    return None


def load_modules(names: Sequence[str], settings: Settings) -> list[View]:
    """The views of these modules alone, checked as `load_views` checks them."""
    views = [view for name in names for view in _views_of(import_module("VIEWS", name), name, settings)]
    check_views(views, settings)
    return views


def check_views(views: Sequence[View], settings: Settings) -> None:
    """Raise SettingsError for the first view that is declared wrong; complete their names."""
    _check(views, settings)
