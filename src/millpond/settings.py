"""Every setting: its environment variable, default, what is allowed, and what it means. One table.

`load` refuses what is wrong before anything starts, naming the variable, the value and what is allowed.
`docs/settings.md` is generated from this table, and a test keeps it so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from millpond import settings_parse as parse
from millpond import timestamps
from millpond.engine import EngineRules
from millpond.errors import SettingsError
from millpond.receipts import Receipts
from millpond.route import RouteRules


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    default: str
    parse: parse.Parse
    meaning: str
    secret: bool = False

    @property
    def field(self) -> str:
        return self.name.lower()


_DAYS_MAX = 36_500
TABLE: tuple[Setting, ...] = (
    Setting("HOST", "127.0.0.1", parse.text(), "Address to listen on."),
    Setting("PORT", "8080", parse.whole(0, 65_535), "Port to listen on; 0 takes a free one."),
    Setting("STORE", "sqlite:var/millpond.db", parse.store, "Where documents live."),
    Setting("ADMIN_TOKEN", "", parse.optional, "Bearer token that /api/* then needs.", secret=True),
    Setting("GCP_PROJECT", "local", parse.text(), "Google Cloud project; not used by the embedded store."),
    Setting("ENV", "dev", parse.text(), "Environment, part of document ids: prod, staging, …"),
    Setting("SYSTEM_EVENTS_TOPIC", "system.events", parse.text(), "Topic of system events."),
    Setting("DEFAULT_REGION", "local", parse.text(), "Region of services that name none."),
    Setting("FIRESTORE_DATABASE", "(default)", parse.text(), "Firestore database; not used by the embedded store."),
    Setting("VIEWS", "", parse.modules, "Modules with views of your own, separated by commas."),
    Setting("ROUTES", "{}", parse.routes, "JSON: subscription → kind (whose views) and topic (as recorded)."),
    Setting("SUBSCRIPTION_TOPIC_MAP", "{}", parse.topic_map, "JSON: subscription → topic."),
    Setting("SOURCE_TOPIC", "", parse.optional, "Topic of every message that names none."),
    Setting(
        "CONSUMER_MAX_WORKERS", "8", parse.whole(1, 1_000), "Commits in flight at once (the embedded store: one)."
    ),
    Setting("CONSUMER_QUEUE_SIZE", "64", parse.whole(1, 1_000_000), "Messages that may wait; beyond that, 429."),
    Setting("FIRESTORE_RETRY_MAX_ATTEMPTS", "6", parse.whole(1, 100), "Tries of a failing commit, on any store."),
    Setting("FIRESTORE_RETRY_INITIAL_BACKOFF_S", "0.25", parse.number(0.001, 60), "Pause before the second try."),
    Setting("FIRESTORE_RETRY_MAX_BACKOFF_S", "6.0", parse.number(0.001, 600), "Longest pause between tries."),
    Setting(
        "FIRESTORE_RETRY_MAX_TOTAL_S", "8.0", parse.number(0.01, 600), "Time from arrival until retry is answered."
    ),
    Setting(
        "MAX_FUTURE_SKEW_S", "300", parse.number(0, 86_400), "Event times further ahead count as publish time."
    ),
    Setting(
        "POISON_POLICY", "auto", parse.one_of("auto", "park", "native"), "What becomes of poison: docs/letters.md."
    ),
    Setting("LETTER_TTL_DAYS", "14", parse.number(0.01, _DAYS_MAX), "How long dead letters are kept."),
    Setting(
        "VIEW_ERROR_PARK_AFTER_S",
        "3600",
        parse.number(0, 31_536_000),
        "Age at which a failing view's message is buried.",
    ),
    Setting(
        "RECEIPTS",
        "logical",
        parse.one_of("logical", "message"),
        "What a receipt stands for: an event, or a message.",
    ),
    Setting("RECEIPT_TTL_DAYS", "7", parse.number(0.01, _DAYS_MAX), "How long receipts are kept."),
    Setting("EVENT_LOG", "on", parse.on_off, "Keep everything that arrived."),
    Setting(
        "EVENT_LOG_TTL_DAYS", "off", parse.number(0.01, _DAYS_MAX, off=True), "How long; off keeps it for ever."
    ),
    Setting(
        "OPS_SERVICE_ID",
        "env_service",
        parse.one_of("env_service", "env_service_region", "service"),
        "Id of ops_services documents.",
    ),
    Setting("TICKS_MAX_LATE_S", "900", parse.number(0, 31_536_000), "Ticks later than this are ignored; 0 is off."),
    Setting("TICK_HISTORY", "on", parse.on_off, "Keep every tick in market_ticks."),
    Setting("TICK_HISTORY_TTL_DAYS", "7", parse.number(0.01, _DAYS_MAX), "How long ticks are kept."),
    Setting("BARS_ID", "natural", parse.one_of("natural", "event", "nested"), "Id of market_bars_1m documents."),
    Setting("BARS_MAX_BACKFILL_DAYS", "off", parse.number(0.01, _DAYS_MAX, off=True), "Older bars are ignored."),
    Setting("SIGNALS_ID", "natural", parse.one_of("natural", "event"), "Id of trade_signals documents."),
    Setting("SIGNALS_DISTINCT_BY_VERSION", "off", parse.on_off, "Model versions make distinct signals."),
    Setting(
        "ACCESS_DENIED", "retry", parse.one_of("retry", "dlq"), "When the store denies access; dlq needs DLQ_TOPIC."
    ),
    Setting("DLQ_TOPIC", "", parse.optional, "Pub/Sub topic for dead letters, instead of the store."),
    Setting(
        "DLQ_PUBLISH_DEADLINE_S", "10.0", parse.number(0.1, 600), "Time to publish a dead letter to DLQ_TOPIC."
    ),
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The effective settings. `origins` says where each came from: default, environment or command line."""

    host: str
    port: int
    store: str
    admin_token: str | None
    gcp_project: str
    env: str
    system_events_topic: str
    default_region: str
    firestore_database: str
    views: tuple[str, ...]
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
    poison_policy: str
    letter_ttl_days: float
    view_error_park_after_s: float
    receipts: str
    receipt_ttl_days: float
    event_log: bool
    event_log_ttl_days: float | None
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
    origins: dict[str, str]

    @property
    def max_future_skew_us(self) -> int:
        return round(self.max_future_skew_s * timestamps.SECOND_US)

    @property
    def store_path(self) -> Path | None:
        """The embedded store's file, or None where nothing is kept."""
        return Path(self.store.removeprefix("sqlite:")) if self.store.startswith("sqlite:") else None

    def route_rules(self) -> RouteRules:
        return RouteRules(
            env=self.env,
            routes=self.routes,
            subscription_topics=self.subscription_topic_map,
            source_topic=self.source_topic,
            max_future_skew=self.max_future_skew_us,
            receipts_by_message=self.receipts == "message",
        )

    def engine_rules(self) -> EngineRules:
        return EngineRules(
            queue_size=self.consumer_queue_size,
            batches_in_flight_max=self.consumer_max_workers,
            retry_attempts_max=self.firestore_retry_max_attempts,
            retry_backoff_initial_s=self.firestore_retry_initial_backoff_s,
            retry_backoff_max_s=self.firestore_retry_max_backoff_s,
            retry_total_max_s=self.firestore_retry_max_total_s,
            view_error_park_after_s=self.view_error_park_after_s,
            poison_policy=self.poison_policy,
            receipts=Receipts(round(self.receipt_ttl_days * timestamps.DAY_US), self.max_future_skew_us),
        )


