"""Killed servers: a few real ones, and the checks themselves, which must notice whatever could be wrong.

`python -m proof.kills` kills a hundred, or thousands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from millpond.core.decode import decode_push
from millpond.core.model import Result
from millpond.stores.sqlite.store import SqliteStore
from proof.kills.check import CHANGED, LOST, WRONG, Fault, StoreCheck, changes, content_of, surprises
from proof.kills.client import Answer, Deliveries
from proof.kills.run import run_kills
from proof.kills.traffic import Traffic
from tests.common.pond import NOW
from tests.common.rig import Rig

Doctoring = Callable[[apsw.Connection], Any]
SERVICE = "ops_services/dev__s3"


def test_killed_servers_lose_nothing() -> None:
    """Three killed under load, and one while it starts: what they answered is there, and nothing comes twice."""
    summary = run_kills(4, seed=7, kills_per_store=4, in_flight_share_min=0.75)
    assert summary.faults == []
    assert (summary.passed, summary.kills, summary.in_flight, summary.while_starting) == (True, 4, 3, 1)
    assert (summary.lost, summary.wrong, summary.changed) == (0, 0, 0)
    assert summary.answered > 100
    assert 0 < summary.unanswered < summary.sent


def test_too_few_kills_under_load_are_no_success() -> None:
    """A run that met no requests in flight proves nothing, and says so."""
    summary = run_kills(1, seed=7, kills_per_store=1)
    assert summary.while_starting == 1
    assert not summary.passed
    assert summary.faults == ["only 0 of 1 kills met requests in flight"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Deliveries]:
    """A store with everything in it that a server might have answered, and the answers."""
    path = tmp_path_factory.mktemp("filled") / "pond.db"
    deliveries = Deliveries()

    async def fill() -> None:
        traffic = Traffic(1, "m", NOW)
        messages = [traffic.next_message() for _ in range(1_000)]
        pond = Rig(SqliteStore(path), CONSUMER_QUEUE_SIZE="1000")
        for message in messages:
            deliveries.note_sent(message)
        results = await pond.send(*(decode_push(message.body) for message in messages))
        for message, result in zip(messages, results, strict=True):
            deliveries.note_answer(message, answer_of(result))
        await pond.service.close()

    asyncio.run(fill())
    return path, deliveries


def answer_of(result: Result) -> Answer:
    return Answer(200 if result.settled else 503, str(result.outcome), result.reason)


def test_a_store_as_it_should_be_has_no_faults(filled: tuple[Path, Deliveries]) -> None:
    """Every document is what the independent fold makes of the messages; every kind of outcome took part."""
    path, deliveries = filled
    assert len(deliveries.answers) == 1_000
    assert StoreCheck(deliveries).check(path, whole=True) == []
    outcomes = {answer.outcome for answers in deliveries.answers.values() for answer in answers}
    assert outcomes == {"applied", "duplicate", "stale_ignored", "poison"}


def change(path: str, edit: Callable[[dict[str, Any]], Any]) -> Doctoring:
    """Store another document in the place of one."""

    def doctor(connection: apsw.Connection) -> None:
        place = tuple(path.split("/"))
        body = connection.execute("SELECT body FROM documents WHERE collection = ? AND id = ?", place).get
        document = msgspec.msgpack.decode(body, type=dict[str, Any])
        edit(document)
        connection.execute(
            "UPDATE documents SET body = ? WHERE collection = ? AND id = ?",
            (msgspec.msgpack.encode(document), *place),
        )

    return doctor


# What was done to the store: which kind of fault that is, what is said of it, and how it was done.
DOCTORED: dict[str, tuple[str, str, str | Doctoring]] = {
    "a message is gone": (LOST, "not in the log", "DELETE FROM events WHERE outcome = 'applied' AND seq % 9 = 0"),
    "a poison message is gone": (LOST, "answered poison", "DELETE FROM events WHERE outcome = 'poison'"),
    "a document is gone": (LOST, "s3 is missing", "DELETE FROM documents WHERE id = 'dev__s3'"),
    "a merged document is gone": (LOST, "sig3 is missing", "DELETE FROM documents WHERE id = 'sig3'"),
    "a document is too old": (LOST, "s3 is older", change(SERVICE, lambda d: d["source"].update(stamp="01767"))),
    "a document says something else": (
        WRONG,
        "s3 is not the fold",
        change(SERVICE, lambda d: d.update(status="x")),
    ),
    "a field of a merged document is old": (
        WRONG,
        "sig3 is not the fold",
        change("trade_signals/sig3", lambda d: d["source"]["stamps"].pop()),
    ),
    "a document of no message": (
        WRONG,
        "documents, and there must be",
        "INSERT INTO documents VALUES ('ops_services', 'x', 1, NULL, x'80')",
    ),
    "a letter is gone": (LOST, "has no letter", "DELETE FROM documents WHERE collection = 'dead_letters'"),
    "a receipt is gone": (LOST, "receipts, and there must be", "DELETE FROM receipts WHERE rowid = 5"),
    "an entry of no message": (
        WRONG,
        "never sent",
        "INSERT INTO events VALUES (9999, 'x', 't', NULL, 1, 'applied', x'90')",
    ),
    "an entry twice": (
        WRONG,
        "twice",
        "INSERT INTO events SELECT 9999, message_id, 'again', NULL, 1, outcome, body FROM events LIMIT 1",
    ),
    "another outcome": (WRONG, "the log says", "UPDATE events SET outcome = 'filtered' WHERE seq % 9 = 0"),
    "other data": (WRONG, "otherwise than it was sent", "UPDATE events SET topic = 'other' WHERE seq % 9 = 0"),
    "a count is off": (WRONG, "counts", "UPDATE event_counts SET n = n + 1 WHERE outcome = 'applied'"),
    "the version counter is behind": (WRONG, "it would come again", "UPDATE last_version SET n = n - 1"),
}


@pytest.mark.parametrize(("kind", "text", "doctor"), DOCTORED.values(), ids=DOCTORED)
def test_a_doctored_store_is_noticed(
    filled: tuple[Path, Deliveries], tmp_path: Path, kind: str, text: str, doctor: str | Doctoring
) -> None:
    """Whatever was acknowledged and is missing, too old or otherwise wrong is reported as what it is."""
    path, deliveries = filled
    copy = tmp_path / "pond.db"
    copy.write_bytes(path.read_bytes())
    connection = apsw.Connection(str(copy))
    if isinstance(doctor, str):
        connection.execute(doctor)
    else:
        doctor(connection)
    assert connection.total_changes() > 0
    connection.close()
    faults = StoreCheck(deliveries).check(copy, whole=True)
    assert [fault for fault in faults if fault.kind == kind and text in fault.text], faults


def test_a_damaged_file_is_noticed(filled: tuple[Path, Deliveries], tmp_path: Path) -> None:
    """Pages of something else are no store, whichever of the checks meets them first."""
    path, deliveries = filled
    content = bytearray(path.read_bytes())
    content[8_192 : len(content) // 2] = b"\xff" * (len(content) // 2 - 8_192)
    copy = tmp_path / "pond.db"
    copy.write_bytes(content)
    assert {fault.kind for fault in StoreCheck(deliveries).check(copy)} >= {WRONG}


def test_what_re_sending_changes_is_noticed(filled: tuple[Path, Deliveries]) -> None:
    """A document, receipt or log entry that differs, and a message that is answered as if it were new."""
    path, deliveries = filled
    before = content_of(path)
    assert changes(before, before) == []
    after = {**before, "ops_services/dev__s3": "other"}
    assert changes(before, after) == [Fault(CHANGED, "ops_services/dev__s3 was changed by re-sending")]
    message = next(m for m in deliveries.messages.values() if m.poison is None)
    again = Deliveries()
    assert [fault.kind for fault in surprises([message], again)] == [CHANGED]
    again.note_answer(message, Answer(200, "duplicate", "duplicate_message_noop"))
    assert surprises([message], again) == []
    again.note_answer(message, Answer(200, "applied", "applied"))
    assert [fault.kind for fault in surprises([message], again)] == [CHANGED]


def test_an_answer_applied_twice_is_noticed(filled: tuple[Path, Deliveries]) -> None:
    """A message that is applied again after it was acknowledged had been lost in between."""
    path, deliveries = filled
    message_id = next(name for name, answers in deliveries.answers.items() if answers[0].outcome == "applied")
    twice = Deliveries()
    twice.messages = deliveries.messages
    twice.answers = {**deliveries.answers, message_id: deliveries.answers[message_id] * 2}
    faults = StoreCheck(twice).check(path)
    assert [(fault.kind, message_id in fault.text) for fault in faults] == [(WRONG, True)]
