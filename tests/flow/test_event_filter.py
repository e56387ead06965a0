"""The fast filter: which events are updates of a flow run, and of which, as they come over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from millpond.flow.event_filter import EventData, EventFilter, Filtered, FlowEvent
from millpond.ingress.cloudevent import decode_http
from tests.common.eventarc import DATABASE, FORMS, UPDATED, Form, attributes, binary, full_name

RUN = {"steps": {"a": {"status": "READY", "stepType": "GREET"}}}
OTHER_DATABASES = ("projects/elsewhere/databases/(default)", "projects/documents/databases/documents")

NO_DATA = EventData(None, None)


def read(data: EventData = NO_DATA, prefix: str = "", **given: Any) -> FlowEvent | Filtered:
    """What the filter makes of these attributes, and of a document that was decoded already."""
    return EventFilter(prefix).read(attributes(**given), lambda: data)


def run_id_of(event: FlowEvent | Filtered) -> str:
    assert isinstance(event, FlowEvent), event
    return event.run_id


def why_not(event: FlowEvent | Filtered) -> str:
    assert isinstance(event, Filtered), event
    return event.text


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_an_update_of_a_run(form: Form) -> None:
    """The run's id, the event's own id, type and subject, and the run as the event shows it."""
    sent = form(RUN, full_name("run-1"), attributes(subject="documents/flow_runs/run-1"))
    event = EventFilter().read(*decode_http(sent.raw_headers, sent.body))
    assert event == FlowEvent(
        run_id="run-1", id="event-1", type=UPDATED, subject="documents/flow_runs/run-1", document=RUN
    )


@pytest.mark.parametrize(
    ("event_type", "is_update"),
    [
        (UPDATED, True),
        (f"{UPDATED}.withAuthContext", True),
        *((UPDATED.replace("updated", kind), False) for kind in ("created", "deleted", "written", "Updated")),
        (f"{UPDATED.replace('updated', 'created')}.withAuthContext", False),
        (f"{UPDATED}.withauthcontext", False),
        ("google.cloud.datastore.entity.v1.updated", False),
        ("google.cloud.pubsub.topic.v1.messagePublished", False),
    ],
)
def test_types(event_type: str, is_update: bool) -> None:
    """Updates only, with or without who made them; what was created or deleted is no update."""
    event = read(type=event_type, subject="documents/flow_runs/run-1")
    assert isinstance(event, FlowEvent) is is_update
    assert event.type == event_type


@pytest.mark.parametrize(
    "form",
    ["documents/flow_runs/{}", "flow_runs/{}", *(f"{base}/documents/flow_runs/{{}}" for base in OTHER_DATABASES)],
)
@pytest.mark.parametrize(
    "run_id", ["run-1", "a b", "é😀", "100%", "%2F", "a+b", "documents", "flow_runs", ".x", "\n"]
)
def test_names_of_a_run(form: str, run_id: str) -> None:
    """With and without what stands before, of any project and database, and with any id a document may have."""
    name = form.format(run_id)
    assert run_id_of(read(subject=name)) == run_id
    assert run_id_of(read(document=name)) == run_id
    assert run_id_of(read(data=EventData(name, RUN))) == run_id


OTHERS = [
    *("documents/other/run-1", "documents/flow_runs", "documents/flow_runs/", "flow_runs", "flow_runs/"),
    *("documents/flow_runs/run-1/steps/a", "documents/flow_runs/run-1/", "documents/flow_runs//run-1"),
    *("documents/Flow_runs/run-1", "documents/my_flow_runs/run-1", "documents/flow_runs_old/run-1"),
    *("documents/other/x/flow_runs/run-1", "documents//flow_runs/run-1", "x", "/", "documents", "documents/"),
    f"{DATABASE}/documents/other/documents/flow_runs/run-1",
    f"{DATABASE}/documents/flow_runs/run-1/documents/flow_runs",
    "documents/other/documents/flow_runs/run-1",
]


@pytest.mark.parametrize("name", OTHERS)
def test_names_of_anything_else(name: str) -> None:
    """Other collections, sub-collections, and names without an id are none of a run."""
    for event in (read(subject=name), read(document=name), read(data=EventData(name, RUN))):
        assert why_not(event) == "not a document of flow_runs"
        assert event.run_id is None
        assert event.id == "event-1"


def test_the_collection_has_the_prefix_of_the_settings() -> None:
    """With a prefix only the collection of that name counts, and without one only the plain one."""
    assert run_id_of(read(prefix="test_", subject="documents/test_flow_runs/run-1")) == "run-1"
    assert why_not(read(prefix="test_", subject="documents/flow_runs/run-1")) == "not a document of test_flow_runs"
    assert why_not(read(subject="documents/test_flow_runs/run-1")) == "not a document of flow_runs"


def test_an_event_that_names_nothing() -> None:
    """Neither in its attributes nor in its data: it is filtered, and says so."""
    assert why_not(read()) == "names no document"
    assert why_not(read(data=EventData(None, RUN))) == "names no document"
    assert why_not(read(subject="", document="")) == "names no document"


def test_names_that_disagree() -> None:
    """The document's own name counts, and no name of an event may be another collection's."""
    runs: dict[str, Any] = {"subject": "documents/flow_runs/of-subject", "document": "flow_runs/of-document"}
    named = EventData(full_name("of-data"), RUN)
    assert run_id_of(read(data=named, **runs)) == "of-data"
    assert run_id_of(read(data=named, subject=runs["subject"])) == "of-data"
    assert run_id_of(read(**runs)) == "of-document"
    for name in runs:
        assert why_not(read(data=named, **{**runs, name: "documents/other/x"})) == "not a document of flow_runs"
    elsewhere = EventData(f"{DATABASE}/documents/other/x", RUN)
    assert why_not(read(data=elsewhere, **runs)) == "not a document of flow_runs"


def test_an_escaped_name_in_a_header() -> None:
    """A header's escapes are read, and an id that looks escaped in the data is taken as it is."""
    sent = binary(b"", None, attributes(subject="documents/flow_runs/%C3%A9%20100%25"))
    assert run_id_of(EventFilter().read(*decode_http(sent.raw_headers, sent.body))) == "é 100%"
    sent = FORMS["binary protobuf"](RUN, full_name("%C3%A9"), attributes(subject="documents/flow_runs/%C3%A9"))
    assert run_id_of(EventFilter().read(*decode_http(sent.raw_headers, sent.body))) == "%C3%A9"


def test_what_is_ruled_out_is_not_decoded() -> None:
    """The data of an event that its attributes rule out is never looked at."""

    def load() -> EventData:
        raise AssertionError("the data was decoded")

    for given in ({"type": "other"}, {"subject": "documents/other/x"}, {"document": "other/x"}):
        assert isinstance(EventFilter().read(attributes(**given), load), Filtered)
