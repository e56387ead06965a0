"""Every setting: its environment variable, default, allowed values and meaning. One table.

`settings.load` reads it; `docs/settings.md` is generated from it, and a test compares the two.
"""

from __future__ import annotations

from typing import NamedTuple

from millpond.settings import parse
from millpond.settings.prices import prices


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
# As `millpond views` lists them; with BARS_ID=nested the bars have the last name.
BUILT_IN_VIEWS = (
    "ops_services",
    "ingest_pipelines",
    "market_ticks_latest",
    "market_ticks",
    "market_bars_1m",
    "trade_signals",
    "market_bars_1m_by_symbol",
)
GOOGLE_CERTS_URL = "https://www.googleapis.com/oauth2/v1/certs"
TABLE: tuple[Setting, ...] = (
    Setting("HOST", "127.0.0.1", parse.text(), "Address to listen on; on Cloud Run 0.0.0.0 unless set."),
    Setting("PORT", "8080", parse.whole(0, 65_535), "Port to listen on; 0 takes a free one."),
    Setting("STORE", "sqlite:var/millpond.db", parse.store, "Where documents live."),
    Setting(
        "ADMIN_TOKEN",
        "",
        parse.optional,
        "Bearer token that /api/* requires; it may be unset only on loopback.",
        secret=True,
    ),
    Setting(
        "PUSH_AUDIENCE",
        "",
        parse.optional,
        "Audience of Pub/Sub's push tokens; if it is set, each push needs a token.",
    ),
    Setting("PUSH_SERVICE_ACCOUNT", "", parse.optional, "E-mail of the service account Pub/Sub pushes as."),
    Setting(
        "PUSH_UNAUTHENTICATED",
        "refuse",
        parse.one_of("refuse", "allow"),
        "Whether to listen off loopback without PUSH_AUDIENCE.",
    ),
    Setting("PUSH_CERTS_URL", GOOGLE_CERTS_URL, parse.certs_url, "Where the keys that sign tokens are published."),
    Setting(
        "HTTP_CONNECTIONS_MAX",
        "2000",
        parse.whole(1, 1_000_000),
        "Connections at once; at the limit slow and idle ones are closed, then new ones get 503.",
    ),
    Setting(
        "HTTP_BODIES_MIB",
        "64",
        parse.whole(1, 65_536),
        "MiB of request bodies in memory at once; beyond that a body waits unread, and gets 429 after a second.",
    ),
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
    Setting(
        "FIRESTORE_PRICES",
        "",
        prices,
        "What Firestore costs in your region, for `millpond cost`; without it, it shows operations only.",
    ),
    Setting(
        "BULK_PACE",
        "auto",
        parse.one_of("auto", "on", "off"),
        "Whether ingest, replays, rebuilds and moved ids ramp up by Google's rule; auto: on Firestore only.",
    ),
    Setting("VIEWS", "", parse.modules, "Modules with views of your own, separated by commas."),
    Setting(
        "BUILT_IN_VIEWS",
        "all",
        parse.some_of(*BUILT_IN_VIEWS),
        "Which of the views that Millpond has itself are loaded.",
    ),
    Setting("ROUTES", "{}", parse.routes, "JSON: subscription → kind (whose views) and topic (as shown)."),
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
        "NAIVE_TIMES",
        "reject",
        parse.one_of("reject", "utc"),
        "Times in payloads without an offset: poison, or UTC.",
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
        "VIEW_ERRORS",
        "auto",
        parse.one_of("auto", "full", "brief"),
        "What is shown of an exception in a view: its text and traceback, which may quote the payload, or its type "
        "and line; auto: full unless STORE=firestore or others can reach HOST.",
    ),
    Setting(
        "RECEIPTS",
        "all",
        parse.one_of("all", "tallies", "message", logical="all"),
        "Which views leave receipts of events: all, or only tallies, which need them; message: all, by message.",
    ),
    Setting("RECEIPT_TTL_DAYS", "7", parse.number(0.01, _DAYS_MAX), "How long receipts are kept."),
    Setting("EVENT_LOG", "on", parse.event_log, "Keep everything that arrived, for why, verify and rebuild."),
    Setting(
        "EVENT_LOG_TTL_DAYS",
        "off",
        parse.number(0.01, _DAYS_MAX, off=True),
        "How long the event log is kept; off: for ever.",
    ),
    Setting("HISTORY", "on", parse.on_off, "Keep the sums of each minute of a day in the store, for the overview."),
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
        "ACCESS_DENIED",
        "retry",
        parse.one_of("retry", "dlq"),
        "If the store denies access: answer retry, or publish to DLQ_TOPIC.",
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
    Setting("STEPS", "", parse.modules, "Modules with flow-run steps of your own, separated by commas."),
    Setting("FLOW_LEASE_S", "60", parse.number(0.1, 3_600), "How long a claim of a step holds, unless renewed."),
    Setting(
        "FLOW_ATTEMPTS_MAX", "3", parse.whole(1, 100), "Claims of a step whose workers went silent; then FAILED."
    ),
    Setting("FLOW_STEP_MAX_S", "600", parse.number(0.1, 86_400), "Longest a step may run; then it is FAILED."),
    Setting("FLOW_STEPS_AT_ONCE", "4", parse.whole(1, 1_000), "Steps one process works on at the same time."),
    Setting("ARTIFACTS_DIR", "var/artifacts", parse.text(), "Folder for the files that steps make."),
    Setting(
        "CHARTS_DEFAULT_TIMEZONE", "UTC", parse.timezone, "Time zone of the times on charts, such as Europe/Berlin."
    ),
)
