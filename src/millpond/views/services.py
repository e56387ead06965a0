"""System events → `ops_services`: the current health of each service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millpond import Document, Event, InvalidEvent, Latest, adopted_stamp, is_blank, text_or_none, to_datetime

_UNKNOWN = "unknown"
# Severity → status, if a service sends no status: Cloud Logging's severities, and two common others.
_STATUS_OF_SEVERITY = {
    **dict.fromkeys(("DEBUG", "INFO", "NOTICE"), "healthy"),
    **dict.fromkeys(("WARN", "WARNING"), "degraded"),
    **dict.fromkeys(("ERROR", "CRITICAL", "ALERT", "EMERGENCY", "FATAL"), "down"),
}


class OpsServices(Latest):
    """One document per service: status, version, region, last heartbeat."""

    collection = "ops_services"
    representable = True
    time = ("producedAt", "publishedAt", "timestamp")
    sequence = ("sequence", "seq")

    def __init__(self, *, topic: str, env: str, region: str, id_form: str, max_future_skew_us: int) -> None:
        self.topics = (topic,)
        self.event_types = ("system.event", "system.events", "system_event")
        self._env = env
        self._region = region
        self._id = id_form
        self._skew = max_future_skew_us
        self.single_key = self._id == "service"

    def matches(self, payload: Mapping[str, Any]) -> bool:
        service = payload.get("service")
        return isinstance(service, str) and not is_blank(service) and not is_blank(payload.get("timestamp"))

    def key_of(self, event: Event) -> Sequence[str]:
        service = _service_of(event)
        if self._id == "service":
            return (service,)
        if self._id == "env_service_region":
            return (self._env, service, event.text("region") or self._region)
        return (self._env, service)

    def document(self, event: Event) -> Document:
        own = self.time_of(event)
        at = to_datetime(event.publish_time if own is None else own)
        return {
            "serviceId": _service_of(event),
            "env": self._env,
            "status": event.text("status") or _status_by_severity(event),
            "lastHeartbeatAt": at,
            "version": _version_of(event),
            "region": event.text("region") or self._region or _UNKNOWN,
            "updatedAt": at,
        }

    def adopt(self, document: Document) -> str | None:
        return adopted_stamp(document, ("lastHeartbeatAt", "updatedAt"), max_future_skew=self._skew)


def _service_of(event: Event) -> str:
    service = event.text("service")
    if service is None:
        raise InvalidEvent("service is missing")
    return service


def _status_by_severity(event: Event) -> str:
    """`unknown` for a severity that is no text or no known word."""
    severity = event.payload.get("severity")
    word = severity.strip().upper() if isinstance(severity, str) else ""
    return _STATUS_OF_SEVERITY.get(word, _UNKNOWN)


def _version_of(event: Event) -> str:
    payload = event.payload
    shas = (payload.get("sha"), payload.get("git_sha"), payload.get("gitSha"), event.envelope.get("git_sha"))
    # A version that is no text is poison; a commit that is no text is ignored.
    return event.text("version") or next(filter(None, map(text_or_none, shas)), _UNKNOWN)
