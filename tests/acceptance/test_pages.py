"""The dashboard's files and the files of steps: what is served, how it may be used, and that nothing else is."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from millpond.core.model import Outcome
from millpond.http.pages import read_pages
from millpond.live.history import STEPS_MAX, History
from millpond.telemetry.metrics import Metrics
from tests.common.server import Server, Start

STATIC = Path(__file__).parents[2] / "src" / "millpond" / "http" / "static"
FILES = sorted(path.name for path in STATIC.iterdir())
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
PIXEL = bytes.fromhex("89504e470d0a1a0a")


# --- the dashboard -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/runbook", *(f"/static/{name}" for name in FILES)])
def test_a_page_comes_with_what_it_may_do(server: Server, path: str) -> None:
    """The content of its file, its type, and headers that let it load its own code and talk to us, and no more."""
    response = server.http.get(path)
    name = {"/": "index.html", "/runbook": "runbook.html"}.get(path, path.rpartition("/")[2])
    assert (response.status_code, response.content) == (200, (STATIC / name).read_bytes())
    headers = response.headers
    assert headers["content-type"] == TYPES[Path(name).suffix]
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-cache"
    known = server.http.get(path, headers={"if-none-match": headers["etag"]})
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", headers["etag"])
    assert known.headers["content-security-policy"] == POLICY
    head = server.http.head(path)
    assert (head.status_code, head.content, head.headers) == (200, b"", headers)


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [("gzip", True), ("br, GZIP", True), ("identity", False), ("", False), ("gzip;q=0", False), ("*", False)],
)
def test_pages_are_compressed_for_who_says_so(server: Server, accepted: str, compressed: bool) -> None:
    """The same content under the same tag; no client gets what it did not ask for."""
    response = server.http.get("/static/app.css", headers={"accept-encoding": accepted})
    assert (response.headers.get("content-encoding") == "gzip") is compressed
    assert response.content == (STATIC / "app.css").read_bytes()
    assert response.headers["vary"] == "accept-encoding"


def first_view() -> set[str]:
    """The files that the overview loads: those of the frame, and whatever their modules import at once."""
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    found = {"index.html"}
    waiting = [*re.findall(r'(?:href|src)="static/([^"]+)"', page), "overview.js"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += re.findall(r' from "\./([^"]+)";', (STATIC / name).read_text(encoding="utf-8"))
    return found


def test_even_with_a_long_history_the_first_view_is_small() -> None:
    """Every file that the overview loads, as it is sent, and the longest history of a busy server."""
    pages = read_pages(STATIC)
    metrics = Metrics()
    history = History(metrics, lambda: 63)
    dice = random.Random(1)
    for number in range(STEPS_MAX):
        for outcome in Outcome:
            metrics.messages["topic", outcome, "reason"] += dice.randrange(20_000)
            for view in range(6):
                metrics.view_events[f"a_view_of_ours_{view}", outcome] += dice.randrange(3_000)
        metrics.message_seconds.observe(dice.expovariate(50))
        metrics.commits += dice.randrange(900)
        metrics.messages_per_commit.total += dice.randrange(90_000)
        history.sample(1_794_000_000.1 + 2 * number)
    sent = sum(len(pages[name].compressed) for name in first_view())
    assert {"app.js", "app.css", "overview.js", "chart.js"} <= first_view() < set(FILES)
    assert len(msgspec.json.encode(history.shown())) + sent < 150_000


def test_tags_are_of_the_content(server: Server) -> None:
    """Two files have two tags, and the same file one."""
    tags = {server.http.get(f"/static/{name}").headers["etag"] for name in FILES}
    assert len(tags) == len(FILES)
    assert server.http.get("/").headers["etag"] == server.http.get("/static/index.html").headers["etag"]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("{tag}", 304),
        ("W/{tag}", 304),
        ('"other", {tag}', 304),
        ("*", 304),
        ("", 200),
        ('"other"', 200),
        ("{tag}x", 200),
        ("{tag},", 304),
        ("," * 10_000, 200),
        ('"' * 10_000, 200),
        ("W/" * 5_000, 200),
        ("\u00e9\u00ff", 200),
        ('W/W/"x', 200),
    ],
    ids=lambda value: str(value)[:20],
)
def test_if_none_match(server: Server, given: str, status: int) -> None:
    """Whatever a client claims to have, it gets the content unless it has it."""
    tag = server.http.get("/").headers["etag"]
    value = given.replace("{tag}", tag).encode("latin-1")
    response = server.http.get("/", headers={b"if-none-match": value})
    assert response.status_code == status


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/nothing.js",
        "/static/..%2Fapp.py",
        "/static/..%2F..%2Fservice.py",
        "/static/%2e%2e%2findex.html",
        "/static/../app.py",
        "/static/./index.html",
        "/static//index.html",
        "/static/index.html%00.js",
        "/static/%2Fetc%2Fpasswd",
        "/static/index.html/",
        "/static/INDEX.HTML",
        "/static/..%5Capp.py",
        "/static/%c0%ae%c0%ae%2fapp.py",
        "/static/.",
        "/static/..",
        "/index.html",
    ],
)
def test_nothing_else_is_served(server: Server, path: str) -> None:
    """A name that is not in the folder is 404, wherever it might lead."""
    # As bytes: a client would tidy some of these up.
    answer = server.raw(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode("latin-1"))
    assert (answer.status, answer.json["reason"]) == (404, "not_found")


def test_the_api_is_not_kept_by_browsers(server: Server) -> None:
    """Answers and refusals alike are of the moment, and of the type they say."""
    for path in ("/api", "/api/stats", "/api/docs/x/y", "/api/nowhere", "/api/letters?limit=0", "/api/sparklines"):
        headers = server.get(path).headers
        assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff"), path


# --- files of steps ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server with a few files of steps, things that are none, and links that lead out."""
    folder = tmp_path_factory.mktemp("kept")
    made = folder / "artifacts"
    step = made / "run %2F 1" / "a"
    step.mkdir(parents=True)
    (step / "01-SPY-5m.png").write_bytes(PIXEL)
    (step / "manifest.json").write_text('{"a":1}', encoding="utf-8")
    (step / "notes.txt").write_text("x", encoding="utf-8")
    (step / "page.html").write_text("<script>", encoding="utf-8")
    (step / ".half.png").write_bytes(PIXEL)
    (step / "folder.png").mkdir()
    os.mkfifo(step / "pipe.png")
    with (step / "big.png").open("wb") as file:
        file.truncate(20 * 1024 * 1024 + 1)
    (folder / "secret.json").write_text('{"secret":1}', encoding="utf-8")
    (folder / "artifacts-too").mkdir()
    (folder / "artifacts-too" / "secret.json").write_text('{"secret":1}', encoding="utf-8")
    (step / "out.json").symlink_to(folder / "secret.json")
    (step / "beside.json").symlink_to(folder / "artifacts-too" / "secret.json")
    (step / "in.json").symlink_to(step / "manifest.json")
    (step / "loop.json").symlink_to(step / "loop.json")
    (made / "out").symlink_to(folder)
    return start(folder, ARTIFACTS_DIR="artifacts")


