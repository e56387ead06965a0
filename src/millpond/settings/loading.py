"""Loads the effective settings from the environment and the command line, each with where it came from.

`load` refuses what is wrong before anything starts, naming the variable, the value and what is allowed (`parse`,
`checks`). Never builds anything.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from millpond.core import timestamps
from millpond.core.errors import SettingsError
from millpond.settings.checks import FIRESTORE, check_cloud, check_together, chooses
from millpond.settings.prices import Prices
from millpond.settings.table import TABLE


class SettingsByName(Mapping[str, Any]):
    """Settings by variable, read-only and without secrets: `settings["BARS_ID"]` or `settings.bars_id`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, field: str) -> Any:
        if field.startswith("_") or field.upper() not in self._values:
            raise AttributeError(f"there is no setting {field.upper()}, or it is a secret")
        return self._values[field.upper()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The effective settings. `origins` says where each came from: default, environment or command line."""

    host: str
    port: int
    store: str
    admin_token: str | None
    push_audience: str | None
    push_service_account: str | None
    push_unauthenticated: str
    push_certs_url: str
    http_connections_max: int
    http_bodies_mib: int
    gcp_project: str
    env: str
    system_events_topic: str
    default_region: str
    firestore_database: str
    firestore_collection_prefix: str
    firestore_rpc_deadline_s: float
    bulk_pace: str
    firestore_prices: Prices | None
    views: tuple[str, ...]
    built_in_views: tuple[str, ...]
    routes: dict[str, dict[str, str]]
    subscription_topic_map: dict[str, str]
    source_topic: str | None
    consumer_max_workers: int
    consumer_queue_size: int
    firestore_retry_max_attempts: int
    firestore_retry_initial_backoff_s: float
    firestore_retry_max_backoff_s: float
    firestore_retry_max_total_s: float
    max_future_skew_s: float
    naive_times: str
    poison_policy: str
    letter_ttl_days: float
    view_error_park_after_s: float
    view_errors: str
    receipts: str
    receipt_ttl_days: float
    event_log: bool
    event_log_ttl_days: float | None
    history: bool
    ops_service_id: str
    ticks_max_late_s: float
    tick_history: bool
    tick_history_ttl_days: float
    bars_id: str
    bars_max_backfill_days: float | None
    signals_id: str
    signals_distinct_by_version: bool
    access_denied: str
    dlq_topic: str | None
    dlq_publish_deadline_s: float
    steps: tuple[str, ...]
    flow_lease_s: float
    flow_attempts_max: int
    flow_step_max_s: float
    flow_steps_at_once: int
    artifacts_dir: str
    charts_default_timezone: str
    origins: dict[str, str]

    @property
    def max_future_skew_us(self) -> int:
        return round(self.max_future_skew_s * timestamps.SECOND_US)

    @property
    def is_exposed(self) -> bool:
        """Whether other machines can reach HOST."""
        if self.host == "localhost":
            return False
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return True

    @property
    def view_errors_in_full(self) -> bool:
        """Whether the text and traceback of an exception in a view are shown, although they may quote payloads."""
        if self.view_errors == "auto":
            return self.store != FIRESTORE and not self.is_exposed
        return self.view_errors == "full"

    def has_built_in(self, view: str) -> bool:
        """Whether BUILT_IN_VIEWS is all, or names this view."""
        return chooses(self.built_in_views, view)

    def by_name(self) -> SettingsByName:
        """The settings that steps get."""
        return SettingsByName({row.name: getattr(self, row.field) for row in TABLE if not row.secret})

    @property
    def store_path(self) -> Path | None:
        """The embedded store's file; None for other stores."""
        return Path(self.store.removeprefix("sqlite:")) if self.store.startswith("sqlite:") else None


def load(
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
    *,
    built_in: bool = True,
) -> Settings:
    """The settings of `environment` (os.environ) with `overrides` from the command line on top.

    `built_in` is False for a pond with views of its own, whatever BUILT_IN_VIEWS says.
    """
    environment = os.environ if environment is None else environment
    overrides = overrides or {}
    on_cloud_run = "K_SERVICE" in environment
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in TABLE:
        text, origin = setting.default, "default"
        if setting.name in overrides:
            text, origin = overrides[setting.name], "command line"
        elif setting.name in environment:
            text, origin = environment[setting.name], "environment"
        elif setting.name == "HOST" and on_cloud_run:
            text, origin = "0.0.0.0", "Cloud Run"  # noqa: S104 - Cloud Run needs it, behind its front end
        try:
            values[setting.field] = setting.parse(text)
        except ValueError as error:
            raise SettingsError(setting.name, text, f"must be {error}") from None
        origins[setting.name] = origin
    check_together(values, on_cloud_run=on_cloud_run)
    emulated = bool(environment.get("PUBSUB_EMULATOR_HOST"))
    check_cloud(values, origins, built_in=built_in, emulated=emulated)
    return Settings(origins=origins, **values)
