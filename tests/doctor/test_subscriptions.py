"""Subscriptions as the broker has them, against what we ask for and our settings: on Pub/Sub's emulator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from millpond.doctor.examination import examine
from millpond.doctor.findings import Finding, State
from tests.doctor.support import texts
from tests.ingress.broker.support import Broker

DAY_S = 86_400
PUSH_URL = "https://pond.example/pubsub/push"
ACCOUNT = "push@p.iam.gserviceaccount.com"
GUARD = {"PUSH_AUDIENCE": PUSH_URL, "PUSH_SERVICE_ACCOUNT": ACCOUNT}


class Clinic:
    """Subscriptions of one topic, and what is found about them."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.topic = broker.topic("ticks")
        self.graves = broker.topic("ticks.dlq")
        broker.subscription("ticks.dlq", self.graves)

    def subscribe(self, name: str, **changes: Any) -> None:
        """As our Terraform makes them, but for the changes; None leaves a setting out."""
        usual: dict[str, Any] = {
            "ack_deadline_seconds": 60,
            "message_retention_duration": Duration(seconds=7 * DAY_S),
            "retry_policy": backoff(10, 600),
            "dead_letter_policy": {"dead_letter_topic": self.graves, "max_delivery_attempts": 20},
            "expiration_policy": {},
        }
        wanted = {key: value for key, value in {**usual, **changes}.items() if value is not None}
        self.broker.subscription(name, self.topic, **wanted)

    def examine(self, *names: str, **environment: str) -> list[Finding]:
        return self._examine("subscription", names, environment)

    def routing(self, *names: str, **environment: str) -> list[Finding]:
        return self._examine("routing", names, environment)

    def _examine(self, check: str, names: Sequence[str], environment: dict[str, str]) -> list[Finding]:
        known = {"GCP_PROJECT": self.broker.project, "STORE": "memory", **environment}
        found = asyncio.run(examine(known, {}, names))
        return [finding for finding in found if finding.check == check]


@pytest.fixture
def clinic(pubsub_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clinic]:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub_emulator)
    broker = Broker(project, pubsub_emulator)
    yield Clinic(broker)
    broker.close()


def backoff(shortest_s: int, longest_s: int) -> dict[str, Duration]:
    return {"minimum_backoff": Duration(seconds=shortest_s), "maximum_backoff": Duration(seconds=longest_s)}


def push(url: str = PUSH_URL, account: str = ACCOUNT, audience: str = PUSH_URL, **changes: Any) -> dict[str, Any]:
    """What makes a subscription push, with a token."""
    token = {"service_account_email": account, "audience": audience}
    return {"push_config": {"push_endpoint": url, "oidc_token": token, **changes}}


def test_subscriptions_as_our_terraform_makes_them(clinic: Clinic) -> None:
    """Found by ROUTES, SUBSCRIPTION_TOPIC_MAP and --subscription, by id and by path, each once; all are fine."""
    clinic.subscribe("pushed", **push())
    clinic.subscribe("pulled")
    clinic.subscribe("mapped")
    routes = '{"pushed": {"kind": "market-ticks", "topic": "ticks"}}'
    path = f"projects/{clinic.broker.project}/subscriptions/pulled"
    found = clinic.examine(path, "pushed", ROUTES=routes, SUBSCRIPTION_TOPIC_MAP='{"mapped": "ticks"}', **GUARD)
    assert [finding.state for finding in found] == [State.OK] * 3, found
    assert [finding.found.split(":")[0] for finding in found] == ["pushed", "mapped", "pulled"]


IN_HASTE = {**push(), "ack_deadline_seconds": 10}


