"""`/openapi.json` against the table of routes, the pages, its own examples, and a running server."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response

from millpond.core.answers import ViewAnswer
from millpond.flow.sweep import SweepReport
from millpond.http.access import Access
from millpond.http.app import build_table
from millpond.http.openapi import description
from millpond.http.routing import Route
from millpond.ingress.push import Answer, Refusal
from millpond.stores.memory import MemoryStore
from tests.acceptance.test_access import ROUTES
from tests.common.issuer import ACCOUNT, AUDIENCE
from tests.common.process import clean_environment
from tests.common.push import JSON, push_body
from tests.common.rig import Rig
from tests.common.server import Server, Start

ROOT = Path(__file__).parents[2]
TOKEN = "correct-horse-battery"  # noqa: S105 - made up for this test
DESCRIPTION = description(ROUTES)
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMATHESIS_S = 120
# They do not end, so no test waits for the whole of them: test_live.py reads them.
STREAMS = {"/api/live", "/api/tail"}
# Only there it succeeds: tests/instances/test_cost.py.
ON_FIRESTORE = {"/api/cost"}
# Cases there were when this was written: 1,300. Far fewer would mean that something was not asked.
CASES_MIN = 1_000


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DESCRIPTION["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def resolved(node: Any) -> Any:
    while "$ref" in node:
        found: Any = DESCRIPTION
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def every(node: Any, wanted: str) -> Iterator[Any]:
    """Every value under this name, at any depth."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == wanted:
                yield value
            yield from every(value, wanted)
    elif isinstance(node, list):
        for value in node:
            yield from every(value, wanted)


def validator(schema: Any) -> Any:
    return jsonschema_rs.validator_for({"$schema": DIALECT, "components": DESCRIPTION["components"], **schema})


# --- the document ------------------------------------------------------------------------------------------------


def test_every_route_is_described_and_nothing_else() -> None:
    """Paths, methods and who may use them are those of the table; the push path, answered before it, has POST."""
    described = {path: set(item) for path, item in DESCRIPTION["paths"].items()}
    there = {route.path: {method.lower() for method in route.methods} for route in ROUTES}
    assert there.pop("/pubsub/push") == set()
    assert described == {**there, "/pubsub/push": {"post"}}
    rules = {route.path: route.access.name.lower() for route in ROUTES}
    assert {path: operation["tags"] for path, _, operation in operations()} == {
        path: [rule] for path, rule in rules.items()
    }


def test_a_route_that_is_not_described_does_not_start() -> None:
    """Nor does one without a method, or one that leads to an operation that is not there."""

    async def undescribed(_: Request) -> Response:
        return Response()

    with pytest.raises(ValueError, match="GET /more"):
        description([*ROUTES, Route("/more", {"GET": undescribed}, Access.OPEN)])
    with pytest.raises(ValueError, match="/pubsub/push leads to what is not there"):
        description([route for route in ROUTES if not route.path.startswith("/api/why")])
    with pytest.raises(ValueError, match="/api/stats"):
        description([r._replace(methods={}) if r.path == "/api/stats" else r for r in ROUTES])


def test_it_is_valid() -> None:
    """By the rules of JSON Schema, with every reference leading somewhere and every name used once, and used."""
    for schema in DESCRIPTION["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": DIALECT, **schema})
    for reference in every(DESCRIPTION, "$ref"):
        resolved({"$ref": reference})
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))
    for link in every(DESCRIPTION, "links"):
        assert {target["operationId"] for target in link.values()} <= set(names)
    used = {reference.rpartition("/")[2] for reference in every(DESCRIPTION, "$ref")}
    assert used == DESCRIPTION["components"]["schemas"].keys() | DESCRIPTION["components"]["responses"].keys()


def test_answers_are_described_whole() -> None:
    """An answer has no other fields than those described, and all of them, also those with a default.

    Only the trace of a view's exception may be left out, and what a letter has after its first replay.
    """
    schemas = DESCRIPTION["components"]["schemas"]
    for struct, optional in ((Answer, set()), (Refusal, {"trace"}), (ViewAnswer, set()), (SweepReport, set())):
        schema = schemas[struct.__name__]
        assert schema["properties"].keys() - set(schema["required"]) == optional, struct
        assert schema["additionalProperties"] is False
    letter = schemas["LetterSummary"]
    replayed = {"replayedAt", "replayOutcome", "replayReason", "replayedEdits"}
    assert letter["properties"].keys() - set(letter["required"]) == {"trace", *replayed}


