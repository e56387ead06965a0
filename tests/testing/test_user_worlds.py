"""The full simulation of a user's views and events: healthy views hold, bugs of views and engine are found."""

from __future__ import annotations

import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from millpond import Document
from millpond.cli.root import cli
from millpond.core import plan, route
from millpond.core.errors import SettingsError
from millpond.core.hashing import base32_sha256
from millpond.core.item import Target
from millpond.core.model import Outcome
from millpond.core.receipts import Receipts
from millpond.sim.shrink import shrink
from millpond.testing.faults import CheckError, NoEvents
from millpond.testing.user_stage import UserStage

VIEWS = """
from millpond import DELETE, Latest, Merge, Tally


class Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"
    time = "at"

    def document(self, event):
        return DELETE if event.get("status") == "gone" else {"status": event.get("status")}


class Fields(Merge):
    topics = ("orders",)
    collection = "order_fields"
    key = "orderId"
    time = "at"

    def fields(self, event):
        return {name: event.payload[name] for name in ("status", "cents") if name in event.payload}


class Counts(Tally):
    topics = ("orders", "returns")
    collection = "order_counts"
    key = "orderId"
    time = "at"

    def fold(self, event, current):
        return {"orders": current.get("orders", 0) + 1, "cents": current.get("cents", 0) + event.get("cents", 0)}


class States(Latest):
    topics = ("states",)
    collection = "states"
    key = "state"
    time = "at"
    retention_days = 1
    ingested_at = True

    def collection_of(self, event):
        return f"states/{event.require('state')}/below"

    def key_of(self, event):
        return ("any",)

    def document(self, event):
        return {"at": event.get("at")}
"""
FAULTY = """
from millpond import Latest, Tally


class Last(Tally):
    topics = ("orders",)
    collection = "last"
    key = "orderId"
    time = "at"

    def fold(self, event, current):
        return {"status": event.get("status")}
"""
RAISING = FAULTY.replace('{"status": event.get("status")}', '{"status": event.payload["nothing"]}')


def lines() -> Iterator[str]:
    for number in range(28):
        order: Document = {"orderId": f"o-{number % 3}", "at": f"2025-03-08T12:00:{number:02d}Z"}
        order["status"] = ("new", "paid", "gone", "back")[number % 4]
        order |= {"cents": number} if number % 3 else {}
        order |= {"eventId": f"e-{number}"} if number % 2 else {}
        topic = "orders" if number % 4 else "returns"
        if number % 7 > 4:
            order, topic = {**order, "state": order["status"]}, "states"
        if number == 9:
            del order["orderId"]
        yield json.dumps({"topic": topic, "data": order})
    yield json.dumps({"topic": "of-no-view", "data": {"orderId": "o-1"}})
    yield json.dumps({"topic": "market-ticks", "data": {"symbol": "K0", "ts": "2025-03-08T12:00:00Z", "price": 1}})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder: two modules of views, and a file of events."""
    for name, text in (("user_orders", VIEWS), ("user_faulty", FAULTY), ("user_raising", RAISING)):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "orders.jsonl").write_text("\n".join(lines()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


@pytest.fixture
def stage(folder: Path) -> UserStage:
    return UserStage("user_orders", str(folder / "orders.jsonl"))


def first_failure(stage: UserStage, seeds: int = 30) -> tuple[int, str, str]:
    for seed in range(seeds):
        failure = stage.run_seed(seed).failure
        if failure is not None:
            return seed, failure.checker, failure.text
    raise AssertionError("no world failed")


def test_worlds_of_healthy_views_hold(stage: UserStage) -> None:
    """And in them happens what the simulation is for: crashes, lost replies, duplicates, letters, dead letters."""
    seen: Counter[str] = Counter()
    for seed in range(60):
        report = stage.run_seed(seed)
        assert report.failure is None, report
        seen.update(report.seen)
    for happened in (
        "crash",
        "commit reply lost",
        "delivered twice",
        "letter replayed",
        "dead-letter copy replayed",
        "conflict",
        "answered duplicate_event_noop",
        "answered stale_event_ignored",
        "answered invalid_event",
        "answered unroutable_payload",
    ):
        assert seen[happened] > 0, happened


def test_a_seed_gives_the_same_world(stage: UserStage) -> None:
    assert stage.run_seed(11) == stage.run_seed(11)


def test_a_fold_that_depends_on_order_is_found_and_shrunk(folder: Path) -> None:
    """Two messages are left, and the options that repeat exactly this world."""
    stage = UserStage("user_faulty", str(folder / "orders.jsonl"))
    seed, checker, _ = first_failure(stage)
    assert checker == "documents equal the fold"
    smaller = shrink(seed, checker, stage=stage)
    assert len(smaller.messages or ()) == 2
    assert smaller.options().startswith(f"--views user_faulty --events {folder}/orders.jsonl --seed {seed} ")
    failure = smaller.run().failure
    assert failure is not None
    assert failure.checker == checker


def test_a_view_that_raises_is_found(folder: Path) -> None:
    _, checker, text = first_failure(UserStage("user_raising", str(folder / "orders.jsonl")))
    assert checker == "views do not fail"
    assert "last: fold() raises KeyError at user_raising.py:12 for " in text


def test_an_engine_that_goes_by_arrival_is_found(stage: UserStage, monkeypatch: pytest.MonkeyPatch) -> None:
    def last_one_wins(target: Target, current: Document | None, now: int) -> plan.Verdict:  # noqa: ARG001
        return plan.Verdict(Outcome.APPLIED, "applied", target.content, target.stamp)

    monkeypatch.setattr(plan, "_decide_latest", last_one_wins)
    assert first_failure(stage)[1] == "stamps only grow"


def test_an_engine_that_counts_twice_is_found(stage: UserStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Receipts, "known", lambda *_: None)
    assert first_failure(stage)[1] in {"documents equal the fold", "redelivery changes nothing"}


def test_an_engine_that_takes_copies_for_events_is_found(stage: UserStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """If only the message id identifies an event, its republished copy counts, too."""
    monkeypatch.setattr(route, "logical_key", lambda event, *_: base32_sha256(event.message_id.encode()))
    assert first_failure(stage)[1] == "tallies count each event once"


def test_an_engine_that_writes_duplicates_is_found(stage: UserStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content is the same, so only a redelivery of everything shows it."""
    real = plan._decide_latest  # noqa: SLF001 - the bug is planted in it

    def written_again(target: Target, current: Document | None, now: int) -> plan.Verdict:
        verdict = real(target, current, now)
        again = current if verdict.reason == "duplicate_message_noop" else verdict.document
        return plan.Verdict(verdict.outcome, verdict.reason, again, verdict.winner)

    monkeypatch.setattr(plan, "_decide_latest", written_again)
    assert first_failure(stage)[1] == "redelivery changes nothing"


