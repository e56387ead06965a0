"""Outcomes: one publisher, and subscribers that cannot get in each other's way."""

from __future__ import annotations

import asyncio
import io
import json

from millpond.core.ack import FILE, Answered, Settlement, settle_file, settle_push, settle_replay
from millpond.core.model import Delivery, Outcome, Result
from millpond.live.outcomes import Outcomes
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics

NOW = 1_767_876_000_000_000
DELIVERY = Delivery(message_id="m", publish_time=NOW, data=b"{}")
APPLIED = Result(Outcome.APPLIED, "applied", "t")
DONE = settle_push(APPLIED)


async def publish(outcomes: Outcomes, *settlements: Settlement, counts: bool = True) -> None:
    for settlement in settlements:
        outcomes.publish(DELIVERY, APPLIED, settlement, 0.25, counts=counts)
    await asyncio.sleep(0)


async def test_a_subscriber_that_fails_is_reported_and_the_others_are_called() -> None:
    seen: list[Answered] = []
    bugs: list[BaseException] = []
    outcomes = Outcomes(lambda: NOW, bugs.append)

    def broken(_: Answered) -> None:
        raise ZeroDivisionError

    outcomes.subscribe(broken)
    outcomes.subscribe(seen.append)
    await publish(outcomes, DONE)
    assert [type(bug) for bug in bugs] == [ZeroDivisionError]
    assert seen == [Answered(DELIVERY, APPLIED, DONE, 0.25, NOW, counts=True)]


async def test_subscribers_are_called_after_the_answer_and_in_order() -> None:
    """One event-loop iteration later, so that no sender waits for the log."""
    seen: list[str] = []
    outcomes = Outcomes(lambda: NOW, seen.append)  # type: ignore[arg-type]
    outcomes.subscribe(lambda said: seen.append(f"first {said.latency_s}"))
    outcomes.subscribe(lambda said: seen.append(f"second {said.latency_s}"))
    outcomes.publish(DELIVERY, APPLIED, DONE, 1, counts=True)
    outcomes.publish(DELIVERY, APPLIED, DONE, 2, counts=True)
    assert seen == []
    await asyncio.sleep(0)
    assert seen == ["first 1", "second 1", "first 2", "second 2"]


async def test_an_unsubscribed_one_is_called_no_more() -> None:
    seen: list[Answered] = []
    outcomes = Outcomes(lambda: NOW, lambda _: None)
    outcomes.subscribe(seen.append)
    outcomes.unsubscribe(seen.append)
    outcomes.unsubscribe(print)
    await publish(outcomes, DONE)
    assert (seen, outcomes.subscribers) == ([], ())


async def test_every_way_in_is_counted_and_logged_as_it_should() -> None:
    """A replay is logged, but is no message answered; of a file's lines the command reports by itself."""
    stream, metrics = io.BytesIO(), Metrics()
    log = Log(stream, env="dev", metrics=metrics)
    outcomes = Outcomes(lambda: NOW, log.unexpected)
    outcomes.subscribe(metrics.on_outcome)
    outcomes.subscribe(log.on_outcome)
    await publish(outcomes, DONE, settle_file(APPLIED))
    await publish(outcomes, settle_replay(APPLIED), counts=False)
    log.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["http_status"], line["ack_action"]) for line in lines] == [(200, None), (None, "replay")]
    assert settle_file(APPLIED).ack_action == FILE
    assert metrics.messages["t", "applied", "applied"] == 2
    assert metrics.push_responses == {200: 1}
