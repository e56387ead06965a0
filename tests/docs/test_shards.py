"""Shards in Terraform: every message has a subscription, every shard one worker, and no resource leaves one out.

Terraform itself works out the local values of shards.tf: it needs no provider for them.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections import Counter
from typing import Any

import pytest

from millpond.core.shards import ATTRIBUTE
from millpond.settings import parse
from tests.docs.hcl import HCL, ROOT, TERRAFORM, arguments, blocks, evaluate, resources, text_of

USED = ("name", "subscriptions", "pull_instances")
TOLD = ("subscriptions", "push_subscriptions", "pull_subscriptions", "topics", "routes", "pull_workers")
# Pub/Sub's limit. https://cloud.google.com/pubsub/docs/subscription-message-filter
FILTER_BYTES_MAX = 256
ORDERS = {"topic": "orders", "delivery": "pull"}
TICKS = {"topic": "feed-v2", "kind": "market-ticks", "delivery": "pull"}
EVENTS = {"topic": "system.events", "delivery": "push"}
_TEST = re.compile(r'(NOT )?attributes\.(\w+) = "([^"]*)"')


@functools.cache
def _terraform(given: str) -> dict[str, Any]:
    return evaluate("shards.tf", USED, TOLD, json.loads(given))


def terraform(pull_instances: float, **subscriptions: Any) -> dict[str, Any]:
    """What Terraform makes of these entries of `subscriptions`."""
    given = {"pull_instances": pull_instances, "subscriptions": subscriptions}
    return _terraform(json.dumps(given, sort_keys=True))


def matches(text: str | None, attributes: dict[str, str]) -> bool:
    """Whether Pub/Sub delivers a message: tests of equality joined by AND are all that our filters use."""
    if text is None:
        return True
    tests = [_TEST.fullmatch(part) for part in text.split(" AND ")]
    assert all(tests), text
    return all((attributes.get(test[2]) == test[3]) == (test[1] is None) for test in tests if test is not None)


def test_an_entry_without_shards_is_one_subscription_of_all_workers() -> None:
    """As it was before there were shards: the same names, no filter, one service with all instances."""
    told = terraform(3, orders=ORDERS, ticks=TICKS, events=EVENTS)
    assert {name: s["filter"] for name, s in told["subscriptions"].items()} == dict.fromkeys(
        ("orders", "ticks", "events")
    )
    assert set(told["push_subscriptions"]) == {"events"}
    assert set(told["pull_subscriptions"]) == {"orders", "ticks"}
    assert told["pull_workers"] == [
        {"name": "millpond-pull", "instances": 3, "subscriptions": ["orders", "ticks"]},
    ]


def test_without_a_pull_subscription_there_are_no_workers() -> None:
    """A service without subscriptions would not start."""
    assert terraform(2, events=EVENTS)["pull_workers"] == []


@pytest.mark.parametrize("shards", [2, 3, 8])
def test_every_message_has_exactly_one_subscription(shards: int) -> None:
    """Also one without the attribute, or with any other value: Pub/Sub drops what no filter matches."""
    made = terraform(2, orders={**ORDERS, "shards": shards})["subscriptions"]
    assert set(made) == {f"orders-{end}" for end in [*range(shards), "rest"]}
    values = [*map(str, range(12)), "", " 0", "00", "07", "1.0", "-1", "1/8", "rest", "zero", "0" * 99]
    messages = [{}, {"topic": "orders"}, {"Shard": "0"}, *({ATTRIBUTE: value, "a": "b"} for value in values)]
    for attributes in messages:
        takers = [name for name, s in made.items() if matches(s["filter"], attributes)]
        value = attributes.get(ATTRIBUTE)
        own = value in {f"{shard}" for shard in range(shards)}
        assert takers == [f"orders-{value}" if own else "orders-rest"], attributes


def test_filters_are_short_enough_for_pubsub() -> None:
    """The one that names every shard is the longest; one more shard would not fit."""
    made = terraform(2, orders={**ORDERS, "shards": 8})["subscriptions"]
    longest = max(len(s["filter"].encode()) for s in made.values())
    one_more = len(' AND NOT attributes.shard = "8"')
    assert longest <= FILTER_BYTES_MAX < longest + one_more


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_every_shard_has_one_owner(workers: int) -> None:
    """A worker is a service with one instance; shards are dealt out evenly, and what has no owner goes to all."""
    told = terraform(workers, orders={**ORDERS, "shards": 5}, ticks=TICKS, events=EVENTS)
    services = told["pull_workers"]
    assert [service["name"] for service in services] == [
        "millpond-pull",
        *(f"millpond-pull-{n}" for n in range(1, workers)),
    ]
    assert {service["instances"] for service in services} == {1}
    pulled = Counter(name for service in services for name in service["subscriptions"])
    assert pulled == {**{f"orders-{n}": 1 for n in range(5)}, "orders-rest": workers, "ticks": workers}
    owned = [len(service["subscriptions"]) - 2 for service in services]
    assert max(owned) - min(owned) <= 1


def test_one_worker_owns_a_shard_of_all_topics() -> None:
    """A document that is fed by two topics is written by one worker, if both have the same number of shards."""
    told = terraform(2, orders={**ORDERS, "shards": 4}, returns={"topic": "r", "delivery": "pull", "shards": 4})
    for service in told["pull_workers"]:
        shards = {name.rpartition("-")[2] for name in service["subscriptions"]} - {"rest"}
        owned = [f"{entry}-{shard}" for entry in ("orders", "returns") for shard in sorted(shards)]
        assert service["subscriptions"] == sorted([*owned, "orders-rest", "returns-rest"])


def test_messages_of_every_shard_are_routed() -> None:
    """ROUTES names each of them, with the kind of its entry, in the form that the setting takes."""
    told = terraform(2, ticks={**TICKS, "shards": 2}, events=EVENTS)
    wanted = {"kind": "market-ticks", "topic": "feed-v2"}
    assert parse.routes(json.dumps(told["routes"])) == {
        "ticks-0": wanted,
        "ticks-1": wanted,
        "ticks-rest": wanted,
        "events": {"kind": "system.events", "topic": "system.events"},
    }
    assert re.search(r"^ +ROUTES += jsonencode\(local\.routes\)$", HCL, re.MULTILINE)
    assert sorted(told["topics"]) == ["feed-v2", "system.events"]


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"events": {**EVENTS, "shards": 4}}, 'with delivery = "pull" can have shards'),
        ({"orders": {**ORDERS, "shards": 1}}, "from 2 to 8"),
        ({"orders": {**ORDERS, "shards": 9}}, "from 2 to 8"),
        ({"orders": {**ORDERS, "shards": 2.5}}, "from 2 to 8"),
        ({"orders": {**ORDERS, "shards": 4}, "orders-3": ORDERS}, "the name of a shard"),
        ({"orders": {**ORDERS, "shards": 4}, "orders-rest": EVENTS}, "the name of a shard"),
    ],
)
def test_a_wrong_entry_is_refused(entries: dict[str, Any], words: str) -> None:
    """Before anything is planned, with a text that says what is allowed."""
    with pytest.raises(AssertionError, match="Invalid value for variable") as raised:
        terraform(2, **entries)
    assert words in re.sub(r"\s*│?\s+", " ", str(raised.value))


def test_half_a_worker_is_refused() -> None:
    """Shards are dealt out by their number, modulo the workers."""
    with pytest.raises(AssertionError, match="A whole number, at least 1"):
        terraform(1.5, orders=ORDERS)


def test_every_resource_knows_all_subscriptions() -> None:
    """What iterated over the entries would leave shards without DLQ, permissions, filter or alert."""
    assert "var.subscriptions" not in HCL.replace(text_of(TERRAFORM / "shards.tf"), "").replace(
        blocks("variable")["subscriptions"], ""
    )
    for kind, name, what in [
        ("google_pubsub_topic", "dlq", "local.subscriptions"),
        ("google_pubsub_subscription", "dlq", "local.subscriptions"),
        ("google_pubsub_subscription", "pull", "local.pull_subscriptions"),
        ("google_pubsub_subscription", "push", "local.push_subscriptions"),
        ("google_pubsub_topic_iam_member", "dlq", "local.subscriptions"),
        ("google_pubsub_subscription_iam_member", "dlq", "local.subscriptions"),
        ("google_pubsub_subscription_iam_member", "pull", "local.pull_subscriptions"),
    ]:
        assert arguments(resources(kind)[name])["for_each"] == what, f"{kind}.{name}"
    assert arguments(resources("google_pubsub_subscription")["pull"])["filter"] == "each.value.filter"
    operators = resources("google_pubsub_subscription_iam_member")["operator"]
    assert "setproduct(keys(local.subscriptions), var.operators)" in operators


def test_the_page_creates_the_same_subscriptions_by_hand() -> None:
    """The filters of the gcloud commands in docs/pull.md are those of Terraform."""
    page = text_of(ROOT / "docs" / "pull.md")
    made = terraform(2, ticks={**TICKS, "shards": 4})["subscriptions"]
    loop, rest = re.findall(r"--message-filter=(.*)$", page, re.MULTILINE)
    for shard in range(4):
        assert shlex.split(loop.replace("$SHARD", f"{shard}")) == [made[f"ticks-{shard}"]["filter"]]
    assert shlex.split(rest) == [made["ticks-rest"]["filter"]]
