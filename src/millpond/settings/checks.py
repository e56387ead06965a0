"""Refuses settings that do not go together, at start: each names the variable and what to do. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from millpond.core.errors import SettingsError, SettingsMissing

if TYPE_CHECKING:
    from millpond.settings.loading import Settings

FIRESTORE = "firestore"
# They name shared resources, so they have no default on Firestore. An embedded store does not need them.
REQUIRED_ON_FIRESTORE = ("GCP_PROJECT", "ENV")
# Those that a built-in view needs on Firestore as well.
REQUIRED_BY_VIEW = {"ops_services": ("SYSTEM_EVENTS_TOPIC", "DEFAULT_REGION")}


def check_together(values: Mapping[str, Any], *, on_cloud_run: bool) -> None:
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


def chooses(built_in_views: Sequence[str], view: str) -> bool:
    """Whether this value of BUILT_IN_VIEWS is all, or names the view."""
    return "all" in built_in_views or view in built_in_views


def check_cloud(values: Mapping[str, Any], origins: Mapping[str, str], *, built_in: bool, emulated: bool) -> None:
    if values["store"] == FIRESTORE:
        _check_required(origins, values["built_in_views"] if built_in else ())
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


def _check_required(origins: Mapping[str, str], built_in_views: Sequence[str]) -> None:
    """Refuse to start without what has no default on Firestore. All that is missing is in one message."""
    missing = [name for name in REQUIRED_ON_FIRESTORE if origins[name] == "default"]
    advice = ""
    for view, names in REQUIRED_BY_VIEW.items():
        of_view = [name for name in names if origins[name] == "default" and chooses(built_in_views, view)]
        if of_view:
            missing += of_view
            advice += f" ({' and '.join(of_view)} only while BUILT_IN_VIEWS includes {view})"
    if missing:
        raise SettingsMissing(missing, f"with STORE=firestore{advice}")


def check_exposure(settings: Settings) -> None:
    """Refuse to accept unauthenticated messages from other machines. Called by servers that take pushes."""
    if settings.is_exposed and settings.push_audience is None and settings.push_unauthenticated == "refuse":
        raise SettingsError(
            "HOST",
            settings.host,
            "others can reach it, and would be believed: set PUSH_AUDIENCE and PUSH_SERVICE_ACCOUNT, "
            "or PUSH_UNAUTHENTICATED=allow where something in front checks who calls",
        )