@pytest.mark.parametrize(
    ("path", "media_type", "content"),
    [
        ("run %2F 1/a/01-SPY-5m.png", "image/png", PIXEL),
        ("run %2F 1/a/manifest.json", "application/json", b'{"a":1}'),
        ("run %2F 1/a/in.json", "application/json", b'{"a":1}'),
    ],
)
def test_a_file_of_a_step(kept: Server, path: str, media_type: str, content: bytes) -> None:
    """Its content, as exactly what it is, and not kept."""
    response = kept.http.get("/api/artifacts/" + quote(path, safe=""))
    assert (response.status_code, response.content) == (200, content)
    assert response.headers["content-type"] == media_type
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "run %2F 1/a/notes.txt",
        "run %2F 1/a/page.html",
        "run %2F 1/a/.half.png",
        "run %2F 1/a/folder.png",
        "run %2F 1/a/pipe.png",
        "run %2F 1/a/big.png",
        "run %2F 1/a/out.json",
        "run %2F 1/a/beside.json",
        "run %2F 1/a/loop.json",
        "run %2F 1/a/nothing.png",
        "out/secret.json",
        "../secret.json",
        "../artifacts-too/secret.json",
        "run %2F 1/../../secret.json",
        "run %2F 1/a/../a/manifest.json",
        "./run %2F 1/a/manifest.json",
        "run %2F 1//a/manifest.json",
        "/run %2F 1/a/manifest.json",
        "{folder}/secret.json",
        "{folder}/artifacts/run %2F 1/a/manifest.json",
        "run %2F 1/a/manifest.json/",
        "run %2F 1/a/manifest.json\0.png",
        "run %2F 1/a/\udc80.png",
        "..\\secret.json",
        "x" * 5_000 + ".png",
        "x/" * 5_000 + "y.png",
        "",
        ".png",
        ".json",
    ],
    ids=lambda path: ascii(path)[:40],
)
def test_no_other_file_is_served(kept: Server, path: str) -> None:
    """What is no .png or .json of a step, or leads out of the folder, is not there."""
    path = path.format(folder=kept.store.parent) if "{folder}" in path else path
    answer = kept.get("/api/artifacts/" + quote(path.encode(errors="surrogateescape"), safe=""))
    assert (answer.status, answer.json["reason"]) == (404, "not_found")
    assert "secret" not in answer.json["error"]


def test_a_folder_that_is_not_there(start: Start) -> None:
    """Before the first step has made anything there is nothing, and that is no fault."""
    server = start()
    assert server.get("/api/artifacts/a.png").status == 404
    server.put_up_fence()
    assert server.get("/api/artifacts/a.png").status == 404
    assert server.fence() == []
