"""Who runs what, when the suite runs in several processes (`pytest -n 3`). Most of its time is waiting.

A file stays in one process, so what its tests share is made once, and their order holds. Everything on one of
Google's emulators stays in one process too, or each process would start its own. The longest go first: a
process that begins with a minute's work when the others are done makes the whole suite wait.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

PUBSUB, FIRESTORE = "on Pub/Sub", "on Firestore"
_PLACES = {
    PUBSUB: (
        "tests/ingress/broker/",
        "tests/doctor/test_subscriptions.py",
        "tests/ingress/pull/test_ending.py",
        "tests/ingress/pull/test_flow.py",
        "tests/ingress/pull/test_settling.py",
        "tests/ingress/pull/test_shards.py",
    ),
    FIRESTORE: (
        *("tests/wire/", "tests/upgrade/", "tests/instances/", "tests/contract/test_firestore.py"),
        *("tests/flow/test_on_firestore.py", "tests/flow/test_functions.py"),
        "tests/acceptance/test_events.py::test_an_event_of_every_form",
    ),
}
# The name a parametrized store has, and what tests that use an emulator directly have in their name.
_NAMED = ("[firestore", "-firestore", "on_firestore", "test_firestore")
_LONGEST_FIRST = (
    *(PUBSUB, FIRESTORE, "tests/acceptance/test_bad_input.py", "tests/acceptance/test_lifecycle.py"),
    *("tests/install/test_make_run.py", "tests/install/test_new.py"),
    *("tests/cli/test_flow.py", "tests/core/test_properties_plan.py", "tests/cli/test_letters.py"),
    *("tests/browser/test_hostile.py", "tests/cli/test_verify.py", "tests/cli/test_demo.py"),
    *("tests/cli/test_ingest.py", "tests/acceptance/test_access.py", "tests/flow/test_crashes.py"),
)


def scope_of(nodeid: str) -> str:
    """What a test shares its process with."""
    for scope, places in _PLACES.items():
        if nodeid.startswith(places):
            return scope
    file, _, name = nodeid.partition("::")
    return FIRESTORE if any(mark in name for mark in _NAMED) else file


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """xdist's own, with our scopes in our order."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        for scope in _LONGEST_FIRST:
            if scope in self.workqueue:
                self.workqueue.move_to_end(scope, last=False)
                break
        super()._assign_work_unit(node)


def scheduler(config: pytest.Config, log: object) -> Scheduling | None:
    """Ours, unless the command line asks for another way to distribute."""
    return Scheduling(config, log) if config.getvalue("dist") == "load" else None