def test_tokens_are_asked_for_where_they_are_set() -> None:
    """The description is that of this server: without a token, none is asked for."""
    both = {"PUSH_AUDIENCE": AUDIENCE, "PUSH_SERVICE_ACCOUNT": ACCOUNT, "ADMIN_TOKEN": TOKEN}
    assert {*map(str, every(description_of({}), "security"))} == {"[]"}
    for path, item in description_of(both)["paths"].items():
        access = next(route.access for route in ROUTES if route.path == path)
        scheme = {Access.PUSH: "pushToken", Access.ADMIN: "adminToken"}.get(access)
        assert [operation["security"] for operation in item.values()] == [[{scheme: []}] if scheme else []] * len(
            item
        )


def description_of(environment: dict[str, str]) -> Any:
    """As `build_app` makes it."""
    service = Rig(MemoryStore(), **environment).service
    service.log.close()
    asked = {Access.PUSH: service.settings.push_audience, Access.ADMIN: service.settings.admin_token}
    return description(build_table(service).routes, frozenset(access for access, token in asked.items() if token))


# --- the pages ---------------------------------------------------------------------------------------------------


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def words(cell: str) -> set[str]:
    return set(re.findall(r"`([a-z]\w*)`", cell))


def reasons_on_pages() -> set[tuple[int, str]]:
    """Status and reason, of the table in http-api.md, the one of events, and the lists they refer to."""
    ordering = page("ordering.md")
    poison = set(re.findall(r"^\| `(\w+)` \|", ordering.partition("### Poison: the message")[2], re.MULTILINE))
    envelope = {word for status, word in _rows(page("http-api.md")) if status == 400 and "_" in word}
    found = {(status, word) for text in (page("http-api.md"), page("flow.md")) for status, word in _rows(text)}
    found |= {(status, word) for status in (200, 400, 422) for word in poison}
    return found | {(400, word) for word in envelope}


def _rows(text: str) -> Iterator[tuple[int, str]]:
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        for cell in cells[:2]:
            if re.fullmatch(r"[2-5]\d\d(, [2-5]\d\d)*", cell):
                for word in words(" ".join(cells[2:3])):
                    yield from ((int(status), word) for status in cell.split(", "))


def reasons_described() -> set[tuple[int, str]]:
    found = set()
    for _, _, operation in operations():
        for status, response in operation["responses"].items():
            for reason in every(resolved(response), "reason"):
                for listed in every(reason, "enum"):
                    found |= {(int(status), word) for word in listed}
    return found


def test_reasons_are_those_of_the_pages() -> None:
    """Every status with every reason it is described with stands in a table, and the other way round."""
    # Set by what a service account may do; its letter is told apart by `classification`.
    access_denied_and_buried = (200, "access_denied")
    described = reasons_described() - {access_denied_and_buried}
    assert described - reasons_on_pages() == set()
    on_page = {pair for text in (page("http-api.md"), page("flow.md")) for pair in _rows(text)}
    not_reasons = {(400, "limit"), (500, "error")}
    assert on_page - reasons_described() - not_reasons == set()
    assert len(described) > 60


# --- a running server --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked(start: Start) -> Server:
    """A server that asks for a token and buries all poison, with something of everything in it."""
    server = start(ADMIN_TOKEN=TOKEN, POISON_POLICY="park")
    for number in range(5):
        payload = {"service": f"api{number or ''}", "status": "ok", "timestamp": "2026-01-08T12:34:56Z"}
        subscription = "projects/demo/subscriptions/health"
        assert server.send(payload, message_id=f"{1001 + number}0", subscription=subscription).status == 200
        assert server.send({"x": 1}, message_id=f"{1002 + number}", subscription=subscription).status == 200
    made = server.store.parent / "var" / "artifacts" / "example-1" / "a" / "manifest.json"
    made.parent.mkdir(parents=True)
    made.write_text("{}", encoding="utf-8")
    server.http.headers["authorization"] = f"Bearer {TOKEN}"
    return server


def test_it_is_served(asked: Server) -> None:
    """To every client, in one piece, and by HEAD without it."""
    served = asked.http.get("/openapi.json", headers={"authorization": ""})
    assert (served.status_code, served.headers["content-type"]) == (200, "application/json")
    assert served.json() == json.loads(msgspec.json.encode(description_of({"ADMIN_TOKEN": TOKEN})))
    head = asked.http.head("/openapi.json")
    assert (head.status_code, head.content, head.headers) == (200, b"", served.headers)


