"""Ingest heartbeats → `ingest_pipelines`: when each pipeline was last heard of."""

from __future__ import annotations

from collections.abc import Sequence

from millpond import (
    Document,
    Event,
    InvalidEvent,
    Latest,
    adopted_stamp,
    representable,
    text_or_none,
    to_datetime,
    trimmed,
)


class IngestPipelines(Latest):
    """One document per pipeline: status and last heartbeat."""

    topics = ("ingest-heartbeat",)
    event_types = ("ingest.heartbeat",)
    collection = "ingest_pipelines"
    representable = True
    single_key = True
    time = ("envelope.ts", "ts", "timestamp")
    sequence = ("sequence", "seq")

    def __init__(self, *, env: str, max_future_skew_us: int) -> None:
        self._env = env
        self._skew = max_future_skew_us

    def key_of(self, event: Event) -> Sequence[str]:
        return (_pipeline_of(event),)

    def document(self, event: Event) -> Document:
        own = self.time_of(event)
        at = to_datetime(event.publish_time if own is None else own)
        return {
            "pipelineId": _pipeline_of(event),
            "env": self._env,
            "tenantId": event.text("tenant_id", "tenantId") or text_or_none(event.payload.get("tenant")),
            "status": event.text("status") or "unknown",
            "lastHeartbeatAt": at,
            "updatedAt": at,
            "data": representable(event.payload),
        }

    def adopt(self, document: Document) -> str | None:
        return adopted_stamp(document, ("lastHeartbeatAt", "updatedAt"), max_future_skew=self._skew)


def _pipeline_of(event: Event) -> str:
    pipeline = event.text("pipeline_id", "pipelineId", "pipeline", "service")
    if pipeline is None:
        pipeline = trimmed(event.envelope.get("agent_name"), "agent_name")
    if pipeline is None:
        raise InvalidEvent("pipeline_id, pipeline, service and the envelope's agent_name are all missing")
    return pipeline
