"""However it ends, nothing is lost: told to stop, killed, cut off from the broker, stuck, or turned away."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.common.relay import Relay, relayed
from tests.common.sqlite_files import message_ids, store_held
from tests.common.waiting import eventually
from tests.ingress.pull.support import EXIT_S, SALES, Pull, PullBroker, Pulling, counted, sold

PATH = "projects/p/subscriptions/sub"
SALE = {"topic": "sales", "shop": "s", "amount": 1}
# Enough that the end comes in the middle.
MANY, ORDERED, BEFORE_THE_END = 3_000, 300, 600
MOMENT_S = 0.5


@pytest.fixture(autouse=True)
def sales(tmp_path: Path) -> None:
    (tmp_path / "sales.py").write_text(SALES)


@pytest.fixture
def relay(pubsub_emulator: str) -> Iterator[Relay]:
    with relayed(pubsub_emulator) as relay:
        yield relay


def stop(pulling: Pulling) -> None:
    """Told to stop it ends in time, as a success."""
    begun = time.monotonic()
    assert pulling.terminate() == 0
    assert time.monotonic() - begun < EXIT_S


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_ended_in_the_middle(pull: Pull, broker: PullBroker, number: signal.Signals) -> None:
    """What was acknowledged is stored, what was not comes again, and in the end each message counts once."""
    plain, ordered = broker.topic("plain"), broker.topic("ordered")
    subscriptions = [
        broker.subscription("plain-pull", plain),
        broker.subscription("ordered-pull", ordered, enable_message_ordering=True),
    ]
    sales = [{"topic": "sales", "shop": f"s{n % 20}", "amount": n} for n in range(MANY + ORDERED)]
    published = set(broker.publish_all(plain, sales[:MANY]))
    published |= set(broker.publish_all(ordered, sales[MANY:], keys=("k0", "k1", "k2")))
    pulling = pull(*subscriptions, VIEWS="sales")
    pulling.wait_for_lines(BEFORE_THE_END)
    if number == signal.SIGTERM:
        stop(pulling)
    else:
        pulling.kill()
    stored = message_ids(pulling.store)
    again = broker.unacknowledged(subscriptions[0]) | broker.unacknowledged(subscriptions[1])
    assert 0 < len(again) < len(published)
    assert published - again <= stored
    if number == signal.SIGTERM:
        check_goodbye(pulling, stored, again)

    pulling = pull(*subscriptions, VIEWS="sales")
    eventually(lambda: again <= {line["messageId"] for line in pulling.lines})
    assert {line["messageId"] for line in pulling.lines} == again
    assert {line["ack_action"] for line in pulling.lines} == {"ack"}
    assert counted(pulling) == sold(sales)
    stop(pulling)
    assert message_ids(pulling.store) == published
    assert [broker.unacknowledged(subscription) for subscription in subscriptions] == [set(), set()]


def check_goodbye(pulling: Pulling, stored: set[str], again: set[str]) -> None:
    """Everything that was stored was acknowledged before the end; the rest was given back, and said so."""
    assert stored & again == set()
    by_action = {
        action: {line["messageId"] for line in pulling.lines if line["ack_action"] == action}
        for action in ("ack", "nack")
    }
    assert by_action["ack"] == stored
    assert by_action["nack"] <= again
    assert {line["reason"] for line in pulling.lines if line["ack_action"] == "nack"} <= {"shutting_down"}
    assert pulling.notes("WARNING", "ERROR", "CRITICAL") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_ended_while_the_store_is_stuck(pull: Pull, broker: PullBroker, number: signal.Signals) -> None:
    """What cannot be stored is not acknowledged but given back, and the process ends all the same."""
    topic = broker.topic("stuck")
    subscription = broker.subscription("stuck-pull", topic)
    pulling = pull("stuck-pull", VIEWS="sales", FIRESTORE_RETRY_MAX_ATTEMPTS="1")
    with store_held(pulling.store):
        message_id = broker.publish(topic, SALE)
        eventually(lambda: broker.is_under_way(subscription))
        if number == signal.SIGTERM:
            stop(pulling)
            (line,) = pulling.logged(message_id)
            assert (line["ack_action"], line["outcome"], line["reason"]) == ("nack", "retry", "store_unavailable")
        else:
            pulling.kill()
    assert broker.unacknowledged(subscription) == {message_id}
    pulling = pull("stuck-pull", VIEWS="sales")
    pulling.wait_for_lines(1, "ack")
    stop(pulling)
    assert message_ids(pulling.store) == {message_id}


def test_acknowledgements_are_sent_before_the_end(pull: Pull, broker: PullBroker, relay: Relay) -> None:
    """What was begun is finished, and acknowledged, also if the broker cannot be reached for a moment."""
    topic = broker.topic("slow")
    subscription = broker.subscription("slow-pull", topic)
    pulling = pull("slow-pull", VIEWS="sales", PUBSUB_EMULATOR_HOST=relay.address)
    with store_held(pulling.store):
        message_id = broker.publish(topic, SALE)
        eventually(lambda: broker.is_under_way(subscription))
        pulling.process.send_signal(signal.SIGTERM)
        time.sleep(MOMENT_S)
        relay.cut()
    time.sleep(MOMENT_S)
    relay.mend()
    stop(pulling)
    (line,) = pulling.logged(message_id)
    assert (line["outcome"], line["ack_action"]) == ("applied", "ack")
    assert broker.unacknowledged(subscription) == set()
    assert pulling.notes("WARNING", "ERROR") == []


def test_the_broker_stays_away(pull: Pull, broker: PullBroker, relay: Relay) -> None:
    """It is not waited for: what was stored and could not be acknowledged comes again, and is a duplicate."""
    topic = broker.topic("away")
    subscription = broker.subscription("away-pull", topic)
    pulling = pull("away-pull", VIEWS="sales", PUBSUB_EMULATOR_HOST=relay.address)
    with store_held(pulling.store):
        message_id = broker.publish(topic, SALE)
        eventually(lambda: broker.is_under_way(subscription))
        relay.cut()
    eventually(lambda: pulling.logged(message_id))
    assert pulling.get("/ready").status == 200
    stop(pulling)
    assert [note["message"] for note in pulling.notes("WARNING")] == [
        "acknowledgements could not be sent in time: their messages come again"
    ]
    assert broker.unacknowledged(subscription) == {message_id}
    relay.mend()
    pulling = pull("away-pull", VIEWS="sales")
    (line,) = eventually(lambda: pulling.logged(message_id))
    assert line["reason"] == "duplicate_message_noop"


def test_a_connection_breaks(pull: Pull, broker: PullBroker, relay: Relay) -> None:
    """The pull is taken up again by itself."""
    topic = broker.topic("broken")
    broker.subscription("broken-pull", topic)
    pulling = pull("broken-pull", VIEWS="sales", PUBSUB_EMULATOR_HOST=relay.address)

    def arrives() -> bool:
        message_id = broker.publish(topic, SALE)
        # The emulator may still hand it to the broken connection; then the next one comes.
        time.sleep(MOMENT_S)
        return bool(pulling.logged(message_id))

    eventually(arrives)
    relay.cut()
    relay.mend()
    eventually(arrives)
    assert pulling.notes("WARNING", "ERROR", "CRITICAL") == []


def test_a_subscription_that_is_not_there(pull: Pull, broker: PullBroker) -> None:
    """One clear line, and an exit that makes a platform try again and people look."""
    pulling = pull("nowhere")
    assert pulling.process.wait(timeout=EXIT_S) == 1
    (note,) = eventually(lambda: pulling.notes("ERROR", "CRITICAL", "ALERT"))
    path = f"projects/{broker.project}/subscriptions/nowhere"
    assert (note["severity"], note["subscription"], note["error_code"]) == ("CRITICAL", path, "NOT_FOUND")
    assert note["message"].startswith(f"the streaming pull of {path} ended: NOT_FOUND: ")


def test_a_subscription_is_deleted(pull: Pull, broker: PullBroker) -> None:
    """The process ends, once the other subscription's messages are settled: half a service is no service."""
    topic, other = broker.topic("doomed"), broker.topic("other")
    doomed = broker.subscription("doomed-pull", topic)
    subscription = broker.subscription("other-pull", other)
    pulling = pull("doomed-pull", "other-pull", VIEWS="sales")
    sales = [{"topic": "sales", "shop": "s", "amount": n} for n in range(MANY)]
    published = set(broker.publish_all(other, sales))
    pulling.wait_for_lines(100)
    broker.subscriber.delete_subscription(subscription=doomed)
    assert pulling.process.wait(timeout=EXIT_S) == 1
    (note,) = eventually(lambda: pulling.notes("ERROR", "CRITICAL", "ALERT"))
    assert (note["subscription"], note["error_code"]) == (doomed, "NOT_FOUND")
    again = broker.unacknowledged(subscription)
    assert message_ids(pulling.store) == published - again


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        ([], {}, "Missing option '--subscription'"),
        (["--subscription", PATH], {"PORT": "many"}, "PORT=many"),
        (["--subscription", "topics/t"], {}, "must be a subscription's id"),
        (["--subscription", PATH, "--subscription", "sub"], {}, "unless GCP_PROJECT is set"),
        (["--subscription", PATH], {"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere"}, "no credentials for Pub/Sub"),
        (["--subscription", PATH], {"PYTHONPATH": "without"}, "pip install 'millpond[gcp]'"),
    ],
    ids=["no subscription", "a wrong setting", "no name", "no project", "no credentials", "no client library"],
)
def test_what_keeps_it_from_starting(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], words: str
) -> None:
    """One line, on standard error, and the exit code of wrong usage."""
    missing = tmp_path / "without" / "google" / "cloud" / "pubsub_v1"
    missing.mkdir(parents=True)
    (missing / "__init__.py").write_text("raise ModuleNotFoundError('no pubsub_v1 here')")
    ran = Shell(tmp_path).run("pull", *arguments, env={"PORT": "0", **environment})
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.err.splitlines()
    assert words in line