def test_live_says_that_the_server_ends() -> None:
    """As the description and the page have it: it answers to the last, and says so."""
    service = Rig(MemoryStore()).service
    table = build_table(service)
    live = Request({"type": "http", "method": "GET", "path": "/live", "headers": [], "query_string": b""})

    async def states() -> list[Any]:
        before = await table.answer(live)
        await service.engine.drain()
        after = await table.answer(live)
        return [json.loads(bytes(answer.body)) for answer in (before, after)]

    found = asyncio.run(states())
    service.log.close()
    assert found == [{"status": "ok", "waiting": 0}, {"status": "unavailable", "waiting": 0}]


def example_calls() -> list[tuple[str, str, str | None, Any]]:
    """Method, path with its example parameters, content type and body of every operation."""
    found = []
    for path, method, operation in operations():
        given = {
            (parameter["in"], parameter["name"]): parameter["example"]
            for parameter in operation.get("parameters", ())
            if "example" in parameter
        }
        in_path = {name: quote(value, safe="") for (where, name), value in given.items() if where == "path"}
        filled = path.format(**in_path)
        query = "&".join(f"{name}={value}" for (where, name), value in given.items() if where == "query")
        target = f"{filled}?{query}" if query else filled
        content = operation.get("requestBody", {}).get("content", {})
        bodies = [(kind, media["example"]) for kind, media in content.items() if "example" in media]
        found += [(method, target, kind, body) for kind, body in bodies or [(None, None)]]
    # What a call deletes, others may want.
    return sorted(found, key=lambda call: (call[0] == "delete", call[1].startswith("/api/")))


def test_examples_are_what_they_are_examples_of() -> None:
    """Each validates against the schema beside it."""
    checked = 0
    for _, _, operation in operations():
        for media in operation.get("requestBody", {}).get("content", {}).values():
            if "example" in media:
                validator(media["schema"]).validate(media["example"])
                checked += 1
        for parameter in operation.get("parameters", ()):
            if "example" in parameter:
                validator(parameter["schema"]).validate(parameter["example"])
                checked += 1
    assert checked >= 12


def _fold_first(asked: Server, rebuild: str) -> None:
    """Only what was folded can be swapped. Another example may have begun one, which is dropped."""
    asked.http.delete(rebuild)
    assert asked.http.post(rebuild, headers=JSON).status_code == 202
    give_up_at = time.monotonic() + 20
    while asked.http.get(rebuild).json()["phase"] == "folding":
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def test_examples_work(asked: Server) -> None:
    """Sent to a server, each is answered with success, in a shape that is described."""
    calls = example_calls()
    assert len(calls) >= len([*operations()])
    for method, target, kind, body in calls:
        headers = {"content-type": kind} if kind else {}
        if target in STREAMS | ON_FIRESTORE:
            continue
        if target.endswith("/swap"):
            _fold_first(asked, target.removesuffix("/swap"))
        response = asked.http.request(method, target, headers=headers, content=json.dumps(body) if kind else None)
        assert response.status_code in {200, 201, 202}, (method, target, response.text)
        path = next(
            route.path for route in ROUTES if route.match(target.partition("?")[0].split("/")[1:]) is not None
        )
        described = resolved(DESCRIPTION["paths"][path][method]["responses"][str(response.status_code)])
        media = described["content"][response.headers["content-type"].partition(";")[0]]
        value = response.json() if "json" in response.headers["content-type"] else response.text
        validator(media.get("schema", {})).validate(value)


def test_schemathesis(asked: Server, tmp_path: Path) -> None:
    """It asks a running server thousands of questions, in order and not, and every answer is a described one."""
    config, report = Path(__file__).with_name("schemathesis.toml"), tmp_path / "report.json"
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config), "run"]
    arguments = [f"{asked.url}/openapi.json", "--no-color", "--report-json-path", str(report)]
    done = subprocess.run(
        [*command, *arguments],
        env={
            **clean_environment({}),
            "MILLPOND_ADMIN_TOKEN": TOKEN,
            "NO_PROXY": "127.0.0.1",
            "HOME": str(tmp_path),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SCHEMATHESIS_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    told = json.loads(report.read_text(encoding="utf-8"))
    # It leaves out the path that the description itself comes from; streams it would wait for for ever.
    assert told["operations"]["tested"] == len([*operations()]) - 1 - len(STREAMS)
    assert {phase["status"] for phase in told["phases"].values()} == {"success"}
    assert (told["failures"], told["errors"], told["test_cases"]["with_failures"]) == ([], [], 0)
    assert told["test_cases"]["generated"] >= CASES_MIN
    assert asked.push(push_body({"service": "after", "timestamp": 1}, message_id="after")).status == 200
    assert [line for line in asked.output if "internal_error" in line or '"stack"' in line] == []
