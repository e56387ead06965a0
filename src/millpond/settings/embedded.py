"""The settings of an embedded pond: the defaults, and what the host gives. Called by `Pond`.

Never reads a setting from the environment: PORT, ENV or STORE there may belong to the host or to another program. A
host that wants them passes `load_settings()`, which is what `millpond serve` runs on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from millpond.core.errors import SettingsError
from millpond.core.suggest import suggest
from millpond.settings.loading import Settings, load
from millpond.settings.table import TABLE

# The server of the host listens, not the pond.
_OF_THE_HOST = ("HOST", "PORT", "HTTP_CONNECTIONS_MAX")
_ARGUMENTS = {"STORE": "store", "VIEWS": "views"}
# Not settings: they say on which platform the process runs.
_PLATFORM = ("K_SERVICE", "PUBSUB_EMULATOR_HOST")


def embedded_settings(
    store: str | Settings | None, given: Settings | Mapping[str, object] | None, *, built_in: bool
) -> Settings:
    """`built_in`: whether the pond has those that BUILT_IN_VIEWS chooses, or views of the host only."""
    if isinstance(store, Settings) and given is None:
        return store
    if isinstance(given, Settings):
        if store is not None:
            raise SettingsError("STORE", _named(store), "is given twice: the Settings object has a store already")
        return given
    if given is not None and not isinstance(given, Mapping):
        raise SettingsError("settings", type(given).__name__, "must be a dict of settings, or a Settings object")
    overrides = {str(name): _text(str(name), value) for name, value in (given or {}).items()}
    if not isinstance(store, str):
        what = 'must be "sqlite:PATH", "firestore" or "memory" (nothing is kept)'
        raise SettingsError("STORE", _named(store), what)
    platform = {name: os.environ[name] for name in _PLATFORM if name in os.environ}
    if not built_in and "BUILT_IN_VIEWS" in overrides:
        what = "has no effect beside views=…, which are all the views of the pond"
        raise SettingsError("BUILT_IN_VIEWS", overrides["BUILT_IN_VIEWS"], what)
    return load(platform, {**overrides, "STORE": store}, built_in=built_in)


def _named(store: object) -> str:
    return store if isinstance(store, str) else "" if store is None else type(store).__name__


def _text(name: str, value: object) -> str:
    known = [row.name for row in TABLE if row.name not in {*_OF_THE_HOST, *_ARGUMENTS}]
    if name in _ARGUMENTS:
        raise SettingsError(name, value, f"is an argument of its own: {_ARGUMENTS[name]}=…")
    if name in _OF_THE_HOST:
        raise SettingsError(name, value, "has no effect in an embedded pond: the host's server listens")
    if name not in known:
        raise SettingsError(name, "", f"there is no such setting; {suggest(name, known)}")
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str | int | float):
        return str(value)
    raise SettingsError(name, type(value).__name__, "must be text, a number or a boolean, as docs/settings.md says")
