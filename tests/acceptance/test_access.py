"""Who may do what, of a running server: every route by its rule, tokens on the push path, what does not start."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from millpond.http.access import Access
from millpond.http.app import build_table
from millpond.http.routing import Route
from millpond.stores.memory import MemoryStore
from tests.common.issuer import ACCOUNT, AUDIENCE, FORBIDDEN, UNAUTHENTICATED, Issuer, good
from tests.common.process import millpond
from tests.common.push import JSON, push_body
from tests.common.rig import Rig
from tests.common.server import Answer, Server, Start, read_answer

TOKEN = "correct-horse-battery"  # noqa: S105 - made up for this test
EVERYWHERE = {"HOST": "0.0.0.0", "PUSH_UNAUTHENTICATED": "allow"}  # noqa: S104 - that is the point
PUSH = "/pubsub/push"
# Where messages and events come in.
PUSHED = {PUSH, "/events"}
# To open a path to every client, declare it so in the table of routes and here.
OPEN = {
    *("/", "/static/{file}", "/runbook", "/api", "/metrics", "/openapi.json"),
    *("/health", "/healthz", "/ready", "/readyz", "/live", "/livez"),
}


def all_routes() -> Sequence[Route]:
    service = Rig(MemoryStore()).service
    service.log.close()
    return build_table(service).routes


ROUTES = all_routes()


def calls(access: Access) -> list[tuple[str, str]]:
    """Every method and path under a rule, with ids of nothing there is."""
    found = [
        (method, route.path.replace("{", "no-").replace("}", ""))
        for route in ROUTES
        if route.access is access
        for method in route.allowed
    ]
    assert found
    return found


def call(server: Server, method: str, path: str, **headers: str) -> tuple[int, str]:
    """The status, and the reason where the answer has one. A stream is left as soon as it is let in."""
    with server.http.stream(method, path, headers={**JSON, **headers}) as response:
        if response.headers["content-type"] == "text/event-stream":
            return response.status_code, ""
        is_json = response.read() and response.headers["content-type"] == "application/json"
        found = response.json() if is_json else {}
        return response.status_code, found.get("reason", "") if isinstance(found, dict) else ""


def refusal(method: str, status: int, reason: str) -> tuple[int, str]:
    """What `call` finds; an answer to HEAD has no reason."""
    return status, "" if method == "HEAD" else reason


def is_let_in(found: tuple[int, str]) -> bool:
    """Whether the endpoint answered, if only that there is no such thing, or that the request makes no sense."""
    return found[0] in {200, 400, 404}


def is_open(found: tuple[int, str]) -> bool:
    """Whether it was answered without a token; there is no page of that name."""
    return found[0] in {200, 404}


# --- every route -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_every_route_declares_its_rule(route: Route) -> None:
    """Nothing is open that does not stand in the list above, and the rule is one of three."""
    assert isinstance(route.access, Access)
    expected = Access.PUSH if route.path in PUSHED else Access.OPEN if route.path in OPEN else Access.ADMIN
    assert route.access is expected


def test_no_route_without_a_rule() -> None:
    """A route without its rule cannot even be made."""
    with pytest.raises(TypeError, match="access"):
        Route("/forgotten", {})  # type: ignore[call-arg]


def test_the_walk_sees_what_is_served(server: Server) -> None:
    """The server lists the same paths."""
    assert server.get("/api").json["endpoints"] == [server.url + route.path for route in ROUTES]


def test_on_loopback_without_a_token(server: Server) -> None:
    """A newcomer needs nothing: every route answers, if only that there is no such thing."""
    for access in (Access.OPEN, Access.ADMIN):
        for method, path in calls(access):
            assert is_let_in(call(server, method, path)), (method, path)


def test_with_a_token(start: Start) -> None:
    """Every admin route refuses who does not have it, on loopback as well; the open ones do not ask."""
    server = start(ADMIN_TOKEN=TOKEN)
    for method, path in calls(Access.ADMIN):
        for headers in ({}, {"authorization": "Bearer wrong"}, {"host": "localhost"}):
            assert call(server, method, path, **headers) == refusal(method, 401, "unauthorized"), path
        assert is_let_in(call(server, method, path, authorization=f"Bearer {TOKEN}"))
        # A client that has the token may come under any name, as through a proxy.
        assert is_let_in(call(server, method, path, authorization=f"Bearer {TOKEN}", host="pond.example"))
    for method, path in calls(Access.OPEN):
        assert is_open(call(server, method, path)), (method, path)
    assert server.send({"service": "x", "timestamp": 1}).status == 200


def test_off_loopback_without_a_token(start: Start) -> None:
    """No client may look: the answer names the setting. Push, as allowed, health and metrics go on."""
    server = start(**EVERYWHERE)
    for method, path in calls(Access.ADMIN):
        for headers in ({}, {"host": "localhost"}, {"authorization": "Bearer"}, {"authorization": "Bearer None"}):
            found = call(server, method, path, **headers)
            assert found == refusal(method, 403, "admin_token_not_set"), (path, headers)
    assert "ADMIN_TOKEN" in server.get("/api/stats").json["error"]
    for method, path in calls(Access.OPEN):
        assert is_open(call(server, method, path)), (method, path)
    assert server.send({"service": "x", "timestamp": 1}).status == 200


def test_off_loopback_with_a_token(start: Start) -> None:
    """As on loopback."""
    server = start(**EVERYWHERE, ADMIN_TOKEN=TOKEN)
    for method, path in calls(Access.ADMIN):
        assert call(server, method, path) == refusal(method, 401, "unauthorized"), path
        assert is_let_in(call(server, method, path, authorization=f"Bearer {TOKEN}"))


# Names, and ways to write addresses, that a browser could be made to send us.
FOREIGN_HOSTS = (
    *("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "localhost.", "é"),
    *("127.0.0.1@evil.example", "0x7f.1", "2130706433", "192.168.1.7", "[::2]", "[", "::1", ":8080", "x:y:z"),
)
OWN_HOSTS = (
    *("localhost", "LOCALHOST:80", "localhost:8080", "127.0.0.1", "127.0.0.1:1", "127.1.2.3", "[::1]", "[::1]:80"),
)


def test_a_name_that_was_made_to_mean_us(server: Server) -> None:
    """A page whose name leads to 127.0.0.1 reads nothing here; push and the open paths do not ask for names."""
    for method, path in calls(Access.ADMIN):
        assert call(server, method, path, host="evil.example") == refusal(method, 403, "foreign_host"), path
    for host in FOREIGN_HOSTS:
        head = f"GET /api/stats HTTP/1.1\r\nhost: {host}\r\n\r\n".encode()
        answer = server.raw(head)
        assert (answer.status, answer.json["reason"]) == (403, "foreign_host"), host
    assert server.raw(b"GET /api/stats HTTP/1.0\r\n\r\n").json["reason"] == "foreign_host"
    for host in OWN_HOSTS:
        assert call(server, "GET", "/api/stats", host=host)[0] == 200, host
    for method, path in calls(Access.OPEN):
        assert is_open(call(server, method, path, host="evil.example")), path
    tunnelled = server.push(push_body({"service": "x", "timestamp": 1}), {"host": "tunnel.example"})
    assert tunnelled.status == 200


FOREIGN_ORIGINS = ("https://evil.example", "null", "x", "http://[", "http://127.0.0.1", "http://127.0.0.1:1", "")


def test_a_page_of_another_site_changes_nothing(server: Server) -> None:
    """Whatever is not a reading request and names another origin is refused, on every route."""
    every = [*calls(Access.ADMIN), *calls(Access.PUSH)]
    writing = [(method, path) for method, path in every if method not in {"GET", "HEAD"}]
    assert {path for _, path in writing} >= {"/events", "/api/flow-runs", "/api/flow-runs/sweep"}
    for method, path in writing:
        for origin in (*FOREIGN_ORIGINS, f"{server.url}.evil.example"):
            assert call(server, method, path, origin=origin) == (403, "foreign_origin"), (path, origin)
        assert is_let_in(call(server, method, path, origin=server.url))
    server.fence()
    assert call(server, "GET", "/api/stats", origin="https://evil.example")[0] == 200
    assert call(server, "POST", "/api/letters/x/replay", origin="null")[0] == 403
    (line,) = map(json.loads, server.fence())
    assert (line["http_status"], line["severity"], line["reason"]) == (403, "WARNING", "foreign_origin")


def test_a_proxy_of_the_reader_may_change_things_with_the_token(start: Start) -> None:
    """The page is then at localhost and `Host` is the server's own name; the token shows that the page is ours."""
    server = start(ADMIN_TOKEN=TOKEN)
    proxied = {"host": "millpond-abc.run.app", "authorization": f"Bearer {TOKEN}"}
    replay = ("POST", "/api/letters/x/replay")
    for origin in ("http://127.0.0.1:8081", "http://localhost:8081", "http://[::1]:8081"):
        assert call(server, *replay, origin=origin, **proxied) == (404, "not_found"), origin
    for origin in (
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
    ):
        assert call(server, *replay, origin=origin, **proxied) == (403, "foreign_origin"), origin
    unknown = {**proxied, "authorization": "Bearer guessed"}
    assert call(server, *replay, origin="http://127.0.0.1:8081", **unknown) == (401, "unauthorized")
    pushed = server.push(
        push_body({"service": "x", "timestamp": 1}), {**proxied, "origin": "http://127.0.0.1:8081"}
    )
    assert pushed.status == 403


