"""The fuzz run: a small one against a real server, and that it sees what it must see."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from proof.fuzz import command, wire
from proof.fuzz.requests import EVENTS, KINDS, PUSH, make_request
from proof.fuzz.run import Fuzz
from tests.common.process import clean_environment
from tests.proof.stub import Behave, Said, Stub, honest, refusal

ROOT = Path(__file__).parents[2]
SMALL = 600
# Requests that a stub understands: enough for one group of each kind of fault.
FRAMED = [number for number in range(60) if make_request(1, number).framed][:20]
APPLIED = {"outcome": "applied", "reason": "applied", "topic": "t"}
VIEW = {"view": "v", "doc": "c/d", "outcome": "applied", "reason": "applied"}


# --- a real server -----------------------------------------------------------------------------------------------


def test_a_small_run_is_clean(tmp_path: Path) -> None:
    """Hundreds of mutated requests of every kind, every answer documented, nothing left by what was rejected."""
    report = command.run_many(tmp_path, seed=7, requests=SMALL)
    assert report["faults"] == []
    assert report["accepted"] + report["rejected"] + report["no HTTP and no answer"] == SMALL
    assert sum(report["kinds"].values()) == SMALL
    assert 0.2 < report["accepted"] / SMALL < 0.7
    assert report["rejected and sent again alone"] > SMALL / 10
    assert report["state changes by rejected ones"] == 0
    assert sum(map(len, report["answers"].values())) >= 30


def test_the_command(tmp_path: Path) -> None:
    """It exits with 0, shows its figures, and can send a single request of a run again."""
    base = [sys.executable, "-m", "proof.fuzz", "--seed", "3"]
    for arguments, shown in (
        (["--requests", "40"], "state changes by rejected ones"),
        (["--only", "5"], "request 5"),
    ):
        done = subprocess.run(
            [*base, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert shown in done.stdout
    assert repr(make_request(3, 5).raw) in done.stdout
    assert [*tmp_path.iterdir()] == []


# --- requests ----------------------------------------------------------------------------------------------------


def test_a_request_is_a_function_of_its_seed_and_number() -> None:
    """In another process as well, or it could not be sent again."""
    script = (
        "from zlib import crc32\nfrom proof.fuzz.requests import make_request as make\n"
        "print([crc32(make(1, n).raw) for n in range(300)])"
    )
    environment = clean_environment({"PYTHONPATH": f"{ROOT}"})
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**environment, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(found) == 1
    assert make_request(1, 5) == make_request(1, 5)
    assert make_request(1, 5).raw != make_request(2, 5).raw


def test_every_kind_of_request_is_made() -> None:
    """And nearly no two are the same."""
    made = [make_request(1, number) for number in range(3_000)]
    assert {request.kind for request in made} == {*KINDS}
    assert {request.path for request in made} == {PUSH, EVENTS}
    assert len({request.raw for request in made}) > 2_900


# --- what it must see --------------------------------------------------------------------------------------------


def faults_of(folder: Path, behave: Behave) -> list[str]:
    with Stub(folder, behave) as stub:
        fuzz = Fuzz(stub, 1)
        try:
            fuzz.run(FRAMED)
        finally:
            fuzz.close()
    return [fault.text for fault in fuzz.faults]


def test_a_stub_that_is_right_is_right(tmp_path: Path) -> None:
    """Otherwise the tests below would prove nothing."""
    assert faults_of(tmp_path, honest) == []


def once(number: int, said: Callable[[Stub, str], Said]) -> Behave:
    """Honest, but for the request of this number, in order of arrival."""

    def behave(stub: Stub, path: str) -> Said:
        return said(stub, path) if stub.requests == number else honest(stub, path)

    return behave


def on_push(said: Callable[[Stub], Said]) -> Behave:
    """Honest, but for pushes."""
    return lambda stub, path: said(stub) if path == PUSH else honest(stub, path)


def _writes(stub: Stub, path: str) -> Said:
    stub.write()
    return honest(stub, path)


def _logs_a_bug(stub: Stub, path: str) -> Said:
    stub.note(message="unexpected error", stack="…")
    return honest(stub, path)


def _logs_twice(stub: Stub, path: str) -> Said:
    honest(stub, PUSH)
    return honest(stub, path)


def _is_silent(stub: Stub, path: str) -> Said:
    return Said(400, refusal(path)) if path == PUSH else _logs_twice(stub, path)


def _accepts_and_forgets(stub: Stub) -> Said:
    stub.note(write_kind="put", messageId="lost", http_status=200, reason="applied")
    return Said(200, {**APPLIED, "messageId": "lost", "views": [VIEW]})


def _buries_nothing(stub: Stub) -> Said:
    stub.note(write_kind="letter", messageId="lost", http_status=200, reason="invalid_json")
    told = {"outcome": "poison", "reason": "invalid_json", "messageId": "lost", "topic": "", "views": []}
    return Said(200, {**told, "error": "no"})


WRONG: dict[str, tuple[Behave, str]] = {
    "a 500": (once(5, lambda _, path: Said(500, refusal(path))), "a server's fault: 500"),
    "a 500 on every push": (on_push(lambda _: Said(500, refusal(PUSH))), "not documented: 500"),
    "a retry for no reason": (
        once(5, lambda _, path: Said(503, refusal(path, outcome="retry", reason="internal_error"))),
        "a server's fault: 503",
    ),
    "a status that is not documented": (once(5, lambda _, path: Said(418, refusal(path))), "not documented: 418"),
    "a reason of another status": (
        once(5, lambda _, path: Said(400, refusal(path, reason="unsupported_media_type"))),
        "not documented: 400",
    ),
    "a field too many": (once(5, lambda _, path: Said(400, refusal(path, more=1))), "not documented: 400"),
    "no JSON": (once(5, lambda *_: Said(400, b"Bad Request")), "no JSON object"),
    "no answer": (once(5, lambda *_: Said(None, b"")), "the connection was closed"),
    "405 without Allow": (
        once(5, lambda _, path: Said(405, refusal(path, reason="method_not_allowed"))),
        "405 without the header allow",
    ),
    "rejected with 200": (on_push(lambda _: Said(200, refusal(PUSH))), "not documented: 200"),
    "applied with an error": (
        on_push(lambda _: Said(200, {**APPLIED, "messageId": "", "views": [VIEW], "error": "no"})),
        "an error although the message was taken",
    ),
    "buried without an error": (
        on_push(lambda _: Said(200, {**APPLIED, "outcome": "poison", "reason": "invalid_json", "messageId": ""})),
        "none although it was not",
    ),
    "a retry with 400": (once(5, lambda _, path: Said(400, refusal(path, outcome="retry"))), "do not agree"),
    "applied nowhere": (on_push(lambda _: Said(200, {**APPLIED, "messageId": "", "views": []})), "and nowhere"),
    "views that say something else": (
        on_push(lambda _: Said(200, {**APPLIED, "messageId": "", "views": [{**VIEW, "outcome": "duplicate"}]})),
        "the views do not say",
    ),
    "an answer that changes": (
        lambda stub, path: (
            Said(415, refusal(path, reason="unsupported_media_type"))
            if stub.requests > len(FRAMED)
            else _writes(stub, path)
        ),
        "the state was changed",
    ),
    "a rejected request that writes": (_writes, "rejected, and the state was changed"),
    "a rejected request that writes once": (once(5, _writes), "not again when alone"),
    "accepted and forgotten": (on_push(_accepts_and_forgets), "answered 200, and not in the event log"),
    "buried nowhere": (on_push(_buries_nothing), "answered 200, and not in the letters"),
    "a bug in the log": (once(5, _logs_a_bug), "in the server's log: "),
    "a line too many": (once(5, _logs_twice), "a line too many"),
    "no line": (_is_silent, "no line in the server's log"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_seen(tmp_path: Path, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thing that must not be is one fault at least, and it says which."""
    monkeypatch.setattr("proof.fuzz.run._LINES_S", 0.3)
    behave, text = WRONG[wrong]
    assert any(text in fault for fault in faults_of(tmp_path, behave)), faults_of(tmp_path, behave)


