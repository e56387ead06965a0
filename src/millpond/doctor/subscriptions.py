"""Fetches subscriptions from Pub/Sub, or from its emulator, and has `subscription_rules` judge them. Reads only.

Imported only if there is a subscription to check: it needs Google's libraries. Called by `examination`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from google.api_core.exceptions import GoogleAPICallError, NotFound, PermissionDenied
from google.auth.exceptions import GoogleAuthError
from google.pubsub_v1.services.publisher import PublisherAsyncClient
from google.pubsub_v1.services.subscriber import SubscriberAsyncClient

from millpond.core.topics import Topics
from millpond.doctor.clock import PUBSUB_URL, check_against
from millpond.doctor.findings import Finding, problem, unchecked
from millpond.doctor.subscription_rules import CHECK, DELETED_TOPIC, Subscribed, judge, judge_routing
from millpond.gcp.emulators import PUBSUB_EMULATOR_VARIABLE, find_emulator
from millpond.gcp.error_text import error_text
from millpond.gcp.pubsub import open_publisher, open_subscriber
from millpond.gcp.resource_names import full_name
from millpond.settings import Settings

_CALL_S = 10.0
# The check only needs to know whether there is any.
_GRAVES_COUNTED = 1


class _Looked(NamedTuple):
    """The findings, and the topic of each subscription that Pub/Sub returned: empty if its topic is deleted."""

    findings: list[Finding]
    topics: dict[str, str]


async def check_subscriptions(
    settings: Settings, names: Sequence[str], topics: Topics | None = None
) -> list[Finding]:
    """Without `topics` (the views cannot be loaded) routing is not checked."""
    looked = await _look_at_all(settings, names)
    if topics is None:
        return looked.findings
    # Judged from the settings, so also if Pub/Sub cannot be asked.
    routing = [judge_routing(name, looked.topics.get(_path(name, settings)), settings, topics) for name in names]
    return [*looked.findings, *routing]


async def _look_at_all(settings: Settings, names: Sequence[str]) -> _Looked:
    known_project = (
        settings.origins["GCP_PROJECT"] != "default" or find_emulator(PUBSUB_EMULATOR_VARIABLE) is not None
    )
    findings = [
        unchecked(CHECK, f"{name}: its project is not known", "set GCP_PROJECT, or name its path")
        for name in names
        if "/" not in name and not known_project
    ]
    wanted = [_path(name, settings) for name in names if "/" in name or known_project]
    looked = _Looked(findings, {})
    if not wanted:
        return looked
    try:
        subscriber, publisher = open_subscriber(), open_publisher()
    except GoogleAuthError as error:
        advice = "gcloud auth application-default login"
        findings.append(unchecked(CHECK, f"no credentials for Pub/Sub: {error_text(error)}", advice))
        return looked
    try:
        for name in wanted:
            await _look_at(settings, subscriber, publisher, name, looked)
    finally:
        await subscriber.transport.close()  # type: ignore[no-untyped-call]
        await publisher.transport.close()  # type: ignore[no-untyped-call]
    # An emulator runs on a machine of ours: its clock is no reference.
    if not find_emulator(PUBSUB_EMULATOR_VARIABLE):
        findings += await check_against(PUBSUB_URL)
    return looked


def _path(name: str, settings: Settings) -> str:
    return full_name("subscriptions", name, settings.gcp_project)


async def _look_at(
    settings: Settings,
    subscriber: SubscriberAsyncClient,
    publisher: PublisherAsyncClient,
    name: str,
    looked: _Looked,
) -> None:
    findings = looked.findings
    try:
        subscription = await subscriber.get_subscription(subscription=name, retry=None, timeout=_CALL_S)
    except NotFound:
        advice = "create it (docs/deploy.md), or mend ROUTES and SUBSCRIPTION_TOPIC_MAP"
        findings.append(problem(CHECK, f"there is no subscription {name}", advice))
    except PermissionDenied:
        advice = "grant roles/pubsub.viewer to the account that runs this"
        findings.append(unchecked(CHECK, f"{name}: may not be looked at", advice))
    except (GoogleAPICallError, GoogleAuthError) as error:
        findings.append(unchecked(CHECK, f"{name}: {error_text(error)}", "look at the network and the credentials"))
    else:
        graves = await _count_graves(publisher, subscription.dead_letter_policy.dead_letter_topic)
        findings += judge(Subscribed(subscription, graves), settings)
        looked.topics[name] = "" if subscription.topic == DELETED_TOPIC else subscription.topic


async def _count_graves(publisher: PublisherAsyncClient, topic: str) -> int | None:
    if not topic or topic == DELETED_TOPIC:
        return None
    try:
        pager = await publisher.list_topic_subscriptions(
            request={"topic": topic, "page_size": _GRAVES_COUNTED}, retry=None, timeout=_CALL_S
        )
    except (GoogleAPICallError, GoogleAuthError):
        return None
    return len((await anext(pager.pages)).subscriptions)