# What a browser sends to another site without asking it first, and what no browser sends.
NOT_JSON = (
    *(None, "", "text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded"),
    *("multipart/form-data; boundary=x", "text/plain; application/json", "text/plain,application/json"),
    *("application/json,text/plain", "application/jsonp", "application/json5", "json", "text/json", "*/*"),
)
AS_JSON = ("application/json", "application/json; charset=utf-8", "Application/JSON", " application/json ;x=y")
IDS = b'{"ids": ["no-such-letter"]}'


def asking(method: str, path: str, body: bytes, *kinds: str | None, **headers: str) -> bytes:
    """A request without an Origin, with each of these content types."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"content-type: {kind}" for kind in kinds if kind is not None]
    if body:
        lines.append(f"content-length: {len(body)}")
    head = "\r\n".join([f"{method} {path} HTTP/1.1", "host: localhost", *lines])
    return head.encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize("token", [None, TOKEN], ids=["on this machine", "with a token"])
def test_what_a_page_could_send_unasked_changes_nothing(start: Start, token: str | None) -> None:
    """A POST is JSON or it is refused, with and without a body, although no Origin tells where it comes from."""
    server = start(**({} if token is None else {"ADMIN_TOKEN": token}))
    known = {} if token is None else {"authorization": f"Bearer {token}"}
    server.send({"nothing": 1}, message_id="kept")
    posts = [path for method, path in calls(Access.ADMIN) if method == "POST"]
    posts += ["/api/letters/acceptance__kept/replay"]
    assert len(posts) >= 9
    for path in posts:
        for body in (b"", IDS):
            for kind in NOT_JSON:
                answer = server.raw(asking("POST", path, body, kind, **known))
                assert (answer.status, answer.json["reason"]) == (415, "unsupported_media_type"), (path, kind)
            twice = server.raw(asking("POST", path, body, "text/plain", "application/json", **known))
            assert twice.status == 415
            for kind in AS_JSON:
                assert server.raw(asking("POST", path, body, kind, **known)).status != 415, (path, kind)
    letter = server.http.get("/api/letters/acceptance__kept", headers=known).json()
    assert letter["replays"] == 2 * len(AS_JSON)


def test_a_delete_needs_a_content_type_only_with_a_body(server: Server) -> None:
    """A browser asks before it sends one to another site, whatever is in it."""
    deletes = [path for method, path in calls(Access.ADMIN) if method == "DELETE"]
    assert len(deletes) == 2
    chunked = b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    for path in deletes:
        for kind in NOT_JSON:
            assert server.raw(asking("DELETE", path, IDS, kind)).status == 415, (path, kind)
            assert server.raw(asking("DELETE", path, b"", kind)).status == (404 if kind is None else 415), (
                path,
                kind,
            )
        assert server.raw(asking("DELETE", path, b"").replace(b"\r\n\r\n", b"\r\n" + chunked)).status == 415
        assert server.raw(asking("DELETE", path, IDS, "application/json")).status == 404


def test_who_may_not_ask_is_not_told_how(start: Start) -> None:
    """Tokens, names and origins are looked at before the content type."""
    server = start(ADMIN_TOKEN=TOKEN)
    assert server.raw(asking("POST", "/api/letters/purge", IDS, "text/plain")).status == 401
    known = {"authorization": f"Bearer {TOKEN}", "origin": "https://evil.example"}
    assert server.raw(asking("POST", "/api/letters/purge", IDS, "text/plain", **known)).status == 403


@pytest.mark.parametrize("way", ["HTTP/1.1", "HTTP/1.0"])
def test_a_page_of_another_site_pushes_nothing(server: Server, way: str) -> None:
    """A browser sends a post without a content type unasked; its Origin tells. Both ways in."""
    name = way.replace("/", "")
    before = server.documents()
    server.put_up_fence()
    for origin in FOREIGN_ORIGINS:
        answer = server.raw(request(push_body({"service": name, "timestamp": 1}), way, server, origin=origin))
        assert (answer.status, answer.json["reason"]) == (403, "foreign_origin"), origin
        assert answer.json["messageId"] == ""
    lines = [json.loads(line) for line in server.fence()]
    assert [(line["http_status"], line["severity"]) for line in lines] == [(403, "WARNING")] * len(FOREIGN_ORIGINS)
    assert server.documents().keys() - before.keys() <= {"ops_services/dev__fence"}
    own = request(push_body({"service": name, "timestamp": 1}, message_id=name), way, server, origin=server.url)
    assert server.raw(own).json["outcome"] == "applied"


def request(body: object, way: str, server: Server, **headers: str) -> bytes:
    """A push as bytes. What is not plain HTTP/1.1 takes the way through ASGI."""
    content = json.dumps(body).encode()
    fields = {"host": f"127.0.0.1:{server.port}", "content-length": str(len(content)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {PUSH} {way}\r\n{lines}\r\n".encode("latin-1") + content


# --- tokens on the push path -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


def with_guard(start: Start, url: str, **environment: str) -> Server:
    """A server that wants tokens. Its client sends a good one, unless a test says otherwise."""
    asked = {"PUSH_AUDIENCE": AUDIENCE, "PUSH_SERVICE_ACCOUNT": ACCOUNT, "PUSH_CERTS_URL": url}
    server = start(**asked, **environment)
    server.http.headers["authorization"] = good().decode()
    return server


@pytest.fixture(scope="module")
def guarded(start: Start, issuer: Issuer) -> Server:
    return with_guard(start, issuer.url)


def test_a_good_token(guarded: Server, issuer: Issuer) -> None:
    """Its message is applied; the certificates were fetched once for all of them."""
    for number in range(5):
        answer = guarded.send({"service": "good", "timestamp": 1 + number}, message_id=f"good-{number}")
        assert (answer.status, answer.json["outcome"]) == (200, "applied")
    assert guarded.document("ops_services/dev__good") is not None
    assert issuer.fetches == 1


@pytest.mark.parametrize("way", ["HTTP/1.1", "HTTP/1.0"])
@pytest.mark.parametrize(
    ("header", "status", "reason"),
    [
        (lambda: None, 401, "push_unauthenticated"),
        (UNAUTHENTICATED["another key under our id"], 401, "push_unauthenticated"),
        (UNAUTHENTICATED["over 8 KiB"], 401, "push_unauthenticated"),
        (FORBIDDEN["another audience"], 403, "push_forbidden"),
    ],
)
def test_no_good_token(
    guarded: Server, way: str, header: Callable[[], bytes | None], status: int, reason: str
) -> None:
    """Nothing is stored, nothing of the body is repeated, one line tells, and the token is in none."""
    guarded.put_up_fence()
    before = guarded.documents(("ops_services", "ops_dedupe", "dead_letters"))
    token = header()
    sent = {} if token is None else {"authorization": token.decode("latin-1")}
    for body in (push_body({"service": "thief", "timestamp": 1}, message_id="thief"), {"nonsense": 1}):
        answer = guarded.raw(request(body, way, guarded, **sent))
        assert answer.status == status
        error = answer.json.pop("error")
        assert answer.json == {"outcome": "retry", "reason": reason, "messageId": "", "topic": "", "views": []}
        assert answer.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
        lines = [json.loads(line) for line in guarded.fence()]
        assert [(line["http_status"], line["reason"], line["messageId"]) for line in lines] == [
            (status, reason, "")
        ]
        assert (lines[0]["severity"], lines[0]["error"]) == ("WARNING", error)
    assert guarded.documents(("ops_services", "ops_dedupe", "dead_letters")) == before
    if token is not None:
        signature = token.decode("latin-1").split(".")[-1]
        assert not any(signature in line for line in guarded.output)


def test_a_push_token_is_no_admin_token(start: Start, issuer: Issuer) -> None:
    """And the other way round: each opens its own door only."""
    server = with_guard(start, issuer.url, HOST="0.0.0.0", ADMIN_TOKEN=TOKEN)  # noqa: S104
    body = push_body({"service": "x", "timestamp": 1})
    assert server.get("/api/stats").status == 401
    assert server.push(body).status == 200
    assert server.push(body, {"authorization": f"Bearer {TOKEN}"}).status == 401
    assert server.get("/api/stats", authorization=f"Bearer {TOKEN}").json["total"] == 1


def test_a_key_server_that_is_down(start: Start) -> None:
    """503, so that the message comes again; nothing is stored; and it heals by itself."""
    with Issuer() as issuer:
        server = with_guard(start, issuer.url)
        issuer.status = 500
        body = push_body({"service": "later", "timestamp": 1})
        answer = server.push(body)
        assert (answer.status, answer.json["reason"]) == (503, "keys_unavailable")
        assert server.get("/api/stats").json["total"] == 0
        assert server.get("/health").status == 200
        issuer.status = 200
        until = time.monotonic() + 15
        while (answer := server.push(body)).status == 503:
            assert time.monotonic() < until
            time.sleep(0.2)
        assert answer.json["outcome"] == "applied"
        assert issuer.fetches == 2


def test_the_end_does_not_wait_for_the_key_server(start: Start) -> None:
    """SIGTERM while a request waits for certificates: it is answered, and the process ends in time."""
    with Issuer() as issuer:
        server = with_guard(start, issuer.url)
        issuer.pause_s = 30
        with socket.create_connection(("127.0.0.1", server.port), timeout=15) as connection:
            body = push_body({"service": "x", "timestamp": 1})
            connection.sendall(request(body, "HTTP/1.1", server, authorization=good().decode()))
            while not issuer.fetches:
                time.sleep(0.01)
            answers: list[Answer] = []
            reading = threading.Thread(target=lambda: answers.append(read_answer(connection)))
            reading.start()
            began = time.monotonic()
            assert server.terminate() == 0
            assert time.monotonic() - began < 8
            reading.join()
        assert [(answer.status, answer.json["reason"]) for answer in answers] == [(503, "keys_unavailable")]


# --- start-up ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "environment",
    [
        {"HOST": "0.0.0.0"},  # noqa: S104
        {"HOST": "::"},
        {"HOST": "192.0.2.1"},
        {"HOST": "pond.example"},
        {"HOST": "0.0.0.0", "ADMIN_TOKEN": TOKEN},  # noqa: S104
        {"K_SERVICE": "pond"},
    ],
    ids=lambda environment: " ".join(f"{name}={value}" for name, value in environment.items()),
)
def test_push_without_tokens_is_not_offered_to_others(tmp_path: Path, environment: dict[str, str]) -> None:
    """One line that names the settings, and no store was touched."""
    done = millpond(tmp_path, "serve", env={"PORT": "0", "STORE": "memory", **environment})
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert all(
        name in line for name in ("HOST=", "PUSH_AUDIENCE", "PUSH_SERVICE_ACCOUNT", "PUSH_UNAUTHENTICATED=allow")
    )
    assert list(tmp_path.iterdir()) == []