def test_a_server_that_hangs_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not hold up the run for long."""
    monkeypatch.setattr(wire, "ANSWER_S", 0.3)
    assert any("no answer after" in fault for fault in faults_of(tmp_path, once(3, lambda *_: Said(0, b""))))


def test_the_culprit_is_named(tmp_path: Path) -> None:
    """With the command that sends it again, and its bytes."""
    with Stub(tmp_path, lambda stub, path: (_writes if path == EVENTS else honest)(stub, path)) as stub:
        fuzz = Fuzz(stub, 1)
        fuzz.run(FRAMED)
        fuzz.close()
    report = command.make_report(fuzz, 1, len(FRAMED), 1.0)
    (fault, *_) = report["faults"]
    request = make_request(1, fault["number"])
    assert request.path == EVENTS
    assert fault["again"].endswith(f"--seed 1 --only {fault['number']}")
    assert fault["request"].startswith(repr(request.raw)[:200])
    assert report["state changes by rejected ones"] >= 1


def test_a_run_that_goes_nowhere_fails(tmp_path: Path) -> None:
    """Nothing accepted, or few answers met, would prove little: with enough requests that is a fault of its own."""
    with Stub(tmp_path, honest) as stub:
        fuzz = Fuzz(stub, 1)
        fuzz.run(FRAMED)
        fuzz.close()
    assert command.make_report(fuzz, 1, len(FRAMED), 1.0)["faults"] == []
    texts = [fault["fault"] for fault in command.make_report(fuzz, 1, 20_000, 1.0)["faults"]]
    assert [text.split()[0] for text in texts] == ["0%", "only"]
