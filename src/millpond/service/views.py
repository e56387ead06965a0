"""Loads and checks every view of this process: the built-in ones, and those of the modules in VIEWS.

A module in VIEWS either defines `views(settings)`, which returns view objects, or view classes: each class that is
defined in the module is used. `core.declarations` checks all of them; `check_views` is for views from elsewhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from millpond.core.declarations import check_declarations, name_of
from millpond.core.errors import SettingsError
from millpond.core.suggest import suggest
from millpond.core.view import View
from millpond.plugins import import_module
from millpond.settings import Settings
from millpond.views.bars import MinuteBars
from millpond.views.pipelines import IngestPipelines
from millpond.views.services import OpsServices
from millpond.views.signals import TradeSignals
from millpond.views.ticks import LatestTicks, TickHistory

_PACKAGE = "millpond.views"


def built_in_views(settings: Settings) -> list[View]:
    """The built-in views that BUILT_IN_VIEWS chooses, configured by the settings."""
    views = {view.collection: view for view in _all_built_in(settings)}
    chosen = settings.built_in_views
    missing = next((name for name in chosen if name not in {"all", "none", *views}), None)
    if missing is not None:
        what = f"TICK_HISTORY and BARS_ID, as they are, leave no view {missing}; {suggest(missing, views)}"
        raise SettingsError("BUILT_IN_VIEWS", ",".join(chosen), what)
    return [view for name, view in views.items() if settings.has_built_in(name)]


def is_built_in(view: View) -> bool:
    """Whether Millpond has it itself; a subclass in a module of a user is one of the user's."""
    return type(view).__module__.startswith(f"{_PACKAGE}.")


def _all_built_in(settings: Settings) -> list[View]:
    """Their names are their collections."""
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
            has_history=settings.tick_history and settings.has_built_in("market_ticks"),
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
    if not views:
        what = (
            "leaves no view to load: name modules with views of your own in VIEWS (docs/views.md), or set it to all"
        )
        raise SettingsError("BUILT_IN_VIEWS", ",".join(settings.built_in_views), what)
    check_views(views, settings)
    return views


def given_views(given: Sequence[View | type[View] | str], settings: Settings) -> list[View]:
    """The views of an embedded pond: view objects, view classes, and the views of the modules that are named."""
    if isinstance(given, str | View | type) or not isinstance(given, Sequence) or not given:
        raise SettingsError("VIEWS", given, "must be a list with at least one view: views=[Orders()]")
    views: list[View] = []
    for item in given:
        if isinstance(item, str):
            views += _views_of(import_module("VIEWS", item), item, settings)
        elif isinstance(item, type) and issubclass(item, View):
            views.append(_made(item))
        elif isinstance(item, View):
            views.append(item)
        else:
            raise SettingsError("VIEWS", item, "must be a view object, a view class, or a module's name")
    check_views(views, settings, setting="views")
    return views


def check_views(views: Sequence[View], settings: Settings, *, setting: str = "VIEWS") -> None:
    """Refuse views that are declared wrongly, or contradict each other or the settings. Raises SettingsError.

    `setting` is what the error calls the place that they are from.
    """
    check_declarations(views, receipts_by_message=settings.receipts == "message", setting=setting)


def _views_of(module: ModuleType, name: str, settings: Settings) -> list[View]:
    found = _returned_by(module.views, name, settings) if hasattr(module, "views") else _defined_in(module)
    if not found:
        raise SettingsError("VIEWS", name, "defines no view: subclass millpond.Latest, Merge or Tally in it")
    return found


def _returned_by(views: Any, name: str, settings: Settings) -> list[View]:
    """The views that a module's `views(settings)` returns."""
    try:
        if inspect.iscoroutinefunction(views):
            raise TypeError("it must not be async")  # noqa: TRY301
        inspect.signature(views).bind(settings)
    except (TypeError, ValueError) as error:
        text = f"views must be a function, def views(settings): return [...] ({error})"
        raise SettingsError("VIEWS", name, text) from None
    try:
        found = views(settings)
    except Exception as error:
        raise SettingsError("VIEWS", name, f"views(settings) raised {type(error).__name__}: {error}") from error
    if not isinstance(found, list | tuple):
        text = f"views(settings) must return a list of views, not {type(found).__name__}"
        raise SettingsError("VIEWS", name, text)
    return list(found)


def _defined_in(module: ModuleType) -> list[View]:
    """An object of each view class that is defined in the module, except a private base of another of them."""
    classes = [
        item
        for item in vars(module).values()
        if inspect.isclass(item) and issubclass(item, View) and item.__module__ == module.__name__
    ]
    return [_made(item) for item in dict.fromkeys(classes) if not _is_private_base(item, classes)]


def _is_private_base(item: type[View], classes: Sequence[type[View]]) -> bool:
    return item.__name__.startswith("_") and any(other is not item and issubclass(other, item) for other in classes)


def _made(item: type[View]) -> View:
    """An object of the class."""
    name = name_of(item)
    if inspect.isabstract(item):
        missing = ", ".join(sorted(item.__abstractmethods__))  # type: ignore[attr-defined]
        text = f"is abstract: define {missing}, or begin the name of a base of other views with _"
        raise SettingsError("VIEWS", name, text)
    try:
        return item()
    except Exception as error:
        text = f"its constructor raised {type(error).__name__}: {error}"
        if isinstance(error, TypeError) and _needs_arguments(item):
            text = f"its constructor needs arguments: give an object instead, or define views(settings) ({error})"
        raise SettingsError("VIEWS", name, text) from error


def _needs_arguments(item: type[View]) -> bool:
    try:
        inspect.signature(item).bind()
    except TypeError:
        return True
    return False


def load_modules(names: Sequence[str], settings: Settings) -> list[View]:
    """The views of these modules alone, checked as `load_views` checks them."""
    views = [view for name in names for view in _views_of(import_module("VIEWS", name), name, settings)]
    check_views(views, settings)
    return views
