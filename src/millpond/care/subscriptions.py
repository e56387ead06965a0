"""Fetching subscriptions from Pub/Sub, or from its emulator. Imported only where one is to be looked at."""

from __future__ import annotations

from collections.abc import Sequence

from google.api_core.exceptions import GoogleAPICallError, NotFound, PermissionDenied
from google.auth.exceptions import GoogleAuthError
from google.pubsub_v1.services.publisher import PublisherAsyncClient
from google.pubsub_v1.services.subscriber import SubscriberAsyncClient

from millpond.care.clock_check import PUBSUB_URL, check_against
from millpond.care.findings import Finding, problem, unchecked
from millpond.care.subscription_check import CHECK, DELETED_TOPIC, Subscribed, judge
from millpond.gcp import PUBSUB_EMULATOR_VARIABLE, error_text, find_emulator, full_name
from millpond.pubsub_clients import open_publisher, open_subscriber
from millpond.settings import Settings

_CALL_S = 10.0
# Of a topic that no one may be looking at, one subscription says as much as a hundred.
_GRAVES_COUNTED = 1


async def check_subscriptions(settings: Settings, names: Sequence[str]) -> list[Finding]:
    known_project = (
        settings.origins["GCP_PROJECT"] != "default" or find_emulator(PUBSUB_EMULATOR_VARIABLE) is not None
    )
    findings = [
        unchecked(CHECK, f"{name}: its project is not known", "set GCP_PROJECT, or name its path")
        for name in names
        if "/" not in name and not known_project
    ]
    wanted = [
        full_name("subscriptions", name, settings.gcp_project) for name in names if "/" in name or known_project
    ]
    if not wanted:
        return findings
    try:
        subscriber, publisher = open_subscriber(), open_publisher()
    except GoogleAuthError as error:
        advice = "gcloud auth application-default login"
        return [*findings, unchecked(CHECK, f"no credentials for Pub/Sub: {error_text(error)}", advice)]
    try:
        for name in wanted:
            findings += await _look_at(settings, subscriber, publisher, name)
    finally:
        await subscriber.transport.close()  # type: ignore[no-untyped-call]
        await publisher.transport.close()  # type: ignore[no-untyped-call]
    # An emulator has the clock of some machine of ours, which proves nothing.
    return findings if find_emulator(PUBSUB_EMULATOR_VARIABLE) else [*findings, *await check_against(PUBSUB_URL)]


async def _look_at(
    settings: Settings, subscriber: SubscriberAsyncClient, publisher: PublisherAsyncClient, name: str
) -> list[Finding]:
    try:
        subscription = await subscriber.get_subscription(subscription=name, retry=None, timeout=_CALL_S)
    except NotFound:
        advice = "create it (docs/deploy.md), or mend ROUTES and SUBSCRIPTION_TOPIC_MAP"
        return [problem(CHECK, f"there is no subscription {name}", advice)]
    except PermissionDenied:
        return [unchecked(CHECK, f"{name}: may not be looked at", "grant roles/pubsub.viewer to whoever runs this")]
    except (GoogleAPICallError, GoogleAuthError) as error:
        return [unchecked(CHECK, f"{name}: {error_text(error)}", "look at the network and the credentials")]
    graves = await _count_graves(publisher, subscription.dead_letter_policy.dead_letter_topic)
    return judge(Subscribed(subscription, graves), settings)


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
