"""A view whose method returns a wrong type is told its class and the method, never a line of ours."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from millpond import DELETE, Latest, Merge, Tally
from millpond.core.errors import ViewError
from millpond.core.model import Outcome
from tests.common.pond import Pond, delivery

AT = 1_767_873_600_000_000


class Notes(Latest):
    """A healthy view; each test breaks one method of it."""

    topics = ("t",)
    collection = "notes"
    key = "id"

    def document(self, event: Any) -> Any:
        return {"id": event.require("id")}


class Parts(Merge):
    topics = ("t",)
    collection = "parts"
    key = "id"

    def fields(self, event: Any) -> Any:
        return {"id": event.require("id")}


class Sums(Tally):
    topics = ("t",)
    collection = "sums"
    key = "id"

    def fold(self, event: Any, current: Any) -> Any:
        return {**current, "n": current.get("n", 0) + event.integer("n", 1)}


def returning(base: type[Latest | Merge | Tally], method: str, value: Any, **attributes: Any) -> Any:
    """An object of a class `Broken` whose method returns the value."""
    return type("Broken", (base,), {method: lambda *_: value, **attributes})()


def error_of(view: Any) -> ViewError:
    pond = Pond([view])
    item = pond.route(delivery({"id": "s3cr3t"}, attributes={"topic": "t"}))
    if item.fault is None:
        (result,) = pond.send(item.delivery)
        assert (result.outcome, list(pond.state())) == (Outcome.RETRY, [])
        assert isinstance(result.error, ViewError)
        return result.error
    assert isinstance(item.fault, ViewError)
    return item.fault


DOCUMENT = "Broken.document() must return a dict, DELETE or None, not"
FIELDS = "Broken.fields() must return a dict or None, not"
FOLD = "Broken.fold() must return a dict, not"
KEY = "Broken.key_of() must return"
TIME = "an int, microseconds from 1970 to 2200"


@pytest.mark.parametrize(
    ("base", "method", "value", "text"),
    [
        (Notes, "document", [{"id": 1}], f"{DOCUMENT} list"),
        (Notes, "document", "text", f"{DOCUMENT} str"),
        (Notes, "document", True, f"{DOCUMENT} bool"),
        (Notes, "document", DELETE.__class__, f"{DOCUMENT} type"),
        (Parts, "fields", ["id"], f"{FIELDS} list"),
        (Parts, "fields", DELETE, f"{FIELDS} DELETE"),
        (Sums, "fold", None, f"{FOLD} None"),
        (Sums, "fold", [("n", 1)], f"{FOLD} list"),
        (Sums, "fold", [], f"{FOLD} list"),
        (Sums, "fold", DELETE, f"{FOLD} DELETE"),
        (Notes, "key_of", "abc", f"{KEY} a list or tuple of texts, not str"),
        (Notes, "key_of", None, f"{KEY} a list or tuple of texts, not None"),
        (Notes, "key_of", {"a"}, f"{KEY} a list or tuple of texts, not set"),
        (Notes, "key_of", ("a", 7), f"{KEY} texts, not int as part 2"),
        (Notes, "key_of", (None,), f"{KEY} texts, not None as part 1: raise InvalidEvent if the event lacks it"),
        (Notes, "key_of", (), f"{KEY} at least one text, not 0"),
        (Notes, "time_of", 1_767_873_600.5, f"Broken.time_of() must return {TIME}, or None, not float"),
        (Notes, "time_of", "2026-01-08", f"Broken.time_of() must return {TIME}, or None, not str"),
        (Notes, "time_of", True, f"Broken.time_of() must return {TIME}, or None, not bool"),
        (Notes, "time_of", -1, f"Broken.time_of() must return {TIME}, or None, not an int out of that range"),
        (
            Notes,
            "time_of",
            AT * 1_000,
            f"Broken.time_of() must return {TIME}, or None, not an int out of that range",
        ),
        (Notes, "identity_time_of", 1.5, f"Broken.identity_time_of() must return {TIME}, not float"),
        (Notes, "sequence_of", "7", "Broken.sequence_of() must return an int from 0 to 2^63-1, or None, not str"),
        (Notes, "sequence_of", 7.0, "Broken.sequence_of() must return an int from 0 to 2^63-1, or None, not float"),
        (Notes, "sequence_of", -1, "not an int out of that range"),
        (Notes, "sequence_of", 2**63, "not an int out of that range"),
        (Notes, "collection_of", None, "Broken.collection_of() must return text, not None"),
        (Notes, "collection_of", ("a",), "Broken.collection_of() must return text, not tuple"),
        (Notes, "id_of", 7, "Broken.id_of() must return text, not int"),
        (Notes, "id_of", ("a", "b"), "Broken.id_of() must return text, not tuple"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:20],
)
def test_a_wrong_return_names_class_and_method(base: Any, method: str, value: Any, text: str) -> None:
    """The message is retried, since a deploy may fix the view, and nothing is written."""
    error = error_of(returning(base, method, value))
    assert str(error).startswith("the view ")
    assert text in str(error)
    assert ".py" not in str(error)
    assert (error.detail, error.trace) == ("", "")


def test_a_late_time_of_a_wrong_type_is_named_too() -> None:
    error = error_of(returning(Notes, "late_time_of", None, late_after_s=60))
    assert f"Broken.late_time_of() must return {TIME}, not None" in str(error)


def test_a_single_key_has_one_part() -> None:
    error = error_of(returning(Notes, "key_of", ("a", "b"), single_key=True))
    assert "Broken.key_of() must return one text, because single_key is True, not 2" in str(error)


class Ordered(dict[str, Any]):
    """A dict of another class, such as Counter."""


@pytest.mark.parametrize(
    ("base", "method", "value"),
    [
        (Notes, "document", {}),
        (Notes, "document", Ordered(n=1)),
        (Notes, "document", None),
        (Notes, "document", DELETE),
        (Parts, "fields", {}),
        (Parts, "fields", None),
        (Parts, "fields", Ordered(n=1)),
        (Sums, "fold", Ordered(n=1)),
        (Notes, "wants", 0),
        (Notes, "wants", "yes"),
        (Notes, "key_of", ["a", "b"]),
        (Notes, "time_of", None),
        (Notes, "time_of", 0),
        (Notes, "time_of", AT),
        (Notes, "identity_time_of", None),
        (Notes, "sequence_of", 0),
        (Notes, "sequence_of", 2**63 - 1),
        (Notes, "collection_of", "notes/2026/days"),
        (Notes, "id_of", "an id"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:20],
)
def test_a_right_return_is_taken(base: Any, method: str, value: Any) -> None:
    (result,) = Pond([returning(base, method, value)]).send(delivery({"id": "a"}, attributes={"topic": "t"}))
    assert result.outcome in {Outcome.APPLIED, Outcome.FILTERED}


class Constant(Notes):
    ALWAYS: ClassVar[dict[str, Any]] = {"kind": "constant"}

    def document(self, event: Any) -> Any:
        return self.ALWAYS if event.get("constant") else event.payload


@pytest.mark.parametrize("payload", [{"id": "a"}, {"id": "a", "constant": True}], ids=repr)
def test_what_a_view_returns_is_copied(payload: dict[str, Any]) -> None:
    """`source` is added to the document, not to the payload that other views get, nor to a constant of the view."""
    view = Constant()
    view.retention_days = 1
    pond = Pond([view])
    item = pond.route(delivery(payload, attributes={"topic": "t"}))
    assert item.event is not None
    assert item.event.payload == payload
    assert Constant.ALWAYS == {"kind": "constant"}
    assert item.targets[0].content is not None
    assert "source" in item.targets[0].content
