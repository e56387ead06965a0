"""Checks a store whose server was killed. Reads the file directly, and must not use Millpond's code.

Log and documents are written in one commit, so after a kill every document must be the fold of exactly the messages
in the log, and every message that was answered 200 must be in the log. Called by `run.py`.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from proof.kills.client import Answer, Deliveries
from proof.kills.fold import Fold, comparable
from proof.kills.traffic import LETTER_PREFIX, WITH_RECEIPTS, Message

LOST, WRONG, CHANGED = "lost", "wrong", "changed"
# Allowed outcomes of a message whose effect, or a greater one, is stored already.
NOTHING_NEW = frozenset({"duplicate", "stale_ignored", "too_old_ignored"})
_EVENTS = "SELECT seq, message_id, topic, outcome, body FROM events WHERE seq > ? ORDER BY seq"
# Everything that re-sending must not change, byte by byte.
_CONTENT = """
    SELECT collection || '/' || id, version || ' ' || hex(body) FROM documents
    UNION ALL SELECT 'ops_dedupe/' || id, version || ' ' || hex(body) FROM receipts
    UNION ALL SELECT 'log/' || message_id || '/' || topic, outcome || ' ' || hex(body) FROM events
"""


class Fault(NamedTuple):
    """One broken promise: its kind, and a description."""

    kind: str
    text: str


class StoreCheck:
    """The checks of one store over many kills. Each log entry is read once, because the log only grows."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self._fold = Fold()
        # Outcome by message id.
        self._logged: dict[str, str] = {}
        self._last_seq = 0

    def check(self, path: Path, *, whole: bool = False) -> list[Fault]:
        """All faults of the store; with `whole` also in documents that no new log entry is about."""
        faults: list[Fault] = []
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            # Killed before the tables were created: nothing can have been acknowledged.
            has_tables = connection.execute("PRAGMA user_version").get > 0
            news = self._read_log(connection, faults) if has_tables else []
            faults += self._missing()
            if has_tables:
                faults += _damage(connection)
                looked_at = list(self._deliveries.messages.values()) if whole else news
                faults += self._wrong_documents(connection, looked_at)
                faults += self._missing_letters(connection, looked_at)
                faults += self._wrong_totals(connection)
        except apsw.Error as error:
            faults.append(Fault(WRONG, f"the store cannot be read: {error}"))
        finally:
            connection.close()
        return faults

    def _read_log(self, connection: apsw.Connection, faults: list[Fault]) -> list[Message]:
        """The messages that are new in the log."""
        news = []
        for seq, message_id, topic, outcome, body in connection.execute(_EVENTS, (self._last_seq,)):
            self._last_seq = seq
            message = self._deliveries.messages.get(message_id)
            if message is None or message_id in self._logged:
                faults.append(Fault(WRONG, f"the log has {message_id}, which was never sent, or has it twice"))
                continue
            kept = msgspec.msgpack.decode(body)
            poison = outcome == "poison"
            if kept[1] != message.data or poison != bool(message.poison) or (not poison and topic != message.topic):
                faults.append(Fault(WRONG, f"the log has {message_id} otherwise than it was sent"))
            self._logged[message_id] = outcome
            self._fold.add(message)
            news.append(message)
        return news

    def _missing(self) -> Iterable[Fault]:
        for message_id, answers in self._deliveries.answers.items():
            outcome = self._logged.get(message_id)
            if outcome is None:
                yield Fault(LOST, f"{message_id} was answered {answers[0].outcome}, and is not in the log")
            elif not _agree(answers, outcome, sure=not self._deliveries.unsettled[message_id]):
                said = [answer.outcome for answer in answers]
                yield Fault(WRONG, f"{message_id} was answered {said}, and the log says {outcome}")

    def _wrong_documents(self, connection: apsw.Connection, messages: Iterable[Message]) -> Iterable[Fault]:
        logged = {effect.path for m in messages if m.message_id in self._logged for effect in m.effects}
        for path in sorted(logged):
            stored, expected = _document(connection, path), self._fold.document(path)
            if stored is None:
                yield Fault(LOST, f"{path} is missing")
            elif stored["source"]["stamp"] < expected["source"]["stamp"]:
                yield Fault(LOST, f"{path} is older than what the log has for it")
            elif comparable(stored) != expected:
                yield Fault(WRONG, f"{path} is not the fold of the log: {comparable(stored)} {expected}")

    def _missing_letters(self, connection: apsw.Connection, messages: Iterable[Message]) -> Iterable[Fault]:
        for message in messages:
            if message.poison is None or message.message_id not in self._logged:
                continue
            letter = _document(connection, LETTER_PREFIX + message.message_id)
            if letter is None:
                yield Fault(LOST, f"{message.message_id} is poison, and has no letter")
            elif letter["reason"] != message.poison or _delivery(letter)["data"] != message.data:
                yield Fault(WRONG, f"the letter of {message.message_id} is not about it")

    def _wrong_totals(self, connection: apsw.Connection) -> Iterable[Fault]:
        """Totals over the whole store, which must match exactly."""
        logged = [self._deliveries.messages[message_id] for message_id in self._logged]
        letters = sum(message.poison is not None for message in logged)
        expected = {
            "events": len(logged),
            "documents": len(self._fold.paths) + letters,
            # A message and its copies share one receipt.
            "receipts": len({m.event for m in logged if m.poison is None and m.topic in WITH_RECEIPTS}),
        }
        for table, number in expected.items():
            found = int(connection.execute(f"SELECT count(*) FROM {table}").get)  # noqa: S608 - a name of ours
            if found != number:
                yield Fault(LOST if found < number else WRONG, f"{found} {table}, and there must be {number}")
        counted = connection.execute("SELECT outcome, sum(n) FROM event_counts WHERE n > 0 GROUP BY outcome")
        counts = {str(outcome): n for outcome, n in counted}
        if counts != Counter(self._logged.values()):
            yield Fault(WRONG, f"the log's counts are {counts}, its entries {Counter(self._logged.values())}")
        (newest, last) = connection.execute(
            "SELECT (SELECT max(version) FROM documents), (SELECT n FROM last_version)"
        ).get
        if (newest or 0) > last:
            yield Fault(WRONG, f"version {newest} is in use, and the counter stands at {last}: it would come again")


