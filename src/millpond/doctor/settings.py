"""Checks whether the settings are valid, and whether they expose or lose anything. Reads settings and views only.

Called by `examination`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from millpond import settings as settings_module
from millpond.core.errors import SettingsError
from millpond.core.route import Router
from millpond.doctor.findings import Finding, fine, problem, warning
from millpond.service.rules import route_rules
from millpond.service.views import load_views
from millpond.settings import Settings
from millpond.settings.table import GOOGLE_CERTS_URL, TABLE

CHECK = "settings"
# Time enough for an operator to look at dead letters.
_LETTER_DAYS_LEAST = 7


class Loaded(NamedTuple):
    """The settings without the wrong ones; None if a wrong one cannot be left out."""

    settings: Settings | None
    findings: list[Finding]


def load_settings(environment: Mapping[str, str], overrides: Mapping[str, str]) -> Loaded:
    """Find every wrong setting, not only the first: leave each out in turn, and read the rest again."""
    environment, overrides = dict(environment), dict(overrides)
    findings: list[Finding] = []
    while True:
        try:
            found = settings_module.load(environment, overrides)
        except SettingsError as error:
            findings.append(problem(CHECK, str(error), "mend it: nothing starts with it; docs/settings.md has all"))
            given = overrides if error.name in overrides else environment
            if given.pop(error.name, None) is None:
                return Loaded(None, findings)
            continue
        if findings:
            text = f"the rest was examined as if {'it were' if len(findings) == 1 else 'they were'} not set"
            findings.append(warning(CHECK, text, "mend what is wrong, then run millpond doctor again"))
        return Loaded(found, findings)


def check_settings(settings: Settings) -> list[Finding]:
    risks = [*_exposure(settings), *_keeping(settings)]
    given = sum(origin != "default" for origin in settings.origins.values())
    return [fine(CHECK, f"{len(TABLE)} settings are valid, {given} of them set"), *risks, *_views(settings)]


def _exposure(settings: Settings) -> list[Finding]:
    found: list[Finding] = []
    if settings.push_certs_url != GOOGLE_CERTS_URL:
        text = f"PUSH_CERTS_URL={settings.push_certs_url}: the server at that URL decides which pushes are accepted"
        found.append(warning(CHECK, text, "unset it, except in tests"))
    if not settings.is_exposed:
        return found
    if settings.admin_token is None:
        text = (
            f"HOST={settings.host} can be reached by others, and ADMIN_TOKEN is not set: /api refuses every request"
        )
        found.append(warning(CHECK, text, "set ADMIN_TOKEN to a long random text"))
    if settings.push_audience is not None:
        return found
    if settings.push_unauthenticated == "refuse":
        text = f"HOST={settings.host} can be reached by others, and PUSH_AUDIENCE is not set: serve will not start"
        advice = "set PUSH_AUDIENCE and PUSH_SERVICE_ACCOUNT (docs/security.md); millpond pull does not need them"
    else:
        text = f"HOST={settings.host} and PUSH_UNAUTHENTICATED=allow: every push that reaches it is accepted"
        advice = "make sure that a proxy in front checks callers, as Cloud Run's IAM does, or set PUSH_AUDIENCE"
    return [*found, warning(CHECK, text, advice)]


def _keeping(settings: Settings) -> list[Finding]:
    found: list[Finding] = []
    if settings.store == "memory":
        found.append(warning(CHECK, "STORE=memory: nothing is kept", "set STORE=sqlite:PATH or STORE=firestore"))
    elif not settings.event_log:
        text = "EVENT_LOG=off: why, verify and rebuild have nothing to read"
        found.append(warning(CHECK, text, "unset EVENT_LOG, unless the store cannot hold what arrives"))
    if settings.letter_ttl_days < _LETTER_DAYS_LEAST:
        text = f"LETTER_TTL_DAYS={settings.letter_ttl_days:g}: dead letters are gone before a week is over"
        found.append(warning(CHECK, text, "keep them 7 to 14 days, so that an operator can look"))
    return found


def _views(settings: Settings) -> list[Finding]:
    try:
        views = load_views(settings)
    except SettingsError as error:
        return [problem("views", str(error), "mend it, then look: millpond views")]
    found = [fine("views", f"{len(views)} views are loaded: {', '.join(view.name for view in views)}")]
    try:
        Router(views, route_rules(settings)).topics.check()
    except SettingsError as error:
        found.append(problem(CHECK, str(error), "mend it: nothing starts with it"))
    return found
