"""Every setting: its environment variable, default, what is allowed, and what it means. One table.

`load` refuses what is wrong before anything starts, naming the variable, the value and what is allowed.
`docs/settings.md` is generated from this table, and a test keeps it so.
"""

from __future__ import annotations

import ipaddress
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
GOOGLE_CERTS_URL = "https://www.googleapis.com/oauth2/v1/certs"
FIRESTORE = "firestore"
# 002 requires them; a laptop should not have to know them.
_REQUIRED_ON_FIRESTORE = ("GCP_PROJECT", "ENV", "SYSTEM_EVENTS_TOPIC", "DEFAULT_REGION")
TABLE: tuple[Setting, ...] = (
    Setting("HOST", "127.0.0.1", parse.text(), "Address to listen on; on Cloud Run 0.0.0.0 unless set."),
    Setting("PORT", "8080", parse.whole(0, 65_535), "Port to listen on; 0 takes a free one."),
    Setting("STORE", "sqlite:var/millpond.db", parse.store, "Where documents live."),
    Setting(
        "ADMIN_TOKEN", "", parse.optional, "Bearer token that /api/* then needs; off loopback always.", secret=True
    ),
    Setting(
        "PUSH_AUDIENCE", "", parse.optional, "Audience of the tokens Pub/Sub pushes with; then each push needs one."
    ),
    Setting("PUSH_SERVICE_ACCOUNT", "", parse.optional, "E-mail of the service account Pub/Sub pushes as."),
    Setting(
        "PUSH_UNAUTHENTICATED",
        "refuse",
        parse.one_of("refuse", "allow"),
        "Whether to listen off loopback without PUSH_AUDIENCE.",
    ),
    Setting("PUSH_CERTS_URL", GOOGLE_CERTS_URL, parse.certs_url, "Where the keys that sign tokens are published."),
    Setting("GCP_PROJECT", "local", parse.project, "Google Cloud project of Firestore and Pub/Sub."),
    Setting("ENV", "dev", parse.text(), "Environment, part of document ids: prod, staging, …"),
    Setting("SYSTEM_EVENTS_TOPIC", "system.events", parse.text(), "Topic of system events."),
    Setting("DEFAULT_REGION", "local", parse.text(), "Region of services that name none."),
    Setting("FIRESTORE_DATABASE", "(default)", parse.database, "Firestore database."),
    Setting(
        "FIRESTORE_COLLECTION_PREFIX", "", parse.prefix, "Put before the name of every collection in Firestore."
    ),
    Setting(
        "FIRESTORE_RPC_DEADLINE_S", "3.0", parse.number(0.1, 60), "Longest a single call to Firestore may take."
    ),
    Setting("VIEWS", "", parse.modules, "Modules with views of your own, separated by commas."),
    Setting("ROUTES", "{}", parse.routes, "JSON: subscription → kind (whose views) and topic (as recorded)."),
    Setting("SUBSCRIPTION_TOPIC_MAP", "{}", parse.topic_map, "JSON: subscription → topic."),
    Setting("SOURCE_TOPIC", "", parse.optional, "Topic of every message that names none."),
    Setting(
        "CONSUMER_MAX_WORKERS", "8", parse.whole(1, 1_000), "Commits in flight at once (the embedded store: one)."
    ),
    Setting(
        "CONSUMER_QUEUE_SIZE",
        "64",
        parse.whole(1, 1_000_000),
        "Messages that may wait; beyond that, 429. Pull: under way at once.",
    ),
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
    Setting("EVENT_LOG", "auto", parse.on_off_auto, "Keep everything that arrived; auto: unless on Firestore."),
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
    Setting(
        "DLQ_TOPIC",
        "",
        parse.dlq_topic,
        "Pub/Sub topic for dead letters instead of the store: id or path, {subscription} is filled in.",
    ),
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
    push_audience: str | None
    push_service_account: str | None
    push_unauthenticated: str
    push_certs_url: str
    gcp_project: str
    env: str
    system_events_topic: str
    default_region: str
    firestore_database: str
    firestore_collection_prefix: str
    firestore_rpc_deadline_s: float
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
    def is_exposed(self) -> bool:
        """Whether others than this machine can reach HOST."""
        if self.host == "localhost":
            return False
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return True

    def check_exposure(self) -> None:
        """Refuse to take messages from anybody who can reach us."""
        if self.is_exposed and self.push_audience is None and self.push_unauthenticated == "refuse":
            raise SettingsError(
                "HOST",
                self.host,
                "others can reach it, and would be believed: set PUSH_AUDIENCE and PUSH_SERVICE_ACCOUNT, "
                "or PUSH_UNAUTHENTICATED=allow where something in front checks who calls",
            )

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
            bury_when_denied=self.access_denied == "dlq",
            receipts=Receipts(round(self.receipt_ttl_days * timestamps.DAY_US), self.max_future_skew_us),
        )


def load(environment: Mapping[str, str] | None = None, overrides: Mapping[str, str] | None = None) -> Settings:
    """The settings of `environment` (os.environ) with `overrides` from the command line on top."""
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
            text, origin = "0.0.0.0", "Cloud Run"  # noqa: S104 - where it listens, and behind its front end
        try:
            values[setting.field] = setting.parse(text)
        except ValueError as error:
            raise SettingsError(setting.name, text, f"must be {error}") from None
        origins[setting.name] = origin
    if values["event_log"] is None:
        values["event_log"] = values["store"] != FIRESTORE
    _check_together(values, on_cloud_run=on_cloud_run)
    _check_cloud(values, origins, emulated=bool(environment.get("PUBSUB_EMULATOR_HOST")))
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
    if values["firestore_retry_initial_backoff_s"] > values["firestore_retry_max_backoff_s"]:
        raise SettingsError(
            "FIRESTORE_RETRY_INITIAL_BACKOFF_S",
            values["firestore_retry_initial_backoff_s"],
            "must be at most FIRESTORE_RETRY_MAX_BACKOFF_S",
        )


def _check_cloud(values: Mapping[str, Any], origins: Mapping[str, str], *, emulated: bool) -> None:
    if values["store"] == FIRESTORE:
        for name in _REQUIRED_ON_FIRESTORE:
            if origins[name] == "default":
                raise SettingsError(name, "", "must be set where STORE=firestore")
    topic = values["dlq_topic"]
    if topic is not None and "/" not in topic and origins["GCP_PROJECT"] == "default" and not emulated:
        raise SettingsError("DLQ_TOPIC", topic, "must be a path, projects/P/topics/T, unless GCP_PROJECT is set")
    if values["access_denied"] == "dlq" and topic is None:
        raise SettingsError(
            "ACCESS_DENIED", "dlq", "must be retry unless DLQ_TOPIC is set, or the messages would be lost"
        )
    if (values["push_audience"] is None) != (values["push_service_account"] is None):
        given, missing = ("PUSH_AUDIENCE", "PUSH_SERVICE_ACCOUNT")
        if values["push_audience"] is None:
            given, missing = missing, given
        raise SettingsError(
            given, values[given.lower()], f"must be accompanied by {missing}: a token alone proves little"
        )