def load(environment: Mapping[str, str] | None = None, overrides: Mapping[str, str] | None = None) -> Settings:
    """The settings of `environment` (os.environ) with `overrides` from the command line on top."""
    environment = os.environ if environment is None else environment
    overrides = overrides or {}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in TABLE:
        text, origin = setting.default, "default"
        if setting.name in overrides:
            text, origin = overrides[setting.name], "command line"
        elif setting.name in environment:
            text, origin = environment[setting.name], "environment"
        try:
            values[setting.field] = setting.parse(text)
        except ValueError as error:
            raise SettingsError(setting.name, text, f"must be {error}") from None
        origins[setting.name] = origin
    _check_together(values, on_cloud_run="K_SERVICE" in environment)
    return Settings(origins=origins, **values)


def _check_together(values: Mapping[str, Any], *, on_cloud_run: bool) -> None:
    if on_cloud_run and values["store"].startswith("sqlite:"):
        raise SettingsError(
            "STORE",
            values["store"],
            "cannot be used on Cloud Run: its disk is memory, and every instance has its own",
        )
    if values["receipt_ttl_days"] * 86_400 <= values["max_future_skew_s"]:
        raise SettingsError(
            "RECEIPT_TTL_DAYS",
            values["receipt_ttl_days"],
            "must be longer than MAX_FUTURE_SKEW_S, or no tally can count",
        )
    if values["dlq_topic"] is not None:
        raise SettingsError(
            "DLQ_TOPIC",
            values["dlq_topic"],
            "must be unset: this store keeps dead letters itself (millpond dlq list)",
        )
    if values["access_denied"] == "dlq":
        raise SettingsError("ACCESS_DENIED", "dlq", "must be retry: this store has no DLQ topic to turn to")
    if values["firestore_retry_initial_backoff_s"] > values["firestore_retry_max_backoff_s"]:
        raise SettingsError(
            "FIRESTORE_RETRY_INITIAL_BACKOFF_S",
            values["firestore_retry_initial_backoff_s"],
            "must be at most FIRESTORE_RETRY_MAX_BACKOFF_S",
        )
