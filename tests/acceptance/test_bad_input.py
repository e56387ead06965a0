"""Every malformed, hostile or absurd input: a clear status and reason, nothing changed, one log line, never a 500.

`ROWS` is the table. A row is either a request nothing can be identified in (refused), or a message that can never
succeed (poison), which appears twice: without `deliveryAttempt`, where it is buried and acknowledged, and with it,
where it is left to the subscription's own dead-letter policy.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.acceptance.bad_messages import MESSAGES, POISON
from tests.acceptance.bad_requests import METADATA, REQUESTS, WATCHED, Row, request_bytes
from tests.common.push import ABSENT, MARKER, encoded, good_body, good_bytes, tick
from tests.common.server import Answer, Server, Start, ended, read_answer

ROWS = [*REQUESTS, *MESSAGES]


def test_every_row_has_a_name_of_its_own() -> None:
    """Two rows of one name would hide one another in a report, and two messages of one id are duplicates."""
    names = [row.name for row in ROWS]
    assert sorted(set(names)) == sorted(names)


class Trial(NamedTuple):
    """What one row led to."""

    answer: Answer | Exception
    lines: list[str]
    changed: set[str]
    letters: list[tuple[str, str]]


@pytest.fixture(scope="module")
def trials(request: pytest.FixtureRequest, server: Server) -> dict[str, Trial]:
    """Every selected row tried, in order. Only then is the log looked at: it is written every 50 ms."""
    server.fence()
    documents, letters = server.documents(WATCHED), _letters(server)
    tried: dict[str, tuple[Trial, int]] = {}
    for item in request.session.items:
        callspec: Any = getattr(item, "callspec", None)
        row = callspec.params.get("row") if callspec is not None else None
        if not isinstance(row, Row):
            continue
        before, fence = (documents, letters), 0
        try:
            answer: Answer | Exception = row.send(server)
            fence = server.put_up_fence()
            documents, letters = server.documents(WATCHED), _letters(server)
        except Exception as error:  # noqa: BLE001 - it belongs to its row, and the others go on
            answer = error
        changed = {path for path, _ in before[0].items() ^ documents.items()}
        tried[row.name] = (Trial(answer, [], changed, sorted(letters - before[1])), fence)
    return {
        name: trial._replace(lines=server.lines_before(fence) if fence else [])
        for name, (trial, fence) in tried.items()
    }


def _letters(server: Server) -> set[tuple[str, str]]:
    return {(letter["messageId"], letter["reason"]) for letter in server.letters()}


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_bad_input(trials: dict[str, Trial], row: Row) -> None:
    """Each row gets its exact status and reason, changes no document, and is logged once without its payload."""
    trial = trials[row.name]
    if isinstance(trial.answer, Exception):
        raise trial.answer
    assert trial.answer.status == row.status, trial.answer
    _check_shape(row, trial.answer)
    _check_line(row, trial.lines)
    assert trial.changed == set()
    assert trial.letters == ([(row.message_id, row.reason)] if row.buried else [])


def _check_shape(row: Row, answer: Answer) -> None:
    if row.allow is not None:
        assert set(answer.headers.get("allow", "").replace(" ", "").split(",")) == row.allow
    if row.bodiless:
        assert answer.json is None
        return
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["reason"] == row.reason
    if row.api:
        assert set(answer.json) == {"reason", "error"}
    else:
        assert set(answer.json) == {"outcome", "reason", "messageId", "topic", "views", "error"}
        assert answer.json["outcome"] == "poison"
        assert answer.json["messageId"] == row.message_id
        assert {view["outcome"] for view in answer.json["views"]} <= {"poison"}
    assert answer.json["error"]
    assert row.mentions in answer.json["error"]


def _check_line(row: Row, lines: list[str]) -> None:
    assert len(lines) == 1, lines
    (text,) = lines
    assert MARKER not in text
    assert text.isascii()
    # A line is read, stored and paid for whole: no field of a message may blow it up.
    assert len(text) < 8_192
    line = json.loads(text)
    assert line["http_status"] == row.status
    assert line["reason"] == row.reason
    assert line["severity"] == row.severity
    if not row.api:
        assert line["outcome"] == "poison"
        assert line["messageId"] == row.message_id
        assert line["retryable"] is False
        assert line["write_kind"] == ("letter" if row.buried else "none")
        assert line["error"]


def test_nothing_was_logged_later(server: Server) -> None:
    """After the connections that were refused have ended, too, there is no second line for any of them."""
    server.fence()
    time.sleep(2.5)
    assert server.fence() == []


@pytest.mark.parametrize(("policy", "status"), [("park", 200), ("native", 400)])
def test_poison_policy(start: Start, policy: str, status: int) -> None:
    """`park` buries and acknowledges all poison, `native` refuses all of it, with or without deliveryAttempt."""
    server = start(POISON_POLICY=policy, LETTER_TTL_DAYS="1")
    server.fence()
    expected = {}
    for poison in POISON:
        for attempt in (None, 5):
            message_id = f"{poison.name}/{attempt}"
            answer = server.push(poison.body(message_id, attempt))
            wanted = 200 if poison.always_buried else status
            assert (answer.status, answer.json["reason"]) == (wanted, poison.reason), (message_id, answer)
            assert answer.json["error"]
            expected[message_id] = (wanted, poison.reason, poison.severity)
    lines = [json.loads(line) for line in server.fence()]
    assert len(lines) == len(expected)
    found = {line["messageId"]: (line["http_status"], line["reason"], line["severity"]) for line in lines}
    assert found == expected
    letters = {letter["messageId"]: letter["reason"] for letter in server.letters()}
    assert letters == {name: reason for name, (wanted, reason, _) in expected.items() if wanted == 200}
    assert [path for path in server.documents() if path != "ops_services/dev__fence"] == []


LEGAL: dict[str, tuple[Any, dict[str, str], str]] = {
    "content type with a charset": (
        good_body(messageId="a"),
        {"content-type": "Application/JSON; charset=utf-8"},
        "a",
    ),
    "content encoding identity": (good_body(messageId="b"), {"content-encoding": "identity"}, "b"),
    "unwrapped as text/plain": (
        json.dumps(tick()).encode(),
        {**METADATA, "content-type": "text/plain", "x-goog-pubsub-message-id": "c"},
        "c",
    ),
    "message_id alone": (good_body(messageId=ABSENT, message_id="d"), {}, "d"),
    "messageId as long as it may be": (good_body(messageId="é" * 128), {}, "é" * 128),
    "data of nearly 1 MiB": (good_body(messageId="e", data=encoded(tick(x="y" * 1_040_000))), {}, "e"),
}


@pytest.mark.parametrize(("body", "headers", "message_id"), LEGAL.values(), ids=LEGAL)
def test_weird_and_legal(server: Server, body: Any, headers: dict[str, str], message_id: str) -> None:
    """Input that only looks wrong is applied, and logged once without its payload."""
    server.put_up_fence()
    answer = server.push(body, headers)
    assert (answer.status, answer.json["outcome"]) == (200, "applied"), answer
    assert server.document(f"market_ticks/{message_id}") is not None
    (line,) = server.fence()
    assert json.loads(line)["outcome"] == "applied"
    assert MARKER not in line
    assert line.isascii()


# --- slow --------------------------------------------------------------------------------------------------------


class Slow(threading.Thread):
    """A client that sends a beginning, then one byte a second, and notes what it is told and when.

    `later` is sent in the place of the first byte after ten seconds.
    """

    def __init__(self, server: Server, *opening: bytes, answered: int = 0, later: bytes = b"a") -> None:
        super().__init__(daemon=True)
        self._server, self._opening, self._answered = server, opening, answered
        self._later = later
        self.answer: Answer | None = None
        self.seconds = 0.0
        self.closed = False

    def run(self) -> None:
        # Without an answer, the test will say so.
        with contextlib.suppress(OSError, AssertionError), self._server.connect(40) as connection:
            for number, part in enumerate(self._opening):
                connection.sendall(part)
                if number < self._answered:
                    assert read_answer(connection).status == 200
            begun = time.monotonic()
            later: bytes | None = self._later
            while self.answer is None and time.monotonic() - begun < 30:
                if later is not None and time.monotonic() - begun > 10:
                    connection.sendall(later)
                    later = None
                else:
                    connection.sendall(b"a")
                connection.settimeout(1)
                try:
                    self.answer = read_answer(connection)
                except TimeoutError:
                    continue
            self.seconds = time.monotonic() - begun
            connection.settimeout(5)
            self.closed = ended(connection)


class Meanwhile(threading.Thread):
    """An ordinary client beside the slow ones."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._over = threading.Event()
        self.answers: list[tuple[int, float]] = []

    def run(self) -> None:
        while not self._over.wait(0.5):
            begun = time.monotonic()
            message_id = f"meanwhile-{len(self.answers)}"
            answer = self._server.send(tick(), message_id=message_id, topic="market-ticks")
            self.answers.append((answer.status, time.monotonic() - begun))

    def stop(self) -> None:
        self._over.set()
        self.join(timeout=10)


