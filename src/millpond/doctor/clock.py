"""Is this machine's clock right? Judged against whoever has a better one: the store, the broker, or the log.

No document depends on it: order comes from the messages. Tokens, expiry and `ingestedAt` do.
"""

from __future__ import annotations

import email.utils
from collections.abc import Sequence

from millpond.core.model import LogEntry
from millpond.core.timestamps import SECOND_US
from millpond.doctor.findings import Finding, fine, problem, unchecked, warning
from millpond.doctor.probe import ProbeAnswer, probe

CHECK = "clock"
APART_S_WARNING = 2.0
# What the check of push tokens forgives; beyond it every push is refused.
APART_S_PROBLEM = 30.0
# A message that took longer says nothing about clocks.
_QUICK_S = 60.0
PUBSUB_URL = "https://pubsub.googleapis.com/"
_ADVICE = "have it set by the network: timedatectl set-ntp true, or chrony; a container has the clock of its host"
_COMPARE = "compare it with another clock: timedatectl status, or chronyc tracking"


def judge(ahead_s: float, unsure_s: float, against: str) -> Finding:
    """`ahead_s`: ours less theirs; `unsure_s`: how wrong that may be, as the answer was on its way meanwhile."""
    apart_s = max(0.0, abs(ahead_s) - unsure_s)
    way = "ahead of" if ahead_s > 0 else "behind"
    found = f"our clock is {abs(ahead_s):.1f} s {way} {against} (± {unsure_s:.1f} s)"
    if apart_s <= APART_S_WARNING:
        return fine(CHECK, found)
    if apart_s <= APART_S_PROBLEM:
        return warning(CHECK, found, _ADVICE)
    return problem(CHECK, f"{found}: push tokens are refused, and documents expire at the wrong time", _ADVICE)


def judge_log(entries: Sequence[LogEntry]) -> Finding:
    """No message arrives before it is published: where one seems to, our clock is behind by at least as much."""
    if not entries:
        return unchecked(CHECK, "the event log holds nothing to compare with", _COMPARE)
    quickest_s = min(entry.arrived_at - entry.delivery.publish_time for entry in entries) / SECOND_US
    if quickest_s < 0:
        return judge(quickest_s, 0.0, "that of whoever publishes, or more")
    said = f"the quickest of the last {len(entries):,} messages took {quickest_s:,.1f} s from publishing to arrival"
    if quickest_s > _QUICK_S:
        return unchecked(CHECK, f"{said}: they were late, or our clock is ahead", _COMPARE)
    return fine(CHECK, f"{said}: our clock is not behind")


async def check_against(url: str) -> list[Finding]:
    """By the date of any answer there: whoever has no right to it is refused, and told the time."""
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
    # Their second began up to a second before they answered.
    half_s = (answer.answered_at - answer.asked_at) / 2
    return judge((answer.asked_at + half_s) - (theirs + 0.5), half_s + 0.5, "Pub/Sub's")
