"""Checks answers against the server's own OpenAPI description, and against rules that a schema cannot express.

Called by `run.py` for every answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jsonschema_rs

from proof.fuzz.requests import EVENTS, PUSH, Request
from proof.fuzz.wire import Answer, Reply

ACCEPTED = 200
RETRIED = frozenset({429, 503})
TAKEN = frozenset({"applied", "duplicate", "stale_ignored"})
# One example view has a bug. Any other reason to retry is a fault of the server.
_MAY_FAIL = frozenset({"view_error"})
_HEADERS = {405: "allow", 429: "retry-after"}


class ParsedAnswer(NamedTuple):
    """The fields of one answer, for the counts and the final comparison."""

    status: int
    reason: str
    outcome: str
    # Whether the answer is about a message, and its id and topic.
    is_message: bool
    message_id: str
    topic: str

    @property
    def is_accepted(self) -> bool:
        return self.status == ACCEPTED


class Contract:
    """The documented answers of the paths that are fuzzed."""

    def __init__(self, openapi: Mapping[str, Any]) -> None:
        self._openapi = openapi
        self._checks = {path: dict(self._of_path(path)) for path in (PUSH, EVENTS)}
        # The documented answers of a path that does not exist.
        failure = {"$ref": "#/components/schemas/Failure"}
        self._anywhere = (frozenset({"not_found"}), self._validator(failure))

    def reasons(self) -> dict[str, frozenset[tuple[int, str]]]:
        """By path, every status with every reason that is documented."""
        return {
            path: frozenset((status, reason) for status, (reasons, _) in checks.items() for reason in reasons)
            for path, checks in self._checks.items()
        }

    def _of_path(self, path: str) -> Iterator[tuple[int, tuple[frozenset[str], Any]]]:
        for status, response in self._openapi["paths"][path]["post"]["responses"].items():
            resolved = self._resolved(response)
            schema = resolved["content"]["application/json"]["schema"]
            yield int(status), (frozenset(self._words(schema)), self._validator(schema))

    def _resolved(self, node: Mapping[str, Any]) -> Any:
        found: Any = node
        while "$ref" in found:
            parts = found["$ref"].removeprefix("#/").split("/")
            found = self._openapi
            for part in parts:
                found = found[part]
        return found

    def _words(self, schema: Any) -> Iterator[str]:
        """The reasons a schema names, without those that users' views may add."""
        if isinstance(schema, list):
            for item in schema:
                yield from self._words(item)
        elif isinstance(schema, dict):
            reason = schema.get("properties", {}).get("reason", {})
            for branch in (reason, *reason.get("anyOf", ())):
                yield from branch.get("enum", ())
            for name in ("allOf", "anyOf"):
                yield from self._words(schema.get(name, []))

    def _validator(self, schema: Any) -> Any:
        dialect = "https://json-schema.org/draft/2020-12/schema"
        whole = {"$schema": dialect, "components": self._openapi["components"], **schema}
        return jsonschema_rs.validator_for(whole)

    def judge(self, request: Request, reply: Reply) -> tuple[list[ParsedAnswer], list[str]]:
        """The parsed answers, and every fault of them."""
        parsed: list[ParsedAnswer] = []
        faults: list[str] = [reply.trouble] if reply.trouble and request.framed else []
        if request.framed and not reply.answers and not faults:
            faults.append("no answer")
        for answer in reply.answers:
            found, wrong = self._judge_one(request, answer)
            faults += wrong
            if found is not None:
                parsed.append(found)
        return parsed, faults

    def _judge_one(self, request: Request, answer: Answer) -> tuple[ParsedAnswer | None, list[str]]:
        shown = f"{answer.status} {answer.body[:300]!r}"
        try:
            body = json.loads(answer.body)
            reason, outcome = str(body["reason"]), body.get("outcome", "")
        except (ValueError, TypeError, KeyError, AttributeError):
            return None, [f"the answer is no JSON object with a reason: {shown}"]
        is_message = "messageId" in body
        message_id, topic = body.get("messageId", ""), body.get("topic", "")
        parsed = ParsedAnswer(answer.status, reason, outcome, is_message, message_id, topic)
        faults = []
        if answer.status >= 500 and not (request.path == PUSH and answer.status == 503 and reason in _MAY_FAIL):
            faults.append(f"a server's fault: {shown}")
        if not self._is_documented(request, answer.status, reason, body):
            faults.append(f"not documented: {shown}")
        if not answer.headers.get("content-type", "").startswith("application/json"):
            faults.append(f"content type {answer.headers.get('content-type')!r}")
        if answer.status in _HEADERS and _HEADERS[answer.status] not in answer.headers:
            faults.append(f"{answer.status} without the header {_HEADERS[answer.status]}")
        return parsed, faults + [f"{fault}: {shown}" for fault in _contradictions(answer.status, body)]

    def _is_documented(self, request: Request, status: int, reason: str, body: Any) -> bool:
        candidates = [self._checks[request.path].get(status)]
        if not request.framed:
            # Mutated bytes may name either path, or another.
            candidates = [checks.get(status) for checks in self._checks.values()]
            candidates += [self._anywhere] if status == 404 else []
        return any(reason in found[0] and found[1].is_valid(body) for found in candidates if found is not None)


def _contradictions(status: int, body: Mapping[str, Any]) -> Iterator[str]:
    """Faults that a schema cannot express, such as an outcome that contradicts the status."""
    outcome = body.get("outcome")
    if outcome is not None:
        if (outcome == "retry") != (status in RETRIED):
            yield "outcome and status do not agree"
        if ("error" in body) != (status != ACCEPTED or outcome == "poison"):
            yield "an error although the message was taken, or none although it was not"
    views = body.get("views", [])
    if views and outcome not in {view["outcome"] for view in views}:
        yield "the views do not say what the answer says"
    if status != ACCEPTED and outcome == "poison" and any(view["outcome"] in TAKEN for view in views):
        yield "a view has taken what was refused"
    if outcome == "applied" and not views:
        yield "applied, and nowhere"
