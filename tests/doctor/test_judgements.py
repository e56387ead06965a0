"""What is judged from values alone: settings, clocks, room, and a check that fails."""

from __future__ import annotations

import asyncio
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from millpond.doctor import clock as clock_check
from millpond.doctor import disk as disk_check
from millpond.doctor import examination
from millpond.doctor import settings as settings_check
from millpond.doctor.clock import ProbeAnswer
from millpond.doctor.examination import Subject, examine
from millpond.doctor.findings import Finding, State, fine
from millpond.settings import load
from tests.doctor.support import texts

NOON = 1_767_873_600.0


def test_every_wrong_setting_is_named() -> None:
    """Not only the first; and what is right is used for the rest."""
    wrong = {"PORT": "many", "POISON_POLICY": "maybe", "ENV": "prod", "HOST": ""}
    loaded = settings_check.load_settings(wrong, {"STORE": "tape"})
    assert [text.split("=")[0] for text in texts(loaded.findings, State.PROBLEM)] == [
        "HOST",
        "PORT",
        "STORE",
        "POISON_POLICY",
    ]
    assert loaded.settings is not None
    assert (loaded.settings.env, loaded.settings.port) == ("prod", 8080)


def test_settings_that_are_missing_cannot_be_left_out() -> None:
    """STORE=firestore needs names that are not set: everything else waits for them, and that is said."""
    found = asyncio.run(examine({"STORE": "firestore"}, {}, ()))
    assert "GCP_PROJECT" in texts(found, State.PROBLEM)[0]
    assert "store, subscription, disk" in texts(found, State.UNCHECKED)[0]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"HOST": "192.0.2.7"}, "ADMIN_TOKEN is not set"),
        ({"HOST": "192.0.2.7", "ADMIN_TOKEN": "s3cret"}, "serve will not start"),
        ({"HOST": "192.0.2.7", "PUSH_UNAUTHENTICATED": "allow", "ADMIN_TOKEN": "s3cret"}, "is accepted"),
        ({"EVENT_LOG": "off"}, "why, verify and rebuild"),
        ({"STORE": "memory"}, "nothing is kept"),
        ({"LETTER_TTL_DAYS": "2"}, "before a week"),
        ({"PUSH_CERTS_URL": "https://keys.example/"}, "PUSH_CERTS_URL"),
    ],
)
def test_what_is_allowed_and_risky(environment: dict[str, str], words: str) -> None:
    """A warning that names the setting; never a secret."""
    found = settings_check.check_settings(load(environment))
    assert any(words in text for text in texts(found, State.WARNING))
    assert not any("s3cret" in finding.found + finding.advice for finding in found)


def test_settings_without_risk() -> None:
    """The defaults, and a server that is exposed as it should be, are fine."""
    guarded = {
        "HOST": "192.0.2.7",
        "ADMIN_TOKEN": "s3cret",
        "PUSH_AUDIENCE": "https://pond.example/pubsub/push",
        "PUSH_SERVICE_ACCOUNT": "push@p.iam.gserviceaccount.com",
    }
    for environment in ({}, guarded):
        assert {finding.state for finding in settings_check.check_settings(load(environment))} == {State.OK}


def test_a_views_module_that_cannot_be_loaded() -> None:
    """It keeps the server from starting."""
    found = settings_check.check_settings(load({"VIEWS": "no_such_module"}))
    assert "no_such_module" in texts(found, State.PROBLEM)[0]


@pytest.mark.parametrize(
    ("ahead_s", "unsure_s", "state"),
    [
        (0.4, 0.1, State.OK),
        (-2.4, 0.5, State.OK),
        (2.6, 0.5, State.WARNING),
        (-29.0, 0.0, State.WARNING),
        (31.0, 0.5, State.PROBLEM),
    ],
)
def test_a_clock_is_judged_by_what_is_sure(ahead_s: float, unsure_s: float, state: State) -> None:
    """The time an answer was on its way is forgiven, and no more."""
    found = clock_check.judge(ahead_s, unsure_s, "the broker's")
    assert found.state is state
    assert ("ahead of" if ahead_s > 0 else "behind") in found.found


