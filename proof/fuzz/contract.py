"""What an answer must be, taken from the server's own OpenAPI description, and what the description cannot say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jsonschema_rs

from proof.fuzz.requests import EVENTS, PUSH, Request
from proof.fuzz.wire import Answer, Reply

ACCEPTED = 200
RETRIED = frozenset({429, 503})
# A view of the examples has bugs, as views have; every other reason to try again would be a fault of the server.
_MAY_FAIL = frozenset({"view_error"})
_HEADERS = {405: "allow", 429: "retry-after"}


class Told(NamedTuple):
    """What one answer said, for counting and for accounts."""

    status: int
    reason: str
    outcome: str
    # Whether the answer has the shape of a message's, and then whose.
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
        # What a path that is not there is told, whichever it is.
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
        """The reasons a schema names. Words that views of one's own might add are none of ours."""
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

    def judge(self, request: Request, reply: Reply) -> tuple[list[Told], list[str]]:
        """What the answers said, and everything that is wrong with them."""
        told: list[Told] = []
        faults: list[str] = [reply.trouble] if reply.trouble and request.framed else []
        if request.framed and not reply.answers and not faults:
            faults.append("no answer")
        for answer in reply.answers:
            found, wrong = self._judge_one(request, answer)
            faults += wrong
            if found is not None:
                told.append(found)
        return told, faults

    def _judge_one(self, request: Request, answer: Answer) -> tuple[Told | None, list[str]]:
        shown = f"{answer.status} {answer.body[:300]!r}"
        try:
            body = json.loads(answer.body)
            reason, outcome = str(body["reason"]), body.get("outcome", "")
        except (ValueError, TypeError, KeyError, AttributeError):
            return None, [f"the answer is no JSON object with a reason: {shown}"]
        is_message = "messageId" in body
        told = Told(answer.status, reason, outcome, is_message, body.get("messageId", ""), body.get("topic", ""))
        faults = []
        if answer.status >= 500 and not (request.path == PUSH and answer.status == 503 and reason in _MAY_FAIL):
            faults.append(f"a server's fault: {shown}")
        if not self._is_documented(request, answer.status, reason, body):
            faults.append(f"not documented: {shown}")
        if not answer.headers.get("content-type", "").startswith("application/json"):
            faults.append(f"content type {answer.headers.get('content-type')!r}")
        if answer.status in _HEADERS and _HEADERS[answer.status] not in answer.headers:
            faults.append(f"{answer.status} without the header {_HEADERS[answer.status]}")
        return told, faults + [f"{fault}: {shown}" for fault in _contradictions(answer.status, body)]

    def _is_documented(self, request: Request, status: int, reason: str, body: Any) -> bool:
        candidates = [self._checks[request.path].get(status)]
        if not request.framed:
            # Spoiled bytes may name either path, or another.
            candidates = [checks.get(status) for checks in self._checks.values()]
            candidates += [self._anywhere] if status == 404 else []
        return any(reason in found[0] and found[1].is_valid(body) for found in candidates if found is not None)


def _contradictions(status: int, body: Mapping[str, Any]) -> Iterator[str]:
    """What a schema cannot say: the outcome and the status mean the same."""
    outcome = body.get("outcome")
    if outcome is not None:
        if (outcome == "retry") != (status in RETRIED):
            yield "outcome and status do not agree"
        if ("error" in body) != (status != ACCEPTED):
            yield "an error where it was accepted, or none where it was not"
    views = body.get("views", [])
    if views and (status != ACCEPTED or outcome not in {view["outcome"] for view in views}):
        yield "the views do not say what the answer says"
    if outcome == "poison" and views:
        yield "poison in all, and yet views"
    if outcome == "applied" and not views:
        yield "applied, and nowhere"
