"""Compares a Pub/Sub subscription with the recommended values and with our own settings. Pure.

`subscriptions` fetches them and calls this. A subscription is Google's message, read by attribute names only, so
this module never imports Google's libraries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from millpond.core.topics import Topics
from millpond.doctor.findings import Finding, fine, problem, warning
from millpond.settings import Settings

CHECK = "subscription"
ROUTING = "routing"
PUSH_PATH = "/pubsub/push"
DELETED_TOPIC = "_deleted-topic_"
BACKOFF_S = (10, 600)
# With 10 attempts messages are given up after some 40 minutes, so an outage of an hour would dead-letter good
# messages: our own Terraform sets 20.
ATTEMPTS = (5, 20)
ACK_S_LEAST = 60
_DAY_S = 86_400


class Subscribed(NamedTuple):
    """Pub/Sub's answer. `graves`: how many subscriptions the dead-letter topic has; None if that is unknown."""

    subscription: Any
    graves: int | None = None


def judge(subscribed: Subscribed, settings: Settings) -> list[Finding]:
    subscription = subscribed.subscription
    name = subscription.name.rpartition("/")[2]
    found = [
        finding._replace(found=f"{name}: {finding.found}")
        for rule in (_source, _endpoint, _identity, _retries, _dead_letters, _times)
        for finding in rule(subscribed, settings)
    ]
    if found:
        return found
    target = subscription.push_config.push_endpoint
    how = f"pushed to {target}" if target else "pulled"
    attempts = subscription.dead_letter_policy.max_delivery_attempts
    return [fine(CHECK, f"{name}: {how}, dead letters after {attempts} attempts, as recommended")]


def judge_routing(name: str, topic_path: str | None, settings: Settings, topics: Topics) -> Finding:
    """Whether the settings route all of its messages to a topic, and what to set if not.

    `topic_path` is its topic in Pub/Sub: empty if the topic is deleted, None if Pub/Sub could not be asked.
    """
    short = name.rpartition("/")[2]
    routed = topics.of_subscription(name)
    if routed is not None:
        topic, setting = routed
        # ROUTES comes before the topic that a message names, every other setting after it.
        unless = "" if setting == "ROUTES" else ", unless it names another topic itself"
        return fine(ROUTING, f"{short}: each message is routed to {topic} by {setting}{unless}")
    text = (
        f"{short}: no setting says which topic its messages belong to: a message is routed only if it names its "
        "topic itself (the attribute topic, a field of its payload, event_type, or the shape of a system event), "
        "and is poison otherwise"
    )
    return warning(ROUTING, text, _route_to_set(short, topic_path, settings, topics))


def _route_to_set(name: str, topic_path: str | None, settings: Settings, topics: Topics) -> str:
    """The setting to paste, including the entries that it already has."""
    topic = (topic_path or "").rpartition("/")[2]
    if topics.known(topic) is not None:
        return f"set SUBSCRIPTION_TOPIC_MAP='{json.dumps({**settings.subscription_topic_map, name: topic})}'"
    routes = json.dumps({**settings.routes, name: {"kind": "KIND", "topic": topic or "TOPIC"}})
    return f"set ROUTES='{routes}' with KIND one of {', '.join(sorted(topics.feeding))}"


def _source(subscribed: Subscribed, _: Settings) -> Iterator[Finding]:
    subscription = subscribed.subscription
    if subscription.detached or subscription.topic == DELETED_TOPIC:
        yield problem(CHECK, "its topic is gone: nothing arrives any more", "delete it, and create it on a topic")
    if subscription.expiration_policy.ttl.total_seconds() > 0:
        days = subscription.expiration_policy.ttl.total_seconds() / _DAY_S
        advice = f"{_update(subscription)} --expiration-period=never"
        yield warning(CHECK, f"it is deleted after {days:g} days without traffic", advice)


def _endpoint(subscribed: Subscribed, _: Settings) -> Iterator[Finding]:
    config = subscribed.subscription.push_config
    if not config.push_endpoint:
        return
    parts = urlsplit(config.push_endpoint)
    if parts.path != PUSH_PATH:
        advice = (
            f"{_update(subscribed.subscription)} --push-endpoint=https://HOST{PUSH_PATH} with its --push-auth-…"
        )
        yield problem(CHECK, f"it pushes to {config.push_endpoint}, where nothing takes messages", advice)
    if parts.scheme != "https":
        text = f"it pushes to {config.push_endpoint} without TLS: messages and tokens can be read on the network"
        yield warning(CHECK, text, "push to an https URL")
    if "no_wrapper" in config and not config.no_wrapper.write_metadata:
        text = "it pushes payloads without metadata: a message has no id then, and each is answered 400"
        yield problem(CHECK, text, "add --push-no-wrapper-write-metadata, or leave out --push-no-wrapper")


