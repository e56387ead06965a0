"""The store, the clock and the TTL policies where STORE=firestore.

The emulator has no TTL policies and no administration: those calls go to a gRPC server of the test's own, which
speaks the service's protocol.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from google.cloud.firestore_admin_v1.types import Field, GetFieldRequest

from millpond.cli import run
from millpond.core.model import Committed, Put, Ref
from millpond.doctor import firestore as firestore_check
from millpond.doctor.examination import examine
from millpond.doctor.findings import Finding, State
from millpond.service.stores import open_store
from millpond.settings import load
from tests.doctor.support import texts

State_ = Field.TtlConfig.State
NAMES = {"STORE": "firestore", "ENV": "test", "SYSTEM_EVENTS_TOPIC": "system.events", "DEFAULT_REGION": "here"}


def environment(project: str, **more: str) -> dict[str, str]:
    return {**NAMES, "GCP_PROJECT": project, **more}


def test_a_store_on_firestore(firestore_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers, its clock is ours, and what the emulator cannot say is said, with the command that can."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", firestore_emulator)
    found = asyncio.run(examine(environment(project), {}, ()))
    assert texts(found, State.PROBLEM) == []
    by_check = {finding.check: finding for finding in found}
    assert "the event log is off" in by_check["store"].found
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
    """Receipts, letters and their parts; views that say so; the event log where it does; each with its prefix."""
    plain = firestore_check.expiring_collections(load(environment("p")))
    assert plain == ["ops_dedupe", "dead_letters", "market_ticks", "parts"]
    more = environment("p", EVENT_LOG="on", EVENT_LOG_TTL_DAYS="30", FIRESTORE_COLLECTION_PREFIX="x_")
    assert "x_millpond_event_log" in firestore_check.expiring_collections(load(more))
    assert "x_ops_dedupe" in firestore_check.expiring_collections(load(more))
    assert "parts" in firestore_check.expiring_collections(load(more))


class Administration(grpc.GenericRpcHandler):
    """`google.firestore.admin.v1.FirestoreAdmin/GetField`, with these policies; a status code is an error."""

    def __init__(self, policies: dict[str, Any]) -> None:
        self._policies = policies
        self.asked: list[str] = []

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        assert handler_call_details.method == "/google.firestore.admin.v1.FirestoreAdmin/GetField"
        return grpc.unary_unary_rpc_method_handler(
            self._get_field, request_deserializer=GetFieldRequest.deserialize, response_serializer=Field.serialize
        )

    async def _get_field(self, request: GetFieldRequest, context: Any) -> Field:
        self.asked.append(request.name)
        state = self._policies[request.name.split("/collectionGroups/")[1].split("/")[0]]
        if isinstance(state, grpc.StatusCode):
            await context.abort(state, "no")
        field = Field(name=request.name)
        if state is not None:
            field.ttl_config = Field.TtlConfig(state=state)
        return field


def look(policies: dict[str, Any]) -> tuple[list[Finding], list[str]]:
    async def run() -> tuple[list[Finding], list[str]]:
        administration = Administration(policies)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers([administration])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        found = await firestore_check.look_at_policies(load(environment("p")), channel, list(policies))
        await server.stop(None)
        return found, administration.asked

    return asyncio.run(run())


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
