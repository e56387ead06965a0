"""`pond.app` inside a host's application: under any path, within its own limits, closed to other machines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from millpond import Pond, to_text
from tests.common.push import JSON, push_body, push_bytes
from tests.common.waiting import until
from tests.pond.orders import Orders, Sales, memory_pond

LOCAL = ("127.0.0.1", 5000)
PUSH = push_body({"orderId": "a/b %2F", "amount": 1}, topic="orders", message_id="m-1")
LARGE = 14 * 1024 * 1024


class Host:
    """A client of an application, at an address, on the pond's event loop."""

    def __init__(
        self, app: Any, client: tuple[str, int] = LOCAL, root_path: str = "", host: str = "localhost"
    ) -> None:
        transport = httpx.ASGITransport(app, client=client, root_path=root_path)
        self.http = httpx.AsyncClient(transport=transport, base_url=f"http://{host}")

    async def __aenter__(self) -> httpx.AsyncClient:
        return self.http

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()


@contextlib.asynccontextmanager
async def hosted(pond: Pond, path: str = "/millpond", **client: Any) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI(openapi_url=None)
    app.mount(path, pond.app)
    async with pond, Host(app, **client) as http:
        yield http


# --- paths -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mount", "at", "root_path"),
    [
        ("/millpond", "/millpond", ""),
        ("/a/b", "/a/b", ""),
        ("/t/{tenant}", "/t/x%2520y", ""),
        # As uvicorn's --root-path: the server's part is in the path.
        ("/millpond", "/proxy/millpond", "/proxy"),
        # As a proxy that takes its part off, and a server that only says so.
        ("/millpond", "/millpond", "/proxy"),
        ("", "", "/proxy"),
        ("", "", ""),
    ],
)
async def test_every_path_and_link_is_below_the_root(mount: str, at: str, root_path: str) -> None:
    """Push, API, pages and OpenAPI; also ids with slashes and percent signs."""
    async with hosted(memory_pond(), mount, root_path=root_path) as http:
        pushed = await http.post(f"{at}/pubsub/push", json=PUSH)
        assert (pushed.status_code, pushed.json()["reason"]) == (200, "applied")
        (doc,) = (await http.get(f"{at}/api/docs/orders")).json()["docs"]
        found = await http.get(f"{at}/api/docs/orders/{quote(doc['id'], safe='')}")
        assert found.json()["data"]["orderId"] == "a/b %2F"
        page = await http.get(f"{at}/")
        assert (page.status_code, "static/app.js" in page.text) == (200, True)
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert (await http.get(f"{at}/static/app.js")).status_code == 200
        assert (await http.get(f"{at}/api/docs/orders")).headers["cache-control"] == "no-store"
        for path, status in (("/health", 200), ("/metrics", 200), ("/nothing", 404), ("/api/docs", 404)):
            assert (await http.get(f"{at}{path}")).status_code == status, path
        assert (await http.head(f"{at}/api")).status_code == 200
        assert (await http.delete(f"{at}/api")).status_code == 405
        root = at if at.startswith(root_path) else root_path + at
        (server,) = (await http.get(f"{at}/openapi.json")).json()["servers"]
        assert server == {"url": root or "/"}
        assert (await http.get(f"{at}/api")).json()["endpoints"][0] == f"http://localhost{root}/pubsub/push"


async def test_a_path_without_its_slash_leads_to_the_page() -> None:
    """The page's links are relative: without the slash they would miss the mount."""
    async with hosted(memory_pond()) as http:
        page = await http.get("/millpond", follow_redirects=True)
        assert (page.status_code, page.url.path) == (200, "/millpond/")


async def test_a_host_without_redirects_gets_one_that_is_relative() -> None:
    """It holds behind a proxy that took a part of the path off, too."""
    pond = memory_pond()

    async def bare(scope: Any, receive: Any, send: Any) -> None:
        await pond.app({**scope, "root_path": "/proxy/mill pond"}, receive, send)

    async with pond, Host(bare) as http:
        answer = await http.get("/proxy/mill%20pond")
        assert (answer.status_code, answer.headers["location"]) == (307, "./mill%20pond/")


async def test_two_ponds_in_one_application() -> None:
    """Each answers below its own path, with its own views and token."""
    orders, sales = memory_pond(), Pond(views=[Sales()], store="memory", settings={"ADMIN_TOKEN": "t"})
    app = FastAPI()
    app.mount("/orders", orders.app)
    app.mount("/sales", sales.app)
    async with orders, sales, Host(app) as http:
        assert (await http.post("/orders/pubsub/push", json=PUSH)).json()["views"][0]["view"] == "orders"
        assert (await http.get("/orders/api/stats")).json()["total"] == 1
        assert (await http.get("/sales/api/stats")).status_code == 401
        stats = await http.get("/sales/api/stats", headers={"authorization": "Bearer t"})
        assert stats.json()["total"] == 0


@pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient` is deprecated")
def test_a_test_client_runs_the_lifespan() -> None:
    """Starlette's own client, as most hosts' tests use it, several times on one application."""
    from starlette.testclient import TestClient  # noqa: PLC0415 - it warns of our httpx

    pond = memory_pond()
    app = Starlette(routes=[Mount("/millpond", pond.app)], lifespan=pond.lifespan)
    for _ in range(2):
        with TestClient(app, base_url="http://localhost", client=LOCAL) as client:
            assert client.post("/millpond/pubsub/push", json=PUSH).json()["reason"] == "applied"
            assert client.get("/millpond/api/stats").json()["total"] == 1
        answer = TestClient(app).get("/millpond/api/stats")
        assert (answer.status_code, answer.json()["reason"]) == (503, "not_running")


# --- access ------------------------------------------------------------------------------------------------------

REMOTE: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "another address": ({"client": ("10.0.0.7", 1)}, {}),
    "IPv6": ({"client": ("2001:db8::1", 1)}, {}),
    "no address": ({"client": ("", 0)}, {}),
    "a proxy on this machine": ({}, {"x-forwarded-for": "10.0.0.7"}),
    "a proxy that names itself": ({}, {"via": "1.1 proxy"}),
    "a proxy by the standard": ({}, {"forwarded": "for=10.0.0.7"}),
}


@pytest.mark.parametrize("case", REMOTE)
async def test_another_machine_needs_tokens(case: str) -> None:
    """A pond does not know what its host listens on, so each client's own address decides."""
    client, headers = REMOTE[case]
    async with hosted(memory_pond(), **client) as http:
        pushed = await http.post("/millpond/pubsub/push", json=PUSH, headers=headers)
        assert (pushed.status_code, pushed.json()["reason"]) == (403, "push_forbidden")
        event = await http.post("/millpond/events", json={}, headers=headers)
        assert (event.status_code, event.json()["reason"]) == (403, "push_forbidden")
        asked = await http.get("/millpond/api/collections", headers=headers)
        assert (asked.status_code, asked.json()["reason"]) == (403, "admin_token_not_set")
        assert (await http.get("/millpond/health", headers=headers)).status_code == 200
    allowed = {"PUSH_UNAUTHENTICATED": "allow", "ADMIN_TOKEN": "t"}
    async with hosted(memory_pond(settings=allowed), **client) as http:
        assert (await http.post("/millpond/pubsub/push", json=PUSH, headers=headers)).status_code == 200
        bearer = {**headers, "authorization": "Bearer t"}
        assert (await http.get("/millpond/api/collections", headers=bearer)).status_code == 200
        assert (await http.get("/millpond/api/collections", headers=headers)).status_code == 401


@pytest.mark.parametrize("address", ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"])
async def test_this_machine_needs_none(address: str) -> None:
    async with hosted(memory_pond(), client=(address, 1)) as http:
        assert (await http.post("/millpond/pubsub/push", json=PUSH)).status_code == 200
        assert (await http.get("/millpond/api/collections")).status_code == 200


async def test_pages_of_other_sites_are_refused() -> None:
    """As in a server: a name that leads to this machine, and a foreign Origin."""
    async with hosted(memory_pond(), host="evil.example") as http:
        asked = await http.get("/millpond/api/collections")
        assert (asked.status_code, asked.json()["reason"]) == (403, "foreign_host")
    async with hosted(memory_pond()) as http:
        pushed = await http.post("/millpond/pubsub/push", json=PUSH, headers={"origin": "https://evil.example"})
        assert (pushed.status_code, pushed.json()["reason"]) == (403, "foreign_origin")


async def test_on_cloud_run_every_client_is_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K_SERVICE", "shop")
    async with hosted(memory_pond()) as http:
        assert (await http.post("/millpond/pubsub/push", json=PUSH)).status_code == 403


# --- limits ------------------------------------------------------------------------------------------------------


class Call:
    """One request to `pond.app` by hand: its parts arrive when the test says so."""

    def __init__(self, pond: Pond, path: str, **headers: str) -> None:
        self.parts: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.reads = 0
        given = {**JSON, "host": "localhost", **headers}
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "client": LOCAL,
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
        }
        self.task = asyncio.create_task(pond.app(scope, self._receive, self._send))

    def part(self, body: bytes, *, more: bool = True) -> None:
        self.parts.put_nowait({"type": "http.request", "body": body, "more_body": more})

    async def _receive(self) -> dict[str, Any]:
        self.reads += 1
        return await self.parts.get()

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    async def answer(self) -> tuple[int, str]:
        await asyncio.wait_for(self.task, 10)
        return self.sent[0]["status"], json.loads(self.sent[1]["body"])["reason"]


@pytest.fixture(params=["/pubsub/push", "/api/letters/preview"])
def path(request: pytest.FixtureRequest) -> str:
    """A push, and a request of the API: two ways to read a body."""
    return str(request.param)


async def test_a_body_that_announces_too_much_is_never_read(path: str) -> None:
    async with memory_pond() as pond:
        call = Call(pond, path, content_length=str(LARGE + 1))
        assert await call.answer() == (413, "body_too_large")
        assert call.reads == 0


async def test_a_body_that_becomes_too_large_is_refused(path: str) -> None:
    async with memory_pond() as pond:
        call = Call(pond, path)
        for _ in range(15):
            call.part(bytes(1024 * 1024))
        assert await call.answer() == (413, "body_too_large")
        assert call.reads == 15


async def test_bodies_share_one_budget(path: str) -> None:
    """A body that finds no room waits unread, and is refused after a second; a small one still passes."""
    async with memory_pond(settings={"HTTP_BODIES_MIB": 1}) as pond:
        first = Call(pond, path, content_length=str(700_000))
        first.part(bytes(100_000))
        await until(lambda: first.reads == 2)
        second = Call(pond, path, content_length=str(700_000))
        second.part(bytes(700_000), more=False)
        assert await second.answer() == (429, "backpressure_queue_full")
        assert second.reads == 0
        small = Call(pond, "/pubsub/push")
        small.part(push_bytes({"orderId": "o"}, topic="orders"), more=False)
        assert await small.answer() == (200, "applied")
        first.task.cancel()
        await asyncio.wait([first.task])
        third = Call(pond, path, content_length=str(700_000))
        third.part(bytes(700_000), more=False)
        status, _ = await third.answer()
        assert status == 400


async def test_a_body_that_never_ends_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond.http.embedded.REQUEST_S_MAX", 0.1)
    async with memory_pond() as pond:
        call = Call(pond, path)
        call.part(b"{")
        assert await call.answer() == (408, "request_timeout")


# --- not running -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path_asked", ["/", "/api", "/pubsub/push", "/static/app.js"])
async def test_a_pond_that_does_not_run_answers_503(path_asked: str) -> None:
    """The broker delivers again; the text says what the host must do."""
    async with Host(memory_pond().app) as http:
        answer = await http.post(path_asked, json=PUSH)
        assert (answer.status_code, answer.json()["reason"]) == (503, "not_running")
        assert "lifespan=pond.lifespan" in answer.json()["error"]


async def test_a_websocket_is_closed() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async with memory_pond() as pond:
        await pond.app({"type": "websocket", "path": "/"}, _never, send)
    assert sent == [{"type": "websocket.close"}]


async def test_streams_and_requests_end_with_the_pond() -> None:
    """An open page does not keep the host from stopping, and a push that was accepted is answered."""
    pond = memory_pond()
    frames: list[str] = []

    async def watch(http: httpx.AsyncClient) -> None:
        answer = await http.get("/api/live")
        frames.append(answer.text)

    async with Host(pond.app) as http:
        async with pond:
            watching = asyncio.create_task(watch(http))
            pushing = [asyncio.create_task(http.post("/pubsub/push", json=PUSH)) for _ in range(5)]
            await asyncio.sleep(0.05)
        await asyncio.wait_for(watching, 5)
        answers = await asyncio.gather(*pushing)
    assert frames[0].startswith("event: hello")
    assert {answer.status_code for answer in answers} == {200}


async def test_a_bug_of_a_view_does_not_reach_the_host() -> None:
    """The message is retried, and the other messages go on."""

    class Broken(Orders):
        def document(self, event: Any) -> Any:
            return 1 / event.get("amount")

    async with hosted(Pond(views=[Broken()], store="memory")) as http:
        body = push_body({"orderId": "o", "amount": 0}, topic="orders", message_id="m", published=_now())
        answer = await http.post("/millpond/pubsub/push", json=body)
        assert (answer.status_code, answer.json()["reason"]) == (503, "view_error")


async def _never() -> Any:
    await asyncio.Event().wait()


def _now() -> str:
    return to_text(time.time_ns() // 1_000)
