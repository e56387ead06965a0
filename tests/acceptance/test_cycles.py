"""No request leaves reference cycles behind: the cyclic collector runs rarely, and they would keep bodies alive."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.common.process import ROOT, run
from tests.common.push import push_bytes

BIG = b'{"what is this": "%s"}' % (b"x" * 60_000)


def push(payload: bytes, message_id: str, **more: int) -> bytes:
    return push_bytes(payload, message_id=message_id, subscription="s", **more)


def request(body: bytes = b"", path: str = "/pubsub/push", *headers: str, size: int | None = None) -> str:
    """As text; `size` announces another length than the body has."""
    line = f"POST {path} HTTP/1.1" if body else f"GET {path} HTTP/1.1"
    lines = (line, "host: localhost", "content-type: application/json", *headers)
    announced = len(body) if size is None else size
    return "\r\n".join((*lines, f"content-length: {announced}", "", "")) + body.decode("latin-1")


GOOD = request(push(b'{"service":"a","timestamp":1767873600}', "good"))
HALF = b"x" * 100_000
CONVERSATIONS = {
    "a push": [GOOD],
    "two on one connection": [GOOD, GOOD],
    "aborted": [request(HALF, size=200_000)],
    "aborted, large": [request(HALF, size=5_000_000)],
    "aborted, expecting": [request(HALF, "/pubsub/push", "expect: 100-continue", size=200_000)],
    "aborted while pipelined": [GOOD * 3 + request(HALF, size=200_000)],
    "aborted elsewhere": [request(HALF, "/api/replay", size=200_000)],
    "not JSON": [request(HALF)],
    "not JSON, by ASGI": [request(HALF, "/pubsub/push?by=asgi")],
    "not HTTP": ["nonsense\r\n\r\n"],
    "too large": [request(b"x", size=20_000_000)],
    "buried": [request(push(BIG, "buried"))],
    "buried, no JSON": [request(push(BIG[:-1], "no-json"))],
    "buried, by ASGI": [request(push(BIG, "buried-too"), "/pubsub/push?by=asgi")],
    "native": [request(push(BIG, "native", attempt=1))],
    "native, no JSON": [request(push(BIG[:-1], "native-no-json", attempt=1))],
    "invalid event": [request(push(b'{"service":"a","timestamp":"%s"}' % (b"x" * 60_000), "invalid"))],
    "nowhere": [request(HALF, "/nowhere")],
    "health": [request(path="/health")],
    "page": [request(path="/")],
    "metrics": [request(path="/metrics")],
    "stream": [request(path="/api/tail")],
    "events": [request(HALF, "/events")],
    "letters": [request(path="/api/letters")],
    "letter": [request(path="/api/letters/s__buried")],
    "previewed": [request(b'{"ids":["s__buried"]}', "/api/letters/preview")],
    "replayed": [request(b"{}", "/api/letters/s__buried/replay")],
    "several replayed": [request(b'{"ids":["s__buried","s__no-json"]}', "/api/letters/replay")],
    "replayed from elsewhere": [request(push(BIG, "elsewhere"), "/api/replay")],
}


def garbage(folder: Path, conversations: list[list[str]], **settings: str) -> dict[str, int]:
    """What the collector would have found after these."""
    file = folder / "conversations.json"
    file.write_text(json.dumps(conversations))
    # A view of the test's own lies in the folder.
    paths = os.pathsep.join([str(ROOT), str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {"PYTHONPATH": paths, "PORT": "0", "STORE": f"sqlite:{folder / 'millpond.db'}", **settings}
    done = run([sys.executable, "-m", "tests.acceptance.cycles", str(file)], folder, environment, timeout_s=120)
    (line,) = [line for line in done.out.splitlines() if line.startswith("CYCLES ")]
    found: dict[str, int] = json.loads(line.removeprefix("CYCLES "))["garbage"]
    return found


def test_no_conversation_leaves_a_cycle(tmp_path: Path) -> None:
    """Whatever a client sends, everything about it is freed when it is answered, or gone."""
    assert garbage(tmp_path, list(CONVERSATIONS.values())) == {}


def test_a_refused_token_leaves_no_cycle(tmp_path: Path) -> None:
    """Nor does a request that was never read."""
    pytest.importorskip("google.auth")
    asked = {"PUSH_AUDIENCE": "https://pond.example", "PUSH_SERVICE_ACCOUNT": "push@example.com"}
    conversations = [CONVERSATIONS[name] for name in ("a push", "aborted", "aborted, expecting", "not JSON")]
    assert garbage(tmp_path, conversations, **asked) == {}


def test_a_cycle_would_be_seen(tmp_path: Path) -> None:
    """The measure measures: a view whose error refers to itself is found."""
    (tmp_path / "cyclic.py").write_text(
        "import millpond\n\n\n"
        "class Cyclic(millpond.Latest):\n"
        '    topics = ("cyclic",)\n    collection = "cyclic"\n    key = "id"\n    time = "ts"\n\n'
        "    def document(self, event):\n"
        '        held = {"payload": "x" * 100_000}\n        held["itself"] = held\n        return {"id": 1}\n'
    )
    payload = b'{"topic": "cyclic", "id": "a", "ts": 1767873600}'
    found = garbage(tmp_path, [[request(push(payload, "cyclic"))]], VIEWS="cyclic")
    assert found.get("bytes", 0) >= 100_000, found