@pytest.mark.parametrize(
    ("date", "state"),
    [
        ("Thu, 08 Jan 2026 12:00:00 GMT", State.OK),
        ("Thu, 08 Jan 2026 12:00:10 GMT", State.WARNING),
        ("Thu, 08 Jan 2026 11:00:00 GMT", State.PROBLEM),
        ("yesterday", State.UNCHECKED),
        (None, State.UNCHECKED),
    ],
)
def test_a_clock_by_the_date_of_an_answer(date: str | None, state: State) -> None:
    """Whole seconds, as HTTP has them."""
    headers = {} if date is None else {"date": date}
    answer = ProbeAnswer(404, headers, NOON, NOON + 0.2)
    assert clock_check.judge_answer(answer, "https://pubsub.example/").state is state


class Refusing(BaseHTTPRequestHandler):
    """Knows no method at all: each request is answered 501, with the date."""

    def log_message(self, *_: object) -> None:
        """Nothing to standard error."""


def test_a_clock_by_a_server_that_answers() -> None:
    """Any answer over HTTP has the date, a refusal too; without an answer it cannot be known."""
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        (told,) = asyncio.run(clock_check.check_against(f"http://127.0.0.1:{server.server_port}/"))
        server.shutdown()
    (silent,) = asyncio.run(clock_check.check_against("http://127.0.0.1:9/"))
    assert (told.state, silent.state) == (State.OK, State.UNCHECKED)


@pytest.mark.parametrize(
    ("free", "store_bytes", "state"),
    [
        (50_000_000_000, 1_000_000_000, State.OK),
        (50_000_000_000, 60_000_000_000, State.WARNING),
        (900_000_000, 1_000_000, State.WARNING),
        (99_000_000, 1_000_000, State.PROBLEM),
    ],
)
def test_room_against_the_store(free: int, store_bytes: int, state: State) -> None:
    """Little room, room for no backup, and hardly any."""
    assert disk_check.judge_room(Path("/data"), free, store_bytes).state is state


def test_the_write_ahead_log_takes_room_too(tmp_path: Path) -> None:
    """While the server runs it may be larger than the store itself."""
    for name, size in (("pond.db", 1_000_000), ("pond.db-wal", 30_000_000)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    found = disk_check.check_disk(load({"STORE": f"sqlite:{tmp_path}/pond.db", "ARTIFACTS_DIR": str(tmp_path)}))
    assert any("where the store has 31.0 MB" in finding.found for finding in found), found


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    """A file in the way is a problem; what is missing and can be made is none."""
    (tmp_path / "file").write_text("x")
    wrong = load({"STORE": f"sqlite:{tmp_path}/file/x.db", "ARTIFACTS_DIR": f"{tmp_path}/file/art"})
    assert len(texts(disk_check.check_disk(wrong), State.PROBLEM)) == 2
    right = load({"STORE": f"sqlite:{tmp_path}/new/x.db", "ARTIFACTS_DIR": f"{tmp_path}/a/b"})
    assert {finding.state for finding in disk_check.check_disk(right)} == {State.OK}
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_on_a_disk_that_is_read_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The file system says no to every user; root cannot be refused otherwise."""
    monkeypatch.setattr("os.access", lambda *_: False)
    (tmp_path / "pond.db").touch()
    found = disk_check.check_disk(load({"STORE": f"sqlite:{tmp_path}/pond.db", "ARTIFACTS_DIR": str(tmp_path)}))
    assert len(texts(found, State.PROBLEM)) == 3


def test_a_check_that_fails_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that raises, and one that never ends, are findings; what follows is looked at."""

    async def broken(_: Subject) -> list[Finding]:
        raise ZeroDivisionError("oops")

    async def endless(_: Subject) -> list[Finding]:
        await asyncio.sleep(3_600)
        raise AssertionError

    async def good(_: Subject) -> list[Finding]:
        return [fine("good", "it was made")]

    monkeypatch.setattr(examination, "CHECKS", (("broken", broken), ("endless", endless), ("good", good)))
    monkeypatch.setattr(examination, "_CHECK_S", 0.05)
    found = asyncio.run(examine({}, {}, ()))
    assert [(finding.check, finding.state) for finding in found] == [
        ("broken", State.UNCHECKED),
        ("endless", State.UNCHECKED),
        ("good", State.OK),
    ]
    assert "ZeroDivisionError" in found[0].found
