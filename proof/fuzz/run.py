"""The fuzz run: sends requests in groups, checks every answer, and the store after each group and at the end.

A rejected request must not change the store. If a group had no accepted request, the store's file must be
unchanged. If it had some, the rejected ones are sent again alone, and the file must be unchanged after that. At the
end the event log must hold exactly the messages answered 200, the letters exactly those answered as poison, and the
server's log one line for each answer. Called by `command.py`.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from proof.fuzz.contract import RETRIED, Contract, ParsedAnswer
from proof.fuzz.requests import READ_FENCE, WRITE_FENCE, Request, make_request
from proof.fuzz.target import State, Target
from proof.fuzz.wire import Reply, Wire

LANES = 16
FLUNG_AT_ONCE = 16
# Requests that are not HTTP are collected and sent together, because they take longer.
_WINDOW = 400
_FENCES = 3
_LINES_S = 10.0
T = TypeVar("T")
# The replies to a group, and whether the store was changed meanwhile.
Sent = tuple[list[Reply], bool]
Send = Callable[[Sequence[Request]], Sent]


class Fault(NamedTuple):
    """A broken rule, and the request that broke it; None if no single request did."""

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
        # Every answer, of repeated requests too, for the comparison at the end.
        self._parsed: list[ParsedAnswer] = []
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
        self._compare_all()

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
            parsed = self._judge(request, reply)
            self.kinds[request.kind] += 1
            if any(found.is_accepted for found in parsed):
                self.accepted += 1
                continue
            self.rejected += bool(parsed)
            self.unanswered += not parsed
            rejected.append(request)
            first[request.number] = [(found.status, found.reason) for found in parsed]
        if not changed or not rejected:
            return
        if len(rejected) < len(group):
            # The accepted requests may change the store. The rejected ones are sent again alone to check them.
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
        """Find the request that changed the store although none was accepted."""
        self.changed_by_rejected += 1
        self._state.has_changed()
        for request in group:
            self.repeated += 1
            (reply,), changed = send([request])
            self._parsed += self.contract.judge(request, reply)[0]
            if changed:
                self.faults.append(Fault("rejected, and the state was changed", request))
                return
        names = ", ".join(str(request.number) for request in group)
        self.faults.append(Fault(f"the state was changed by one of {names}, all rejected; not again when alone"))

    def _judge(self, request: Request, reply: Reply) -> list[ParsedAnswer]:
        parsed, faults = self.contract.judge(request, reply)
        self.faults += [Fault(text, request) for text in faults]
        for found in parsed:
            self.statuses[found.status] += 1
            self.met[request.path].add((found.status, found.reason))
        self._parsed += parsed
        return parsed

    def _exchange(self, group: Sequence[Request]) -> Sent:
        replies = self._wire.exchange(group)
        return replies, self._state.has_changed()

    def _fling(self, group: Sequence[Request]) -> Sent:
        """Send bytes that may get no answer. Waiting ends when valid requests sent later are answered."""
        flung = self._wire.fling(group)
        for _ in range(_FENCES):
            self._send_fence(READ_FENCE)
        done = flung.look()
        changed = self._state.has_changed()
        for _ in range(0 if done else _FENCES):
            # A message sent now is committed after, or with, everything accepted before it. The same holds for the
            # next request on the same connection.
            self._send_fence(WRITE_FENCE)
            flung.look()
        self._state.has_changed()
        return flung.replies(), changed

    def _send_fence(self, fence: Request) -> None:
        parsed, faults = self.contract.judge(fence, self._wire.exchange([fence])[0])
        self._parsed += parsed
        self.faults += [Fault(f"a request in order: {text}", fence) for text in faults]

    # --- the comparison at the end ---

    def _compare_all(self) -> None:
        if not self._target.is_alive():
            self.faults.append(Fault("the server has ended, or is not well"))
            return
        messages = [parsed for parsed in self._parsed if parsed.is_accepted and parsed.is_message]
        answered = {(parsed.message_id, parsed.topic) for parsed in messages}
        self._compare("event log", answered, self._state.logged())
        poison = {parsed.message_id for parsed in messages if parsed.outcome == "poison"}
        self._compare("letters", poison, self._state.buried())
        self._compare_lines()

    def _compare(self, place: str, answered: set[T], stored: set[T]) -> None:
        for text, found in (
            (f"answered 200, and not in the {place}", answered - stored),
            (f"in the {place}, and never answered 200", stored - answered),
        ):
            if found:
                self.faults.append(Fault(f"{text}: {sorted(map(str, found))[:5]}"))

    def _compare_lines(self) -> None:
        """One line for each answer about a message, with its id, status and reason; and none about a bug."""
        expected = Counter(
            (found.message_id, found.status, found.reason) for found in self._parsed if found.is_message
        )
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
