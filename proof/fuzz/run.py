"""The run: requests in groups, every answer judged, the store looked at after each group, the accounts at the end.

What was rejected must have left no trace. A group of which nothing was accepted must leave the store's file as it
was. Where something was accepted beside it, what was rejected is sent once more by itself, and then the same holds.
At the end the event log must hold exactly the messages that were answered 200, the letters exactly those that were
answered as poison, and the server's log one line for each answer.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from proof.fuzz.contract import RETRIED, Contract, Told
from proof.fuzz.requests import READ_FENCE, WRITE_FENCE, Request, make_request
from proof.fuzz.target import State, Target
from proof.fuzz.wire import Reply, Wire

LANES = 16
FLUNG_AT_ONCE = 16
# Requests that are no HTTP are kept back, so that they can be sent together: they take longer.
_WINDOW = 400
_FENCES = 3
_LINES_S = 10.0
T = TypeVar("T")
# The replies to a group, and whether the store was changed meanwhile.
Sent = tuple[list[Reply], bool]
Send = Callable[[Sequence[Request]], Sent]


class Fault(NamedTuple):
    """Something that must not be, and the request it is about; None where it is about no single one."""

    text: str
    request: Request | None = None


class Fuzz:
    """One run against one target."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        self._seed = seed
        self.contract = Contract(target.openapi())
        self._state = State(target.store)
        self._wire = Wire(target.port, LANES)
        self.faults: list[Fault] = []
        self.kinds: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.met: dict[str, set[tuple[int, str]]] = {path: set() for path in self.contract.reasons()}
        self.accepted = self.rejected = self.unanswered = self.repeated = self.changed_by_rejected = 0
        # Every answer there was, repeated ones too: for the accounts.
        self._told: list[Told] = []
        self._lines_before = len(target.output)

    def run(self, numbers: Sequence[int], advance: Callable[[int], None] = lambda _: None) -> None:
        for window in _pieces(numbers, _WINDOW):
            requests = [make_request(self._seed, number) for number in window]
            for group in _pieces([request for request in requests if request.framed], LANES):
                self._run_group(group, self._exchange)
                advance(len(group))
            for group in _pieces([request for request in requests if not request.framed], FLUNG_AT_ONCE):
                self._run_group(group, self._fling)
                advance(len(group))
        self._settle_accounts()

    def close(self) -> None:
        self._wire.close()
        self._state.close()

    # --- a group ---

    def _run_group(self, group: Sequence[Request], send: Send) -> None:
        if self._state.has_changed():
            self.changed_by_rejected += 1
            self.faults.append(Fault(f"the state was changed before {group[0].number}, when all was answered"))
        replies, changed = send(group)
        rejected: list[Request] = []
        first: dict[int, list[tuple[int, str]]] = {}
        for request, reply in zip(group, replies, strict=True):
            told = self._judge(request, reply)
            self.kinds[request.kind] += 1
            if any(found.is_accepted for found in told):
                self.accepted += 1
                continue
            self.rejected += bool(told)
            self.unanswered += not told
            rejected.append(request)
            first[request.number] = [(found.status, found.reason) for found in told]
        if not changed or not rejected:
            return
        if len(rejected) < len(group):
            # The accepted ones changed it, as they may; whether the others did shows when they come alone.
            rejected = [one for one in rejected if not any(status in RETRIED for status, _ in first[one.number])]
            self._repeat(rejected, first, send)
        else:
            self._find_culprit(rejected, send)

    def _repeat(
        self,
        group: Sequence[Request],
        first: dict[int, list[tuple[int, str]]],
        send: Send,
    ) -> None:
        if not group:
            return
        replies, changed = send(group)
        self.repeated += len(group)
        if changed:
            self._find_culprit(group, send)
        for request, reply in zip(group, replies, strict=True):
            again = [(found.status, found.reason) for found in self._judge(request, reply)]
            if again != first[request.number] and request.framed:
                self.faults.append(Fault(f"answered {first[request.number]}, and then {again}", request))

    def _find_culprit(self, group: Sequence[Request], send: Send) -> None:
        """The store was changed although nothing was accepted: by which of these?"""
        self.changed_by_rejected += 1
        self._state.has_changed()
        for request in group:
            self.repeated += 1
            (reply,), changed = send([request])
            self._told += self.contract.judge(request, reply)[0]
            if changed:
                self.faults.append(Fault("rejected, and the state was changed", request))
                return
        names = ", ".join(str(request.number) for request in group)
        self.faults.append(Fault(f"the state was changed by one of {names}, all rejected; not again when alone"))

    def _judge(self, request: Request, reply: Reply) -> list[Told]:
        told, faults = self.contract.judge(request, reply)
        self.faults += [Fault(text, request) for text in faults]
        for found in told:
            self.statuses[found.status] += 1
            self.met[request.path].add((found.status, found.reason))
        self._told += told
        return told

    def _exchange(self, group: Sequence[Request]) -> Sent:
        replies = self._wire.exchange(group)
        return replies, self._state.has_changed()

    def _fling(self, group: Sequence[Request]) -> Sent:
        """Bytes that may be owed no answer: what came by the time that others were answered is all that comes."""
        flung = self._wire.fling(group)
        for _ in range(_FENCES):
            self._put_up(READ_FENCE)
        done = flung.look()
        changed = self._state.has_changed()
        for _ in range(0 if done else _FENCES):
            # What was accepted meanwhile is committed before, or with, a message that is sent now; and so on with
            # what stood behind it on the same connection.
            self._put_up(WRITE_FENCE)
            flung.look()
        self._state.has_changed()
        return flung.replies(), changed

    def _put_up(self, fence: Request) -> None:
        told, faults = self.contract.judge(fence, self._wire.exchange([fence])[0])
        self._told += told
        self.faults += [Fault(f"a request in order: {text}", fence) for text in faults]

    # --- the accounts ---

    def _settle_accounts(self) -> None:
        if not self._target.is_alive():
            self.faults.append(Fault("the server has ended, or is not well"))
            return
        messages = [told for told in self._told if told.is_accepted and told.is_message]
        answered = {(told.message_id, told.topic) for told in messages}
        self._compare("event log", answered, self._state.logged())
        poison = {told.message_id for told in messages if told.outcome == "poison"}
        self._compare("letters", poison, self._state.buried())
        self._compare_lines()

    def _compare(self, where: str, answered: set[T], stored: set[T]) -> None:
        for text, found in (
            (f"answered 200, and not in the {where}", answered - stored),
            (f"in the {where}, and never answered 200", stored - answered),
        ):
            if found:
                self.faults.append(Fault(f"{text}: {sorted(map(str, found))[:5]}"))

    def _compare_lines(self) -> None:
        """One line for each answer about a message, with its id, status and reason; and none about a bug."""
        expected = Counter((told.message_id, told.status, told.reason) for told in self._told if told.is_message)
        until = time.monotonic() + _LINES_S
        while True:
            found, bad = self._read_lines()
            if found == expected or time.monotonic() > until:
                break
            time.sleep(0.1)
        self.faults += [Fault(f"in the server's log: {line[:500]}") for line in bad[:5]]
        for text, difference in (("no line", expected - found), ("a line too many", found - expected)):
            if difference:
                self.faults.append(Fault(f"{text} in the server's log: {[*difference.items()][:5]}"))

    def _read_lines(self) -> tuple[Counter[tuple[str, int, str]], list[str]]:
        found: Counter[tuple[str, int, str]] = Counter()
        bad = []
        for text in [*self._target.output][self._lines_before :]:
            try:
                line = json.loads(text)
            except ValueError:
                bad.append(text)
                continue
            if "write_kind" in line:
                found[line["messageId"], line["http_status"], line["reason"]] += 1
            if (
                "stack" in line
                or line.get("reason") == "internal_error"
                or line.get("message") == "unexpected error"
            ):
                bad.append(text)
        return found, bad


def _pieces(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]
