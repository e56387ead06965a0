"""Whatever a message says, it is shown as text: in every field that can be set, on every page, at every width."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Dialog, expect

from tests.browser.dashboard import PHONE, WIDE, Open
from tests.browser.traffic import ago
from tests.common.push import push_body
from tests.common.server import Server, Start

STRUCK = "window.struck=1"
IMAGE = f'<img src=x onerror="{STRUCK}">'
SCRIPT = f"</script><script>{STRUCK}</script>"
BREAKOUT = f"\"'><svg onload={STRUCK}>"
LINK = f"javascript:{STRUCK}"
TURNED = "a\u202egnp.exe"
HIDDEN = "z\u0000\u001b[2J\u200bq"
LONG = "W" * 900
ALL = (IMAGE, SCRIPT, BREAKOUT, LINK, TURNED, HIDDEN, LONG)
# What each of them looks like as text, at least in part.
SHOWN = {
    IMAGE: "<img src=x onerror=",
    SCRIPT: "</script><script>",
    BREAKOUT: "<svg onload=",
    LINK: "javascript:window",
    TURNED: "a⟦U+202E⟧gnp.exe",
    HIDDEN: "z⟦U+0000⟧⟦U+001B⟧[2J",
    LONG: "W" * 20,
}
# Elements that none of our pages has, wherever they came from.
STRANGERS = "main img:not([src^='blob:']), main script, main iframe, main object, main [onerror], main [onload]"
MOVE = """(address) => new Promise((done) => {
  addEventListener("hashchange", () => setTimeout(done), { once: true });
  location.hash = address;
})"""
MESSAGE_IDS = (IMAGE, BREAKOUT, LINK)


def push(server: Server, data: Any, number: object, topic: str | None = None, **more: Any) -> None:
    body = push_body(data, message_id=f"h-{number}", published=ago(0), topic=topic, **more)
    answer = server.push(body)
    assert answer.status == 200, answer


def fill(server: Server) -> None:
    """Every field of every built-in view, the envelope, the attributes, and letters of all of it."""
    for n, bad in enumerate(ALL):
        push(server, {"service": bad, "status": bad, "version": bad, "region": bad, "timestamp": ago(0)}, f"s{n}")
        beat = {"pipeline_id": bad, "tenant_id": bad, "status": bad, "ts": ago(0), bad[:300]: {bad[:300]: [bad]}}
        push(server, beat, f"p{n}", "ingest-heartbeat")
        push(server, {"symbol": bad, "price": 1.5, "ts": ago(0), "eventId": bad}, f"t{n}", "market-ticks")
        prices = {"open": 1, "high": 2, "low": 1, "close": 1.5, "volume": 3}
        push(server, {"symbol": bad, "ts": ago(60), "timeframe": bad, **prices}, f"b{n}", "market-bars-1m")
        told = ("state", "side", "strategyId", "symbol", "reason", "action")
        push(server, {"signalId": bad, "updatedAt": ago(0), **dict.fromkeys(told, bad)}, f"g{n}", "trade-signals")
        envelope = {"event_type": bad, "agent_name": bad, "payload": {"x": bad}}
        push(server, envelope, f"l{n}", attributes={bad[:200]: bad}, subscription=f"projects/p/subscriptions/{bad}")
        push(server, {"symbol": bad, "price": bad, "ts": bad}, f"e{n}", "market-ticks", subscription=bad)
    for bad in MESSAGE_IDS:
        server.push(push_body({"q": 1}, message_id=bad, published=ago(0), topic=bad))
        tick = {"symbol": "IDS", "price": 2, "ts": ago(0)}
        server.push(push_body(tick, message_id=bad, published=ago(0), topic="market-ticks"))
    server.push(push_body(b"\x00\xff<img src=x>" + b"A" * 20_000, message_id="h-raw", published=ago(0)))
    steps = {
        bad if bad != HIDDEN else "hidden": {
            "stepType": bad,
            "status": "FAILED" if n % 2 else bad,
            "error": {"code": bad, "message": bad},
            "outputs": {"images": [f"{bad}.png", bad], bad[:200]: bad},
        }
        for n, bad in enumerate(ALL)
    }
    run = {"runId": "hostile", "flowKey": IMAGE, "scope": {"symbol": SCRIPT}, "steps": steps}
    assert server.http.post("/api/flow-runs", json=run).status_code == 201


@pytest.fixture(scope="module")
def hostile(start: Start) -> Server:
    server = start()
    fill(server)
    return server


def address_of(path: str) -> str:
    return "#/doc/" + "/".join(quote(part, safe="") for part in path.split("/"))


def addresses(server: Server) -> list[str]:
    """Every kind of page, with each of these texts in it."""
    documents = [address_of(path) for path in server.documents(("ingest_pipelines", "trade_signals"))]
    letters = [f"#/letters/{quote(letter['id'], safe='')}" for letter in server.letters()]
    events = [f"#/event/{quote(bad, safe='')}" for bad in (*MESSAGE_IDS, "h-g0", "h-l1", "h-s4")]
    symbols = [path.partition("/")[2].partition("__")[0] for path in server.documents(("market_bars_1m",))]
    bars = [f"#/models/bars/{quote(symbol, safe='')}" for symbol in symbols]
    lists = ("market_bars_1m", "market_ticks", "ops_dedupe", "dead_letters", "flow_runs")
    return [
        *("#/models", "#/", "#/models/signals", "#/models/runs", "#/models/runs/hostile", "#/docs"),
        *(f"#/docs/{name}" for name in lists),
        *("#/models/board", "#/models/view/market_ticks", "#/docs/market_ticks?since=1h"),
        f"#/models/view/market_ticks?field={quote(IMAGE, safe='')}&text={quote(BREAKOUT, safe='')}",
        f"#/models/view/{quote(IMAGE, safe='')}?sort={quote(SCRIPT, safe='')}",
        *(f"#/search?q={quote(bad[:200], safe='')}" for bad in (*ALL, "window.struck", "acceptance__")),
        *("#/event?since=1h", "#/letters?since=1h", f"#/letters?since={quote(IMAGE, safe='')}"),
        *("#/letters", "#/event", f"#/docs/{quote(IMAGE, safe='')}", f"#/models/runs/{quote(IMAGE, safe='')}"),
        *(bars + events + documents + letters),
    ]


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_nothing_executes_and_everything_fits(hostile: Server, look: Open, size: tuple[int, int]) -> None:
    dashboard = look(hostile.url, size)
    # Pictures and documents that are not there, and a range that is none, as the browser itself notes them.
    dashboard.expected += ["404", "400"]
    page = dashboard.page
    dialogs: list[Dialog] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog))  # noqa: PLW0108 - Playwright marks its listeners
    dashboard.go()
    for address in addresses(hostile):
        page.evaluate(MOVE, address)
        dashboard.settle()
        assert page.evaluate("window.struck") is None, address
        assert page.locator(STRANGERS).count() == 0, address
        links = page.locator("main a").evaluate_all("links => links.map((link) => link.getAttribute('href'))")
        assert all(link.startswith(("#", "runbook#")) for link in links), address
        dashboard.assert_fits()
    assert dialogs == []


def test_it_is_shown_as_text(hostile: Server, look: Open) -> None:
    page = look(hostile.url).go("#/models").page
    expect(page.locator(".ticks th").first).to_be_visible()
    for bad, text in SHOWN.items():
        assert page.locator(".card").filter(has_text=text).count() >= 2, bad
        expect(page.locator(".ticks tbody th", has_text=text)).to_have_count(1)
    page.get_by_role("link", name="Signals").click()
    for text in SHOWN.values():
        expect(page.locator("main tbody tr").filter(has_text=text)).to_have_count(1)
    page.get_by_role("link", name="Dead letters").click()
    for n, text in enumerate(SHOWN.values()):
        page.locator("table.rows").get_by_role("link", name=f"h-l{n}", exact=True).click()
        expect(page.locator("section.letter h2")).to_have_text(f"h-l{n}")
        expect(page.locator("section.letter")).to_contain_text(text)


def test_the_tail_too(hostile: Server, look: Open) -> None:
    dashboard = look(hostile.url).go("#/event")
    page = dashboard.page
    expect(page.get_by_text("Waiting for messages.")).to_be_visible()
    with page.expect_response("**/api/tail"):
        page.reload()
    for n, bad in enumerate(MESSAGE_IDS):
        tick = {"symbol": bad, "price": n, "ts": ago(0), "eventId": f"{bad}{n}"}
        hostile.push(push_body(tick, message_id=f"{bad}tail", published=ago(0), topic="market-ticks"))
        expect(page.locator("table.tail tbody tr").filter(has_text=SHOWN[bad])).not_to_have_count(0)
    assert page.evaluate("window.struck") is None


def test_bytes_that_are_no_text(hostile: Server, look: Open) -> None:
    page = look(hostile.url).go("#/letters/acceptance__h-raw").page
    letter = page.locator("section.letter")
    expect(letter.locator("pre")).to_contain_text("⟦U+0000⟧\ufffd<img src=x>AAA")
    assert len(letter.locator("pre").inner_text()) < 5_000
    letter.get_by_role("button", name="Show all").click()
    assert len(letter.locator("pre").inner_text()) > 20_000


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_names_of_views_in_the_day_are_text(hostile: Server, look: Open, size: tuple[int, int]) -> None:
    """The day comes from documents that another program may have written; its names are no markup."""
    dashboard = look(hostile.url, size)
    page = dashboard.page
    latency = {"p50": [None], "p99": [None]}
    shown = {"stepSeconds": 60, "at": [60], "outcomes": {"applied": [7]}, **latency, "complete": True}
    views = {name: {"applied": 7} for name in (*ALL, "__proto__", "constructor")}
    page.route("**/api/history", lambda route: route.fulfill(json={**shown, "views": views}))
    dashboard.go()
    page.get_by_label("24 h").check()
    for text in (*SHOWN.values(), "__proto__", "constructor"):
        expect(page.locator(".by-view tbody tr").filter(has_text=text).first).to_contain_text("7")
    assert page.evaluate("window.struck") is None
    assert page.locator(STRANGERS).count() == 0
    dashboard.assert_fits()