def content_of(path: Path) -> dict[str, str]:
    """Everything in the store, as comparable text."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {str(path): str(content) for path, content in connection.execute(_CONTENT)}
    finally:
        connection.close()


def changes(before: dict[str, str], after: dict[str, str]) -> list[Fault]:
    """Changes made by re-sending, although everything was stored already."""
    return [
        Fault(CHANGED, f"{path} was changed by re-sending")
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


def surprises(messages: Iterable[Message], deliveries: Deliveries) -> list[Fault]:
    """Re-sent messages that were answered as if they were new, or not at all."""
    faults = []
    for message in messages:
        last = deliveries.answers.get(message.message_id, [None])[-1]
        usual = {"poison"} if message.poison else NOTHING_NEW
        if last is None or last.outcome not in usual:
            faults.append(Fault(CHANGED, f"{message.message_id} was sent again and answered {last}"))
    return faults


def _agree(answers: Sequence[Answer], logged: str, *, sure: bool) -> bool:
    """Whether the answers to a message's deliveries are consistent with its log entry.

    `sure`: all deliveries were acknowledged, so one of the answers must be what was logged. Otherwise the logged
    delivery may be one whose answer was lost.
    """
    outcomes = [answer.outcome for answer in answers]
    if sure and logged not in outcomes:
        return False
    return outcomes.count("applied") <= 1 and set(outcomes) <= {logged, *NOTHING_NEW}


def _damage(connection: apsw.Connection) -> list[Fault]:
    said = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    return [] if said == ["ok"] else [Fault(WRONG, f"integrity_check: {'; '.join(said)[:500]}")]


def _document(connection: apsw.Connection, path: str) -> dict[str, Any] | None:
    body = connection.execute(
        "SELECT body FROM documents WHERE collection = ? AND id = ?", tuple(path.split("/"))
    ).get
    return None if body is None else msgspec.msgpack.decode(body, type=dict[str, Any])


def _delivery(letter: dict[str, Any]) -> dict[str, Any]:
    return msgspec.msgpack.decode(zlib.decompress(letter["delivery"]), type=dict[str, Any])