@pytest.mark.parametrize(
    ("changes", "environment", "state", "words"),
    [
        (push("https://pond.example/push"), {}, State.PROBLEM, "where nothing takes messages"),
        (push("http://pond.example/pubsub/push"), {}, State.WARNING, "without TLS"),
        ({"push_config": {"push_endpoint": PUSH_URL}}, {}, State.WARNING, "without a token"),
        ({"push_config": {"push_endpoint": PUSH_URL}}, GUARD, State.PROBLEM, "401 for all"),
        (push(audience=PUSH_URL + "/"), GUARD, State.PROBLEM, "PUSH_AUDIENCE is"),
        (push(account="x@y.z"), GUARD, State.PROBLEM, "PUSH_SERVICE_ACCOUNT is"),
        (push(no_wrapper={"write_metadata": False}), {}, State.PROBLEM, "without metadata"),
        ({"retry_policy": None}, {}, State.WARNING, "no retry policy"),
        ({"retry_policy": backoff(1, 60)}, {}, State.WARNING, "retries after 1 to 60 s"),
        ({"dead_letter_policy": None}, {}, State.WARNING, "no dead-letter policy"),
        ({"dead_letter_policy": None}, {"POISON_POLICY": "native"}, State.PROBLEM, "sent forever"),
        ({"ack_deadline_seconds": 10}, {}, State.WARNING, "its ack deadline is 10 s"),
        (IN_HASTE, {"FIRESTORE_RETRY_MAX_TOTAL_S": "12"}, State.WARNING, "it sends again while we still try"),
        (
            IN_HASTE,
            {"FIRESTORE_RETRY_MAX_TOTAL_S": "10"},
            State.WARNING,
            "it waits 10 s for an answer, and FIRESTORE_RETRY_MAX_TOTAL_S is 10",
        ),
        ({}, {"RECEIPT_TTL_DAYS": "3"}, State.WARNING, "keeps messages for 7 days"),
        ({"expiration_policy": {"ttl": Duration(seconds=31 * DAY_S)}}, {}, State.WARNING, "after 31 days"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_each_way_to_be_wrong(
    clinic: Clinic, changes: dict[str, Any], environment: dict[str, str], state: State, words: str
) -> None:
    """One change from what is fine is one finding, that says what and what to do."""
    clinic.subscribe("ticks-sub", **changes)
    (found,) = clinic.examine("ticks-sub", **environment)
    assert found.state is state
    assert found.found.startswith("ticks-sub: ")
    assert words in found.found
    assert found.advice


def test_attempts_beyond_what_is_usual(clinic: Clinic) -> None:
    """The usual 5 to 10 and our own 20 are fine; a hundred deliveries of poison are not."""
    for attempts in (5, 10, 100):
        policy = {"dead_letter_topic": clinic.graves, "max_delivery_attempts": attempts}
        clinic.subscribe(f"after-{attempts}", dead_letter_policy=policy)
    found = clinic.examine("after-5", "after-10", "after-100")
    assert [finding.state for finding in found] == [State.OK, State.OK, State.WARNING]


def test_dead_letters_without_a_subscription(clinic: Clinic) -> None:
    """A topic keeps nothing for subscriptions it does not have: what is given up would be lost."""
    lonely = clinic.broker.topic("lonely.dlq")
    policy = {"dead_letter_topic": lonely, "max_delivery_attempts": 10}
    clinic.subscribe("loses", dead_letter_policy=policy)
    (found,) = clinic.examine("loses")
    assert (found.state, "has no subscription" in found.found) == (State.PROBLEM, True)


UNLESS = ", unless it names another topic itself"
MAP = '{"mapped": "market-bars-1m"}'
ROUTES = '{"routed": {"kind": "market-ticks", "topic": "ticks"}}'


@pytest.mark.parametrize(
    ("name", "environment", "words"),
    [
        ("routed", {"ROUTES": ROUTES}, "market-ticks by ROUTES"),
        ("mapped", {"SUBSCRIPTION_TOPIC_MAP": MAP}, "market-bars-1m by SUBSCRIPTION_TOPIC_MAP" + UNLESS),
        ("any-sub", {"SOURCE_TOPIC": "trade-signals"}, "trade-signals by SOURCE_TOPIC" + UNLESS),
        ("market-ticks", {}, "market-ticks by its own name" + UNLESS),
    ],
)
def test_a_subscription_whose_messages_are_routed(
    clinic: Clinic, name: str, environment: dict[str, str], words: str
) -> None:
    """Whatever they hold; the topic is named, and what says so."""
    clinic.subscribe(name)
    path = f"projects/{clinic.broker.project}/subscriptions/{name}"
    (found,) = clinic.routing(path if not environment else name, **environment)
    told = f"{name}: each message is routed to {words}"
    assert (found.state, found.found, found.advice) == (State.OK, told, "")


def test_a_subscription_whose_messages_are_not_routed(clinic: Clinic) -> None:
    """Its topic is one a view feeds on: the setting to paste names it, keeps its entries, and mends it."""
    clinic.topic = clinic.broker.topic("market-ticks")
    clinic.subscribe("ticks-sub")
    clinic.subscribe("mapped")
    (_, found) = clinic.routing("ticks-sub", SUBSCRIPTION_TOPIC_MAP=MAP)
    assert found.state is State.WARNING
    assert found.found.startswith("ticks-sub: no setting says which topic its messages belong to")
    for way in ("the attribute topic", "payload", "event_type", "system event"):
        assert way in found.found
    pasted = found.advice.removeprefix("set SUBSCRIPTION_TOPIC_MAP=").strip("'")
    assert json.loads(pasted) == {"mapped": "market-bars-1m", "ticks-sub": "market-ticks"}
    mended = clinic.routing("ticks-sub", SUBSCRIPTION_TOPIC_MAP=pasted)
    assert [finding.state for finding in mended] == [State.OK] * 2


def test_a_subscription_of_a_topic_that_no_view_feeds_on(clinic: Clinic) -> None:
    """Which views its messages are for is not known: ROUTES says it, and keeps the topic's own name."""
    clinic.subscribe("ticks-sub")
    clinic.subscribe("routed")
    (_, found) = clinic.routing("ticks-sub", ROUTES=ROUTES)
    assert found.state is State.WARNING
    setting, _, kinds = found.advice.partition(" with KIND one of ")
    assert {"market-ticks", "trade-signals"} <= set(kinds.split(", "))
    pasted = setting.removeprefix("set ROUTES=").strip("'").replace("KIND", "market-ticks")
    assert json.loads(pasted) == {**json.loads(ROUTES), "ticks-sub": {"kind": "market-ticks", "topic": "ticks"}}
    assert {finding.state for finding in clinic.routing("ticks-sub", ROUTES=pasted)} == {State.OK}


def test_views_that_cannot_be_loaded_say_nothing_about_routing(clinic: Clinic) -> None:
    """The settings' own finding says what is wrong; the subscription is looked at all the same."""
    clinic.subscribe("ticks-sub")
    assert clinic.routing("ticks-sub", VIEWS="no_such_module") == []
    assert [finding.state for finding in clinic.examine("ticks-sub", VIEWS="no_such_module")] == [State.OK]


def test_a_topic_that_is_gone(clinic: Clinic) -> None:
    """Nothing arrives any more, and nothing else says so."""
    clinic.subscribe("orphan")
    clinic.broker.publisher.delete_topic(topic=clinic.topic)
    assert any("its topic is gone" in text for text in texts(clinic.examine("orphan"), State.PROBLEM))


def test_a_subscription_that_is_not_there(clinic: Clinic) -> None:
    """A name mistyped in ROUTES; the others are looked at all the same."""
    clinic.subscribe("there")
    found = clinic.examine("not-there", "there")
    assert [finding.state for finding in found] == [State.PROBLEM, State.OK]
    assert "there is no subscription" in found[0].found


def test_a_broker_that_does_not_answer(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be known: no problem of the subscription, and no traceback."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:9")
    (found,) = clinic.examine("ticks-sub")
    assert found.state is State.UNCHECKED


def test_a_project_that_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id alone means nothing without GCP_PROJECT, and no service is asked."""
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    found = asyncio.run(examine({"STORE": "memory"}, {}, ["ticks-sub"]))
    assert any("its project is not known" in text for text in texts(found, State.UNCHECKED))


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be known, the login is the advice, and no service is asked."""
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
    found = asyncio.run(examine({"STORE": "memory", "GCP_PROJECT": "p"}, {}, ["ticks-sub"]))
    (unknown,) = [finding for finding in found if finding.check == "subscription"]
    assert (unknown.state, unknown.advice) == (State.UNCHECKED, "gcloud auth application-default login")
