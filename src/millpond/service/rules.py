"""Settings → the rules of the router and the engine, which never read settings themselves. Pure."""

from __future__ import annotations

from millpond.core import timestamps
from millpond.core.receipts import Receipts
from millpond.core.route import RouteRules
from millpond.core.topics import TopicRules
from millpond.engine.rules import EngineRules
from millpond.settings import Settings


def route_rules(settings: Settings) -> RouteRules:
    return RouteRules(
        env=settings.env,
        topics=TopicRules(
            routes=settings.routes,
            subscription_topics=settings.subscription_topic_map,
            source_topic=settings.source_topic,
        ),
        max_future_skew=settings.max_future_skew_us,
        receipts_by_message=settings.receipts == "message",
        receipts_of_tallies_only=settings.receipts == "tallies",
        naive_as_utc=settings.naive_times == "utc",
    )


def engine_rules(settings: Settings) -> EngineRules:
    return EngineRules(
        queue_size=settings.consumer_queue_size,
        batches_in_flight_max=settings.consumer_max_workers,
        retry_attempts_max=settings.firestore_retry_max_attempts,
        retry_backoff_initial_s=settings.firestore_retry_initial_backoff_s,
        retry_backoff_max_s=settings.firestore_retry_max_backoff_s,
        retry_total_max_s=settings.firestore_retry_max_total_s,
        view_error_park_after_s=settings.view_error_park_after_s,
        view_errors_in_full=settings.view_errors_in_full,
        poison_policy=settings.poison_policy,
        bury_when_denied=settings.access_denied == "dlq",
        receipts=Receipts(round(settings.receipt_ttl_days * timestamps.DAY_US), settings.max_future_skew_us),
    )
