"""The flow-run worker as a Cloud Run function: docs/flow.md says how to start and deploy it."""

from millpond.functions import flow_worker

__all__ = ["flow_worker"]
