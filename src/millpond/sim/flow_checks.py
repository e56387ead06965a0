"""Checks of every change of a flow run's step, for `flow.py`. They raise Broken and never change the world."""

from __future__ import annotations

from collections import Counter

from millpond.core import timestamps
from millpond.core.model import Document
from millpond.sim.rules import Broken, Rules
from millpond.sim.store import Storehouse

DONE = frozenset({"SUCCEEDED", "FAILED"})
ONCE = "each step is finalised once"
HOLDER = "only the holder of a claim finalises"
LEASE = "a step is taken over only when its lease is over"
ATTEMPTS = "attempts are counted"
ORDER = "no step before those it depends on"


class StepChecks:
    def __init__(self, house: Storehouse, rules: Rules, seen: Counter[str]) -> None:
        self._house = house
        self._rules = rules
        self._seen = seen

    def changed(self, name: str, old: Document | None, new: Document, before: Document) -> None:
        """`before` are all steps of the run as they were."""
        if old is None or old == new:
            return
        then, now = old["status"], new["status"]
        if then in DONE or (then == "READY" and now != "RUNNING"):
            raise Broken(ONCE, f"{name} went from {then} to {now}")
        if then == "READY":
            self._claimed(name, old, new, before)
        elif now in DONE:
            self._finalised(name, old["claim"], new)
        elif now == "READY":
            self._returned(name, old["claim"], new)
        elif new["claim"]["token"] != old["claim"]["token"]:
            self._taken_over(name, old["claim"], new)
        elif self._house.writer != old["claim"]["owner"]:
            raise Broken(HOLDER, f"{name} is {old['claim']['owner']}'s, and renewed by {self._house.writer}")

    def _claimed(self, name: str, old: Document, new: Document, before: Document) -> None:
        waiting = [other for other in old["dependsOn"] if before[other]["status"] != "SUCCEEDED"]
        if waiting:
            raise Broken(ORDER, f"{name} began before {waiting}")
        # The claim's remaining fields keep the number of attempts that ended without a result.
        self._attempt_is(name, new, int((old.get("claim") or {}).get("attempt", 0)) + 1)

    def _taken_over(self, name: str, claim: Document, new: Document) -> None:
        self._lease_is_over(name, claim, "was taken over from")
        self._attempt_is(name, new, claim["attempt"] + 1)
        self._seen["lease taken over"] += 1

    def _returned(self, name: str, claim: Document, new: Document) -> None:
        """By the sweep once its lease is over, or by its holder that stops, which is no failed attempt."""
        if self._house.writer != claim["owner"]:
            self._lease_is_over(name, claim, "was taken from")
            self._attempt_is(name, new, claim["attempt"])
        elif self._holds(claim):
            self._attempt_is(name, new, claim["attempt"] - 1)

    def _finalised(self, name: str, claim: Document, new: Document) -> None:
        error = new.get("error") or {}
        if error.get("code") == "ATTEMPTS_EXHAUSTED":
            if claim["attempt"] < self._rules.attempts_max:
                raise Broken(ATTEMPTS, f"{name} is given up after {claim['attempt']}")
            if self._house.writer != claim["owner"]:
                self._lease_is_over(name, claim, "was given up while it was held by")
            self._seen["step's attempts exhausted"] += 1
            return
        by = new["outputs"]["by"] if new["status"] == "SUCCEEDED" else error["message"]
        if by != claim["token"]:
            raise Broken(HOLDER, f"{name} is {new['status']} by {by}, and held by {claim['token']}")
        self._seen["step finalised"] += 1

    def _attempt_is(self, name: str, new: Document, expected: int) -> None:
        if new["claim"]["attempt"] != expected:
            raise Broken(ATTEMPTS, f"{name} is {new['status']}, attempt {new['claim']['attempt']}, not {expected}")

    def _lease_is_over(self, name: str, claim: Document, what: str) -> None:
        if self._holds(claim):
            raise Broken(LEASE, f"{name} {what} {claim['owner']}")

    def _holds(self, claim: Document) -> bool:
        """Whether the lease holds by the clock of every instance."""
        return timestamps.from_datetime(claim["leaseUntil"]) > self._rules.now() + self._rules.skew_max
