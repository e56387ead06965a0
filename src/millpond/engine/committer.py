"""One try of one batch: read what is not cached, plan, commit. Returns results, and the batches left to try.

conflict        another writer was first: messages about its documents go back to the queue, which keeps them in the
                lane; the others are committed at once, on what was read to find that out
unavailable     whether the commit was applied is unknown: back off, read everything again, plan again
refused         one write is impossible: halve the batch until its message is alone, then the message until its
                view is alone; bury it for that view, commit the rest

It answers no message. The queue does, and is its only caller. `reader` and `writer` do its calls to the store.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence

from millpond.concurrency import Pauses, run_all
from millpond.core.errors import AccessDenied, StoreError, StoreFileGone, UnownedDocument, WriteRefused, kind_of
from millpond.core.item import Item
from millpond.core.model import Outcome, Ref, Result
from millpond.core.plan import Plan, plan
from millpond.core.ports import DeadLetterSink, Store
from millpond.engine.contention import OtherWriters
from millpond.engine.poison_policy import refuse_or_bury
from millpond.engine.reader import Sight, SnapshotReader, doubtful
from millpond.engine.rules import EngineRules
from millpond.engine.ticket import (
    Batch,
    OutOfTime,
    Progress,
    Ticket,
    in_time,
    internal_error,
    report_bug,
)
from millpond.engine.writer import RefusedCommit, Writer
from millpond.telemetry.metrics import Metrics

# Letters written at the same time. A letter on a topic takes a round trip to Pub/Sub.
_LETTERS_AT_ONCE = 32
# Two commits that contended for locks, with no document changed, are not tried again at the same moment.
_CONFLICT_PAUSES = Pauses(first_s=0.02, max_s=0.25)
# Every so many conflicts a message reads all of its documents: not every server says that one exists.
_READ_ALL_EVERY = 8
_CONTENTION = StoreError("other writers kept changing the documents")

Answers = list[tuple[Ticket, Result]]
# Called for each read or commit that failed: why, which try of its batch it was, and how many messages wait for it.
OnFailedTry = Callable[[StoreError, int, int], None]


class Committer:
    def __init__(
        self,
        *,
        store: Store,
        dead_letter_sink: DeadLetterSink,
        rules: EngineRules,
        metrics: Metrics,
        wall_clock: Callable[[], int],
        jitter: random.Random,
        on_failed_try: OnFailedTry,
        others: OtherWriters,
    ) -> None:
        self._sink = dead_letter_sink
        self._rules = rules
        self._metrics = metrics
        self._wall_clock = wall_clock
        self._jitter = jitter
        self._on_failed_try = on_failed_try
        self._others = others
        self._reader = SnapshotReader(store, metrics, rules.cache_entries_max, others)
        self._writer = Writer(store, metrics, self._reader, others)
        self._stopping = False

    def stop(self) -> None:
        """From now on a message is tried again only if there is time left to finish the try."""
        self._stopping = True

    def forget(self, refs: Iterable[Ref]) -> None:
        """Drop these documents from the cache: another writer has changed them."""
        self._reader.forget(refs)

    async def commit(self, batch: Batch) -> Progress:
        """Try the batch once."""
        if batch.pause_s:
            await asyncio.sleep(batch.pause_s)
        tickets = batch.tickets
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with in_time(tickets):
                planned, sight = await self._plan(batch)
                committed = await self._writer.write(batch, planned, sight, began)
        except WriteRefused as refusal:
            return self._isolate(tickets, refusal)
        except OutOfTime as error:
            return self._give_up(batch, error)
        except StoreError as error:
            return await self._back_off(batch, error, loop.time() - began)
        except Exception as bug:  # noqa: BLE001 - it must not affect the batch's other messages
            return self._survive(tickets, bug)
        if isinstance(committed, RefusedCommit):
            return self._contend(batch, committed)
        self._reader.remember(planned, sight, committed, sum(ticket.weight for ticket in tickets))
        return self._conclude(tickets, planned.results)

    async def bury(self, to_bury: Sequence[Ticket]) -> Progress:
        """Write the letters of these messages, at the same time. What is left is to commit them."""
        written = await run_all(self._write_letter, to_bury, _LETTERS_AT_ONCE)
        answers: Answers = []
        buried: list[Ticket] = []
        for ticket, outcome in zip(to_bury, written, strict=True):
            if isinstance(outcome, Result):
                answers.append((ticket, outcome))
            elif outcome is None:
                buried.append(ticket)
            else:
                # A sink that was cancelled from within has failed as well, and its message must be answered.
                bug = outcome if isinstance(outcome, Exception) else RuntimeError("its letter was cancelled")
                answers.append((ticket, internal_error(ticket.item, bug)))
                report_bug(bug)
        return Progress(answers, [Batch(buried)] if buried else ())

    async def _write_letter(self, ticket: Ticket) -> Result | None:
        """Write the letter, and make it the ticket's content. Returns RETRY if it could not be written."""
        try:
            letter = await self._sink.write_letter(ticket.item)
        except StoreError as error:
            fault = ticket.item.fault
            both = type(error)(f"{error}; the letter is about {type(fault).__name__}: {fault}", error.code)
            return ticket.item.unsettled(Outcome.RETRY, "letter_not_stored", both)
        ticket.bury_as(letter)
        return None

    async def _plan(self, batch: Batch) -> tuple[Plan, Sight]:
        items = [ticket.item for ticket in batch.tickets]
        sight = await self._reader.look(batch)
        planned = plan(items, sight.snapshots, self._wall_clock(), self._rules.receipts)
        # Plan again after each read: the read may change a verdict, and time has passed. An event may by now be too
        # old to be counted, unless its receipt, which was assumed absent, exists.
        while refs := doubtful(batch.tickets, planned.results, sight):
            await self._reader.check(refs, sight)
            planned = plan(items, sight.snapshots, self._wall_clock(), self._rules.receipts)
        return planned, sight

    def _conclude(self, tickets: Sequence[Ticket], results: Sequence[Result]) -> Progress:
        """After a commit: answer the messages that are settled, go on with those that a view refused."""
        answers: Answers = []
        left: list[Ticket] = []
        for ticket, result in zip(tickets, results, strict=True):
            item = ticket.item
            if result.buried and not item.replay:
                self._metrics.letters_buried += 1
            if item.letter is None and (result.faults or item.later):
                if any(isinstance(fault, UnownedDocument) for fault in result.faults):
                    # An operator may delete the document or give it a stamp: the next event reads it again.
                    self._drop([ticket])
                ticket.settle(result)
                left.append(ticket)
            else:
                answers.append((ticket, result))
        return self._go_on(left, answers) if left else Progress(answers)

    def _go_on(self, tickets: Sequence[Ticket], answers: Answers) -> Progress:
        """Commit what is left of these messages. Once every view has been asked: retry, refuse or bury them."""
        rest: list[Batch] = []
        to_bury: list[Ticket] = []
        for ticket in tickets:
            if ticket.item.targets:
                rest.append(Batch([ticket]))
            elif (refusal := self._refuse_or_bury(ticket.item)) is not None:
                answers.append((ticket, refusal))
            else:
                to_bury.append(ticket)
        return Progress(answers, rest, to_bury=to_bury)

    def _refuse_or_bury(self, item: Item) -> Result | None:
        return refuse_or_bury(item, self._rules, self._wall_clock())

    def _contend(self, batch: Batch, refusal: RefusedCommit) -> Progress:
        """Another writer was first. Messages about its documents wait for a turn, the others are tried again."""
        self._metrics.conflicts += 1
        unexplained = refusal.in_the_way is None
        had_read_all = all(ticket.reads_all and ticket.conflicts for ticket in batch.tickets)
        for ticket in batch.tickets:
            ticket.conflicts += 1
            in_its_way = refusal.in_the_way is None or not refusal.in_the_way.isdisjoint(ticket.needs.assumed)
            ticket.reads_all = in_its_way or ticket.conflicts % _READ_ALL_EVERY == 0
        answers, tickets = self._expire(batch.tickets, _CONTENTION, "contention")
        if batch.lane is not None:
            return Progress(answers, back=tickets)
        standing = frozenset(ref for ticket in tickets for ref in ticket.needs.read)
        # A document that was assumed to be absent, such as a receipt, is not contended if it exists.
        contended = standing if unexplained and had_read_all else refusal.contended & standing
        self._others.contend(contended, asyncio.get_running_loop().time())
        calm = [ticket for ticket in tickets if contended.isdisjoint(ticket.refs)]
        back = [ticket for ticket in tickets if not contended.isdisjoint(ticket.refs)]
        pause_s = 0.0
        if unexplained and calm:
            self._drop(calm)
            pause_s = _CONFLICT_PAUSES.pause_s(max(ticket.conflicts for ticket in calm) - 1, self._jitter)
        return Progress(
            answers, [Batch(calm, just_read=not unexplained, pause_s=pause_s)] if calm else (), back=back
        )

    def _isolate(self, tickets: Sequence[Ticket], refusal: WriteRefused) -> Progress:
        """The store can never accept one of the writes: halve until its view is alone, which then refuses it."""
        if len(tickets) > 1:
            return _halved(tickets)
        (ticket,) = tickets
        if ticket.item.letter is not None:
            # The letter cannot be stored either: the message stays with its sender.
            return Progress([(ticket, ticket.item.unsettled(Outcome.RETRY, "letter_refused", refusal))])
        self._drop(tickets)
        if ticket.halve():
            return Progress(rest=[Batch(tickets)])
        ticket.refuse(refusal)
        return self._go_on(tickets, [])

    def _survive(self, tickets: Sequence[Ticket], bug: Exception) -> Progress:
        """After an unexpected error, halve the batch until the message that causes it is alone."""
        self._doubt(tickets)
        if len(tickets) > 1:
            return _halved(tickets)
        (ticket,) = tickets
        report_bug(bug)
        return Progress([(ticket, internal_error(ticket.item, bug))])

    def _give_up(self, batch: Batch, error: OutOfTime) -> Progress:
        """The time of every message is up: answer them all."""
        self._drop(batch.tickets)
        contended = [ticket for ticket in batch.tickets if ticket.conflicts]
        others = [ticket for ticket in batch.tickets if not ticket.conflicts]
        if others:
            self._note_failure(batch, error)
        answers = self._expire_all(contended, _CONTENTION, "contention")
        return Progress([*answers, *self._expire_all(others, error, error.reason)])

    async def _back_off(self, batch: Batch, error: StoreError, took_s: float) -> Progress:
        """Try again after a pause, with the messages that have time left; the others are answered RETRY.

        During shutdown there must also be time to finish the try, which may take as long as the last one.
        """
        rules, tickets = self._rules, batch.tickets
        failures = self._note_failure(batch, error)
        self._doubt(tickets)
        if isinstance(error, AccessDenied):
            # Letters on a topic are durable once published. The other letters need the store: RETRY.
            denied = [ticket for ticket in tickets if ticket.item.letter is None]
            for ticket in denied:
                ticket.blame(error)
            denied = [ticket for ticket in denied if self._refuse_or_bury(ticket.item) is None]
            answers = list((await self.bury(denied)).results) if denied else []
            answered = {ticket for ticket, _ in answers}
            answers += self._expire_all([t for t in tickets if t not in answered], error, error.reason)
            return Progress(answers)
        if isinstance(error, StoreFileGone):
            return Progress(self._expire_all(tickets, error, error.reason))
        if failures >= rules.retry_attempts_max:
            return Progress(self._expire_all(tickets, error, "store_unavailable"))
        pauses = Pauses(rules.retry_backoff_initial_s, rules.retry_backoff_max_s)
        pause_s = pauses.pause_s(failures - 1, self._jitter)
        ahead_s = pause_s + took_s if self._stopping else pause_s
        answers, left = self._expire(tickets, error, "store_unavailable", ahead_s=ahead_s)
        again = Batch(left, failures=failures, pause_s=pause_s)
        return Progress(answers, [again] if left else ())

    def _note_failure(self, batch: Batch, error: StoreError) -> int:
        """Count and report it, before any of the messages is answered. Returns which try of its batch it was."""
        self._metrics.store_errors[kind_of(error)] += 1
        self._on_failed_try(error, batch.failures + 1, len(batch.tickets))
        return batch.failures + 1

    def _doubt(self, tickets: Sequence[Ticket]) -> None:
        """Whether a commit was applied is unknown: read everything again, also what was assumed to be absent."""
        self._drop(tickets)
        for ticket in tickets:
            ticket.reads_all = True

    def _drop(self, tickets: Sequence[Ticket]) -> None:
        """Drop the documents of these messages from the cache."""
        self._reader.forget(ref for ticket in tickets for ref in ticket.refs)

    def _expire(
        self, tickets: Sequence[Ticket], error: StoreError, reason: str, *, ahead_s: float = 0.0
    ) -> tuple[Answers, list[Ticket]]:
        """(RETRY for the messages whose deadline is within `ahead_s`, the tickets that have time left)."""
        latest = asyncio.get_running_loop().time() + ahead_s
        expired = self._expire_all([t for t in tickets if t.deadline <= latest], error, reason)
        return expired, [t for t in tickets if t.deadline > latest]

    def _expire_all(self, tickets: Sequence[Ticket], error: StoreError, reason: str) -> Answers:
        """RETRY for each, or `buried` if its letter is durable outside the store."""
        answers = [(ticket, ticket.item.unsettled(Outcome.RETRY, reason, error)) for ticket in tickets]
        self._metrics.letters_buried += sum(result.buried for _, result in answers)
        return answers


def _halved(tickets: Sequence[Ticket]) -> Progress:
    """Two halves, tried one after the other: they may share documents, and must not conflict with each other."""
    middle = len(tickets) // 2
    return Progress(rest=[Batch(half) for half in (tickets[:middle], tickets[middle:])])