def test_an_engine_that_answers_too_early_is_found(stage: UserStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receipt is written, and the document is not."""
    real = plan._decide_latest  # noqa: SLF001 - the bug is planted in it

    def never_written(target: Target, current: Document | None, now: int) -> plan.Verdict:
        verdict = real(target, current, now)
        return plan.Verdict(verdict.outcome, verdict.reason, None, verdict.winner)

    monkeypatch.setattr(plan, "_decide_latest", never_written)
    assert first_failure(stage)[1] == "no ack before durability"


def test_a_letter_with_other_data_is_found(stage: UserStage, monkeypatch: pytest.MonkeyPatch) -> None:
    real = zlib.compress
    monkeypatch.setattr(zlib, "compress", lambda data, level: real(data.replace(b"o-", b"p-"), level))
    assert first_failure(stage)[1] == "letters are whole"


def test_the_command(folder: Path) -> None:
    """Exit code 0 if it holds; else 1, with the smallest world and the command that repeats it."""

    def run(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, ["simulate", "--jobs", "1", *words])
        return result.exit_code, result.output

    events = ("--events", str(folder / "orders.jsonl"))
    code, output = run("--views", "user_orders", *events, "--seeds", "5")
    assert code == 0, output
    assert output.splitlines()[-1] == "every guarantee held"
    assert "rare states" not in output.lower()
    code, output = run("--views", "user_faulty", *events, "--seeds", "30")
    assert code == 1
    assert "BROKEN documents equal the fold: last/o-" in output
    command = output.splitlines()[-1].split()
    repeated = CliRunner().invoke(cli, command[1:])
    assert repeated.exit_code == 1
    assert "BROKEN documents equal the fold" in repeated.output
    assert " starts" in repeated.output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--views", "user_orders"), "--views needs --events"),
        (("--views", "user_orders", "--events", "gone.jsonl"), "gone.jsonl"),
        (("--events", "orders.jsonl", "--require-rare"), "--require-rare makes no sense with --events"),
    ],
)
def test_wrong_usage_is_refused(folder: Path, words: tuple[str, ...], text: str) -> None:
    assert folder.exists()
    result = CliRunner().invoke(cli, ["simulate", *words])
    assert result.exit_code == 2
    assert text in result.output


def test_wrong_files_and_modules_are_refused(folder: Path) -> None:
    """Before any world runs."""
    (folder / "wrong.jsonl").write_text("{")
    (folder / "other.jsonl").write_text('{"topic": "of-no-view", "data": {"id": 1}}')
    for views, events, error, text in (
        ("gone", "orders.jsonl", SettingsError, "VIEWS=gone: cannot be imported"),
        ("user_orders", "wrong.jsonl", CheckError, "line 1 of "),
        ("user_orders", "other.jsonl", NoEvents, "none of the 1 events is for a view"),
    ):
        with pytest.raises(error) as raised:
            UserStage(views, str(folder / events)).check()
        assert text in str(raised.value)
