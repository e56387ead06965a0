"""Runs the checks of `millpond doctor`, one after the other. A check that fails never prevents another.

Reads only: no check writes to a store, a disk or a broker. Called by `cli.doctor`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from millpond.concurrency import in_thread
from millpond.core.errors import MillpondError, SettingsError, missing_extra
from millpond.core.route import Router
from millpond.core.view import View
from millpond.doctor import settings as settings_check
from millpond.doctor.disk import check_disk
from millpond.doctor.embedded import check_embedded
from millpond.doctor.existing_documents import check_existing
from millpond.doctor.findings import Finding, fine, problem, unchecked
from millpond.doctor.old_ids import check_ids
from millpond.service.rules import route_rules
from millpond.service.stores import open_store
from millpond.service.views import load_views
from millpond.settings import FIRESTORE, Settings

# More than the longest check needs: that of an embedded store, which has its own, shorter limit.
_CHECK_S = 90.0
# For each collection: Firestore bills every document that is listed as a read.
_FIRESTORE_LISTED_MAX = 2_000


class Subject(NamedTuple):
    """What is examined: the settings, and the subscriptions that the settings or the command line name."""

    settings: Settings
    subscriptions: Sequence[str]


Check = Callable[[Subject], Awaitable[list[Finding]]]


async def examine(
    environment: Mapping[str, str], overrides: Mapping[str, str], subscriptions: Sequence[str]
) -> list[Finding]:
    loaded = settings_check.load_settings(environment, overrides)
    if loaded.settings is None:
        others = ", ".join(name for name, _ in CHECKS[1:])
        text = f"{others}: not checked until the settings are right"
        return [*loaded.findings, unchecked("others", text, "mend the settings, then run millpond doctor again")]
    settings = loaded.settings
    named = dict.fromkeys([*settings.routes, *settings.subscription_topic_map, *subscriptions])
    subject = Subject(settings, list(named))
    findings = list(loaded.findings)
    for name, check in CHECKS:
        findings += await _made(name, check, subject)
    return findings


async def _made(name: str, check: Check, subject: Subject) -> list[Finding]:
    """The check's findings; if the check itself fails, a finding that says so."""
    try:
        async with asyncio.timeout(_CHECK_S):
            return await check(subject)
    except TimeoutError:
        return [unchecked(name, f"no answer within {_CHECK_S:g} s", "look at the network, then try again")]
    except SettingsError as error:
        return [problem(name, str(error), "mend the setting, then run millpond doctor again")]
    except MillpondError as error:
        return [problem(name, str(error), "see to that first, then run millpond doctor again")]
    except Exception as error:  # noqa: BLE001 - one check that fails must not hide what the others find
        text = f"the check itself failed: {type(error).__name__}: {error}"
        return [unchecked(name, text[:300], "this is a fault of the check: please report it")]


async def _settings(subject: Subject) -> list[Finding]:
    return settings_check.check_settings(subject.settings)


async def _store(subject: Subject) -> list[Finding]:
    settings = subject.settings
    path = settings.store_path
    if path is not None:
        views = _loaded_views(settings)
        return await in_thread(lambda: check_embedded(path, views))
    if settings.store == FIRESTORE:
        return await _firestore(settings)
    return [fine("store", "STORE=memory lives in the server alone: there is nothing to open")]


def _loaded_views(settings: Settings) -> list[View]:
    """Empty if they cannot be loaded: the check of the settings reports that."""
    try:
        return load_views(settings)
    except SettingsError:
        return []


async def _firestore(settings: Settings) -> list[Finding]:
    store = open_store(settings, read_only=True)
    # Imported only here: they need Google's libraries. If these are missing, `open_store` has already raised.
    from millpond.doctor import firestore as firestore_check  # noqa: PLC0415
    from millpond.doctor import indexes as indexes_check  # noqa: PLC0415
    from millpond.stores.firestore.store import FirestoreStore  # noqa: PLC0415

    assert isinstance(store, FirestoreStore)  # noqa: S101 - that is what STORE=firestore opens
    try:
        found = [
            *await firestore_check.check_firestore(settings, store),
            *await firestore_check.check_expiry(settings, store),
        ]
        if not any(finding.check == "store" and finding.state == "problem" for finding in found):
            views = _loaded_views(settings)
            found += await indexes_check.check_indexes(settings, store, views)
            found += await check_ids(store, views, _FIRESTORE_LISTED_MAX)
            found += await check_existing(store, views, _FIRESTORE_LISTED_MAX, time.time_ns() // 1_000)
        return found
    finally:
        await store.close()


async def _subscriptions(subject: Subject) -> list[Finding]:
    if not subject.subscriptions:
        text = "no subscription is named in ROUTES or SUBSCRIPTION_TOPIC_MAP"
        return [unchecked("subscription", text, "if Pub/Sub is used, name them: millpond doctor --subscription S")]
    try:
        from millpond.doctor.subscriptions import check_subscriptions  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        raise missing_extra("--subscription", subject.subscriptions[0], error) from None
    settings = subject.settings
    views = _loaded_views(settings)
    topics = Router(views, route_rules(settings)).topics if views else None
    return await check_subscriptions(settings, subject.subscriptions, topics)


async def _disk(subject: Subject) -> list[Finding]:
    return check_disk(subject.settings)


CHECKS: tuple[tuple[str, Check], ...] = (
    ("settings", _settings),
    ("store", _store),
    ("subscription", _subscriptions),
    ("disk", _disk),
)