def _identity(subscribed: Subscribed, settings: Settings) -> Iterator[Finding]:
    config = subscribed.subscription.push_config
    if not config.push_endpoint:
        return
    docs = "docs/security.md#push has the command"
    if "oidc_token" not in config:
        if settings.push_audience is not None:
            yield problem(CHECK, "it pushes without a token, and PUSH_AUDIENCE asks for one: 401 for all", docs)
        else:
            text = "it pushes without a token: any client that knows the URL can push too"
            yield warning(CHECK, text, f"give it --push-auth-service-account; {docs}")
        return
    token = config.oidc_token
    audience = token.audience or config.push_endpoint
    if settings.push_audience is not None and audience != settings.push_audience:
        text = f"its tokens are for {audience}, and PUSH_AUDIENCE is {settings.push_audience}: 403 for all"
        yield problem(CHECK, text, "make the two the same text, slashes included")
    account = settings.push_service_account
    if account is not None and token.service_account_email != account:
        text = f"it pushes as {token.service_account_email}, and PUSH_SERVICE_ACCOUNT is {account}: 403 for all"
        yield problem(CHECK, text, "make the two the same")


def _retries(subscribed: Subscribed, _: Settings) -> Iterator[Finding]:
    subscription = subscribed.subscription
    command = f"{_update(subscription)} --min-retry-delay=10s --max-retry-delay=600s"
    if "retry_policy" not in subscription:
        yield warning(CHECK, "it has no retry policy: failed messages are sent again immediately", command)
        return
    policy = subscription.retry_policy
    backoff = (policy.minimum_backoff.total_seconds(), policy.maximum_backoff.total_seconds())
    if backoff != BACKOFF_S:
        text = f"it retries after {backoff[0]:g} to {backoff[1]:g} s, and 10 to 600 s are recommended"
        yield warning(CHECK, text, command)


def _dead_letters(subscribed: Subscribed, settings: Settings) -> Iterator[Finding]:
    subscription = subscribed.subscription
    policy = subscription.dead_letter_policy
    topic = subscription.name.replace("/subscriptions/", "/topics/") + ".dlq"
    command = f"{_update(subscription)} --dead-letter-topic={topic} --max-delivery-attempts={ATTEMPTS[1]}"
    if not policy.dead_letter_topic:
        if settings.poison_policy == "native":
            text = "it has no dead-letter policy, and POISON_POLICY=native leaves poison to one: it is sent forever"
            yield problem(CHECK, text, f"{command}; or POISON_POLICY=park")
        else:
            text = "it has no dead-letter policy: failing messages, except poison, are sent until they expire"
            yield warning(CHECK, text, command)
        return
    attempts = policy.max_delivery_attempts
    if not ATTEMPTS[0] <= attempts <= ATTEMPTS[1]:
        text = f"it gives up after {attempts} attempts, and {ATTEMPTS[0]} to {ATTEMPTS[1]} are usual"
        yield warning(CHECK, text, command)
    if policy.dead_letter_topic == DELETED_TOPIC:
        yield problem(CHECK, "its dead-letter topic is deleted: messages moved there are lost", command)
    elif subscribed.graves == 0:
        text = f"{policy.dead_letter_topic} has no subscription: messages moved there are lost"
        yield problem(CHECK, text, f"gcloud pubsub subscriptions create NAME --topic={policy.dead_letter_topic}")


def _times(subscribed: Subscribed, settings: Settings) -> Iterator[Finding]:
    subscription = subscribed.subscription
    deadline_s = subscription.ack_deadline_seconds
    update = _update(subscription)
    patience_s = settings.firestore_retry_max_total_s
    if subscription.push_config.push_endpoint:
        if deadline_s <= patience_s:
            text = f"it waits {deadline_s} s for an answer, and FIRESTORE_RETRY_MAX_TOTAL_S is {patience_s:g}"
            yield warning(CHECK, f"{text}: it sends again while we still try", f"{update} --ack-deadline=60")
    elif deadline_s < ACK_S_LEAST:
        text = f"its ack deadline is {deadline_s} s, and {ACK_S_LEAST} s are recommended for pulling"
        yield warning(CHECK, text, f"{update} --ack-deadline={ACK_S_LEAST}")
    kept_days = subscription.message_retention_duration.total_seconds() / _DAY_S
    if kept_days > settings.receipt_ttl_days:
        text = f"it keeps messages for {kept_days:g} days, and RECEIPT_TTL_DAYS is {settings.receipt_ttl_days:g}"
        advice = f"set RECEIPT_TTL_DAYS={kept_days:g} or more: a tally buries events that are older than receipts"
        yield warning(CHECK, text, advice)


def _update(subscription: Any) -> str:
    """The start of the command, with the subscription's full path: gcloud may be set to another project."""
    return f"gcloud pubsub subscriptions update {subscription.name}"
