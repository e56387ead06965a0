"""The store, the clock and the TTL policies where STORE=firestore.

The emulator has no TTL policies and no administration: those calls go to a server of the test's own.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from google.cloud.firestore_admin_v1.types import Field

from millpond.cli import run
from millpond.core.model import Committed, Put, Ref
from millpond.doctor import firestore as firestore_check
from millpond.doctor.examination import examine
from millpond.doctor.findings import Finding, State
from millpond.service.stores import open_store
from millpond.settings import load
from tests.doctor.administration import ask, environment
from tests.doctor.support import texts

State_ = Field.TtlConfig.State


def test_a_store_on_firestore(firestore_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers, its clock is ours, and what the emulator cannot say is said, with the command that can."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", firestore_emulator)
    found = asyncio.run(examine(environment(project), {}, ()))
    assert texts(found, State.PROBLEM) == []
    by_check = {finding.check: finding for finding in found}
    assert "the event log is on" in by_check["store"].found
    assert "Firestore's" in by_check["clock"].found
    assert by_check["clock"].state is State.OK
    assert by_check["expiry"].state is State.UNCHECKED
    assert (
        by_check["expiry"].advice == f"gcloud firestore fields ttls list --project={project} --database='(default)'"
    )


def test_ids_of_an_earlier_build_on_firestore(
    firestore_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Doctor names them; the command moves them by the same commits, and finds none the second time."""
    names = environment(project, FIRESTORE_EMULATOR_HOST=firestore_emulator)
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    newer, older = {"source": {"stamp": "2"}, "status": "new"}, {"source": {"stamp": "1"}, "status": "old"}
    at_first = {"strat_%5FSPY_%5F1": newer, "x%5F": older, "x_": newer, "a%2Fb": older}

    async def fill() -> None:
        store = open_store(load(names))
        writes = [Put(Ref("ingest_pipelines", name), None, data) for name, data in at_first.items()]
        assert isinstance(await store.commit(writes), Committed)
        await store.close()

    async def contents() -> dict[str, Any]:
        store = open_store(load(names))
        found = await store.list_documents("ingest_pipelines", 10, None)
        await store.close()
        return {snapshot.ref.id: snapshot.data for snapshot in found}

    def ids_found() -> list[Finding]:
        return [finding for finding in asyncio.run(examine(names, {}, ())) if finding.check == "ids"]

    asyncio.run(fill())
    assert [finding.found.split(" lie")[0] for finding in ids_found()] == ["ingest_pipelines: 2 documents"]
    assert run(["move-ids", "--dry-run"]) == 0
    assert asyncio.run(contents()) == at_first
    assert run(["move-ids", "--yes"]) == 0
    assert asyncio.run(contents()) == {"strat__SPY__1": newer, "x_": newer, "a%2Fb": older}
    capsys.readouterr()
    assert run(["move-ids", "--yes"]) == 0
    assert capsys.readouterr().out == "No document has an id that an earlier build escaped.\n"
    assert [finding.state for finding in ids_found()] == [State.OK]


def test_a_store_on_firestore_that_is_away(project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A problem, in one line, and the rest is looked at."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", "127.0.0.1:9")
    found = asyncio.run(examine(environment(project, FIRESTORE_RPC_DEADLINE_S="1"), {}, ()))
    (away,) = texts(found, State.PROBLEM)
    assert "Firestore, reading" in away
    assert found[-1].check == "disk"


def test_no_credentials_on_firestore(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot start without; the rest is looked at."""
    monkeypatch.delenv("FIRESTORE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
    found = asyncio.run(examine(environment("p"), {}, ()))
    (denied,) = texts(found, State.PROBLEM)
    assert "no credentials for Google Cloud" in denied
    assert found[-1].check == "disk"


def test_which_collections_expire_on_firestore() -> None:
    """Receipts, letters and their parts; the history; views and the event log if they do; each with its prefix."""
    plain = firestore_check.expiring_collections(load(environment("p")))
    assert plain == ["ops_dedupe", "dead_letters", "ops_history", "market_ticks", "parts"]
    more = environment(
        "p", EVENT_LOG="on", EVENT_LOG_TTL_DAYS="30", FIRESTORE_COLLECTION_PREFIX="x_", HISTORY="off"
    )
    assert firestore_check.expiring_collections(load(more)) == [
        "x_ops_dedupe",
        "x_dead_letters",
        "x_millpond_event_segments",
        "x_millpond_event_log",
        "x_market_ticks",
        "parts",
    ]


def look(policies: dict[str, Any]) -> tuple[list[Finding], list[str]]:
    """What is found if the collections have these TTL policies."""

    def known(collection: str, path: str) -> Field | grpc.StatusCode:
        assert path == "expireAt"
        state = policies[collection]
        if isinstance(state, grpc.StatusCode):
            return state
        return Field() if state is None else Field(ttl_config=Field.TtlConfig(state=state))

    settings = load(environment("p"))
    return ask(known, lambda channel: firestore_check.look_at_policies(settings, channel, list(policies)))


def test_ttl_policies_that_are_active_on_firestore() -> None:
    """One line for all of them, and each was asked for by its full name."""
    found, asked = look({"ops_dedupe": State_.ACTIVE, "dead_letters": State_.ACTIVE})
    assert [finding.state for finding in found] == [State.OK]
    assert asked[0] == "projects/p/databases/(default)/collectionGroups/ops_dedupe/fields/expireAt"


@pytest.mark.parametrize(
    ("state", "verdict", "words"),
    [
        (None, State.PROBLEM, "has no TTL policy"),
        (State_.STATE_UNSPECIFIED, State.PROBLEM, "has no TTL policy"),
        (State_.NEEDS_REPAIR, State.PROBLEM, "NEEDS_REPAIR"),
        (State_.CREATING, State.WARNING, "still being made"),
        (grpc.StatusCode.NOT_FOUND, State.PROBLEM, "there is no database"),
        (grpc.StatusCode.PERMISSION_DENIED, State.UNCHECKED, "roles/datastore.viewer"),
        (grpc.StatusCode.UNAVAILABLE, State.UNCHECKED, "no"),
    ],
)
def test_each_state_of_a_ttl_policy_on_firestore(state: Any, verdict: State, words: str) -> None:
    """What is wrong with one is said of that one; the command to mend it names it."""
    found, _ = look({"dead_letters": State_.ACTIVE, "market_ticks": state})
    (finding,) = found
    assert finding.state is verdict
    assert words in finding.found
    if "policy" in words:
        assert "update expireAt --collection-group=market_ticks --enable-ttl --project=p" in finding.advice
