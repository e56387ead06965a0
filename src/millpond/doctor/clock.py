"""Checks this machine's clock against Firestore's, Pub/Sub's, or the publish times in the event log.

No document's content depends on the clock: order comes from the messages. Tokens, expiry and `ingestedAt` depend on
it. Called by the checks of the stores and the subscriptions.
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import Sequence
from typing import NamedTuple

from millpond.core.model import LogEntry
from millpond.core.timestamps import SECOND_US
from millpond.doctor.findings import Finding, fine, problem, unchecked, warning
from millpond.http_client import Address, fetch

_TIMEOUT_S = 5.0


class ProbeAnswer(NamedTuple):
    status: int
    headers: dict[str, str]
    # Our clock, in seconds since 1970, just before the request and just after the answer.
    asked_at: float
    answered_at: float


async def probe(url: str) -> ProbeAnswer:
    """Takes five seconds at most. Raises OSError if there is no answer, or it is not HTTP."""
    asked_at = time.time()
    reply = await fetch(Address.parse(url), timeout_s=_TIMEOUT_S)
    return ProbeAnswer(reply.status, reply.headers, asked_at, time.time())


CHECK = "clock"
APART_S_WARNING = 2.0
# The leeway of the push token check; a larger difference refuses every push.
APART_S_PROBLEM = 30.0
# Messages that took longer are no evidence: they may just be late.
_QUICK_S = 60.0
PUBSUB_URL = "https://pubsub.googleapis.com/"
_ADVICE = "have it set by the network: timedatectl set-ntp true, or chrony; a container has the clock of its host"
_COMPARE = "compare it with another clock: timedatectl status, or chronyc tracking"


def judge(ahead_s: float, unsure_s: float, against: str) -> Finding:
    """`ahead_s`: our clock minus the other; `unsure_s`: its error, from the answer's time on the network."""
    apart_s = max(0.0, abs(ahead_s) - unsure_s)
    way = "ahead of" if ahead_s > 0 else "behind"
    found = f"our clock is {abs(ahead_s):.1f} s {way} {against} (± {unsure_s:.1f} s)"
    if apart_s <= APART_S_WARNING:
        return fine(CHECK, found)
    if apart_s <= APART_S_PROBLEM:
        return warning(CHECK, found, _ADVICE)
    return problem(CHECK, f"{found}: push tokens are refused, and documents expire at the wrong time", _ADVICE)


def judge_log(entries: Sequence[LogEntry]) -> Finding:
    """No message arrives before it is published. If one seems to, our clock is behind by that much or more."""
    if not entries:
        return unchecked(CHECK, "the event log holds nothing to compare with", _COMPARE)
    quickest_s = min(entry.arrived_at - entry.delivery.publish_time for entry in entries) / SECOND_US
    if quickest_s < 0:
        return judge(quickest_s, 0.0, "the publisher's, or more")
    text = f"the quickest of the last {len(entries):,} messages took {quickest_s:,.1f} s from publishing to arrival"
    if quickest_s > _QUICK_S:
        return unchecked(CHECK, f"{text}: they were late, or our clock is ahead", _COMPARE)
    return fine(CHECK, f"{text}: our clock is not behind")


async def check_against(url: str) -> list[Finding]:
    """Compare with the `Date` header of any answer; a refusal without credentials has one, too."""
    try:
        answer = await probe(url)
    except OSError as error:
        text = f"{url} did not answer: {error.strerror or error}"
        return [unchecked(CHECK, text, "look at the network and at proxies; then run millpond doctor again")]
    return [judge_answer(answer, url)]


def judge_answer(answer: ProbeAnswer, url: str) -> Finding:
    try:
        theirs = email.utils.parsedate_to_datetime(answer.headers.get("date", "")).timestamp()
    except ValueError:
        return unchecked(CHECK, f"{url} does not say what time it is", _COMPARE)
    # `Date` has whole seconds: the server's clock is 0 to 1 s later, 0.5 s on average.
    half_s = (answer.answered_at - answer.asked_at) / 2
    return judge((answer.asked_at + half_s) - (theirs + 0.5), half_s + 0.5, "Pub/Sub's")
