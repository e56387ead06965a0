"""Events about flow runs, sent to a running server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.common.eventarc import FORMS, Form, Sent, attributes, full_name
from tests.common.server import Answer, Server, answer_of


def post(server: Server, sent: Sent, **headers: str) -> Answer:
    return answer_of(server.http.post("/events", content=sent.body, headers={**sent.headers, **headers}))


def event(
    run_id: str, run: Mapping[str, Any] | None, form: Form = FORMS["binary protobuf"], **changes: str | None
) -> Sent:
    """An event about a run; without a run it carries nothing."""
    given = attributes(**{"subject": f"documents/flow_runs/{run_id}", **changes})
    sent = form(run or {}, full_name(run_id), given)
    return sent if run is not None else Sent(sent.headers, b"")