class Crowd(NamedTuple):
    """Slow clients of every kind, and one that is not."""

    server: Server
    slow: dict[str, Slow]
    meanwhile: Meanwhile


@pytest.fixture(scope="module", autouse=True)
def crowd(request: pytest.FixtureRequest, start: Start) -> Iterator[Crowd | None]:
    """Started before the first test and looked at in the last: their twenty seconds pass beside the others."""
    if not any(item.name == "test_slow_requests" for item in request.session.items):
        yield None
        return
    server = start()
    server.fence()
    body = good_bytes(messageId="before")
    complete = request_bytes(f"content-length: {len(body)}") + body
    slow = {
        "body": Slow(server, request_bytes("content-length: 1000") + b'{"message":'),
        "chunked body": Slow(server, request_bytes("transfer-encoding: chunked") + b"ff\r\n"),
        "header": Slow(server, request_bytes()[:-2] + b"x-slow: "),
        "second request": Slow(server, complete, request_bytes("content-length: 1000"), answered=1),
        "header, then body": Slow(
            server, request_bytes("content-length: 1000")[:-2] + b"x-slow: ", later=b"\r\n\r\n"
        ),
        "read API": Slow(server, b"GET /api/stats HTTP/1.1\r\nx-slow: "),
    }
    found = Crowd(server, slow, Meanwhile(server))
    for client in (*slow.values(), found.meanwhile):
        client.start()
    yield found
    found.meanwhile.stop()


def test_slow_requests(crowd: Crowd) -> None:
    """A body or header not complete in 20 s is answered 408 and closed, while an ordinary client is served."""
    for client in crowd.slow.values():
        client.join(timeout=30)
    crowd.meanwhile.stop()
    for name, client in crowd.slow.items():
        assert client.answer is not None, name
        assert client.answer.status == 408, (name, client.answer)
        assert client.answer.json["reason"] == "request_timeout"
        assert set(client.answer.json) == {"outcome", "reason", "messageId", "topic", "views", "error"}
        assert 19 <= client.seconds <= 23, name
        assert client.closed, name
    answers = crowd.meanwhile.answers
    assert len(answers) > 20
    assert {status for status, _ in answers} == {200}
    # Generous, because the tests beside this one keep the machine busy.
    assert max(seconds for _, seconds in answers) < 5
    lines = [json.loads(line) for line in crowd.server.fence()]
    refused = [line for line in lines if line["http_status"] != 200]
    assert [(line["http_status"], line["reason"], line["severity"]) for line in refused] == [
        (408, "request_timeout", "ERROR")
    ] * len(crowd.slow)
    assert len(lines) == len(refused) + len(answers) + 1
