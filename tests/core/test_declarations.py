"""A view that is declared wrongly is refused when it is loaded, with its class and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from millpond import Latest, Merge, Tally, View
from millpond.core.declarations import check_declaration, check_declarations
from millpond.core.errors import SettingsError
from tests.core.declared import declared, function, refusal


@pytest.mark.parametrize(
    ("base", "names", "text"),
    [
        (
            Latest,
            {"document": ..., "fields": lambda *_: {}},
            "fields() is a method of Merge, and this is a Latest: subclass Merge, or rename it",
        ),
        (Merge, {"fold": lambda *_: {}}, "fold() is a method of Tally, and this is a Merge"),
        (Tally, {"document": lambda *_: {}}, "document() is a method of Latest, and this is a Tally"),
        (Latest, {"document": ...}, "must define document(self, event)"),
        (Merge, {"fields": ...}, "must define fields(self, event)"),
        (Tally, {"fold": ...}, "must define fold(self, event, current)"),
        (Latest, {"kind": "merge"}, "kind is set by Latest: leave it out, or subclass another of Latest, Merge"),
        (Tally, {"receipts": False}, "is a tally, which needs receipts = True: without, an event may count twice"),
        (Latest, {"order": "second"}, "order needs adopt: documents with stamps of another rule are adopted"),
        (Tally, {"adopt": "updatedAt"}, "is a tally, which cannot adopt: it would count again"),
        (Tally, {"adopt": lambda _self, _document: None}, "is a tally, which cannot adopt: it would count again"),
        (Tally, {"retention_days": 7}, "is a tally, whose documents do not expire: leave retention_days out"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_kind_has_its_own_method(base: type[View], names: dict[str, Any], text: str) -> None:
    assert refusal(declared(base, **names)).startswith(text)


def test_an_object_of_no_kind_is_refused() -> None:
    class Both(Latest, Merge):
        pass

    class Neither(View):
        pass

    assert refusal(Both()) == "is no view: subclass one of Latest, Merge or Tally, not Latest and Merge"
    none: list[Any] = [Neither(), {}, None, "orders"]
    for wrong in none:
        assert refusal(wrong) == "is no view: subclass one of Latest, Merge or Tally"
    with pytest.raises(SettingsError, match=r"is a class, not a view: give an object, Both\(\)"):
        check_declaration(Both)


@pytest.mark.parametrize(
    "names",
    [
        {"adopt": "updatedAt"},
        {"adopt": ("updatedAt", "createdAt")},
        {"adopt": lambda _self, _document: None},
        {"existing": "replace"},
    ],
    ids=["a field", "fields", "a method", "replace"],
)
def test_a_view_says_what_to_do_with_documents_that_are_there(names: dict[str, Any]) -> None:
    check_declaration(declared(Latest, **names))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ({"topics": ...}, 'needs topics, for example topics = ("orders",)'),
        ({"topics": ()}, 'needs topics, for example topics = ("orders",)'),
        ({"topics": "orders"}, 'topics must be a tuple, not text: write topics = ("orders",)'),
        ({"topics": None}, 'topics must be a tuple of texts, such as ("orders",), not None'),
        ({"topics": {"orders"}}, 'topics must be a tuple of texts, such as ("orders",), not set'),
        ({"topics": 7}, 'topics must be a tuple of texts, such as ("orders",), not int'),
        ({"topics": ("orders", 7)}, 'topics must hold texts, such as ("orders",), not int'),
        ({"topics": (Decimal,)}, 'topics must hold texts, such as ("orders",), not the class Decimal'),
        ({"topics": ("orders", " ")}, "topics holds a blank name"),
        ({"topics": ("orders", "orders")}, 'topics holds "orders" twice'),
        (
            {"topics": ["projects/p/topics/x"]},
            'topics must be without path and white space: "x", not \'projects/p/',
        ),
        ({"topics": ["x "]}, "topics must be without path and white space: \"x\", not 'x '"),
        ({"event_types": "a.b"}, 'event_types must be a tuple, not text: write event_types = ("a.b",)'),
        ({"event_types": (1,)}, 'event_types must hold texts, such as ("order.created",), not int'),
        ({"collection": ...}, 'needs collection, for example collection = "orders"'),
        ({"collection": None}, "collection must be text, not None"),
        ({"collection": "a/b"}, "collection must be a path with an odd number of parts, such as \"a\", not 'a/b'"),
        ({"collection": "/orders"}, "collection must be a path with an odd number of parts"),
        ({"collection": "a//c"}, "collection must begin with a letter and have letters, digits"),
        ({"collection": "a/__b__/c"}, "collection must begin with a letter"),
        ({"collection": "1st"}, "collection must begin with a letter"),
        ({"collection": "mine and yours"}, "collection must begin with a letter"),
        ({"name": "a b"}, "name must begin with a letter"),
        ({"name": 7}, "name must be text, not int"),
        ({"key": ...}, 'needs key, for example key = "orderId"'),
        ({"key": ()}, 'needs key, for example key = "orderId"'),
        ({"key": []}, 'needs key, for example key = "orderId"'),
        ({"key": ""}, "key holds a blank name"),
        ({"key": ("a", " ")}, "key holds a blank name"),
        ({"key": {"a", "b"}}, 'key must be a field\'s name, or a tuple of names, such as key = "orderId", not set'),
        ({"key": 7}, 'key must be a field\'s name, or a tuple of names, such as key = "orderId", not int'),
        ({"key": ("a", 7)}, "key must hold names of fields, not int"),
        ({"key": "envelope.id"}, "key names fields of the payload only, not 'envelope.id': override key_of(event)"),
        ({"key": "id?"}, "key names fields of the payload only, not 'id?'"),
        ({"key": lambda *_: "a"}, "key must be a value, not a method: did you mean key_of()?"),
        ({"time": lambda *_: 1}, "time must be a value, not a method: did you mean time_of()?"),
        ({"topics": lambda *_: ("a",)}, "topics must be a value, not a method"),
        ({"time": None}, 'time must be a field\'s name, or a tuple of names, such as time = "updatedAt", not None'),
        ({"time": ""}, "time holds a blank name"),
        ({"time": ("at", 7)}, "time must hold names of fields, not int"),
        ({"time": "envelope."}, "time must name a field, not 'envelope.'"),
        ({"time": "?"}, "time must name a field, not '?'"),
        ({"sequence": 7}, 'sequence must be a field\'s name, or a tuple of names, such as sequence = "version"'),
        ({"sequence_first": "yes"}, "sequence_first must be True or False, not text"),
        ({"sequence_first": 1}, "sequence_first must be True or False, not int"),
        ({"single_key": "yes"}, "single_key must be True or False, not text"),
        ({"receipts": None}, "receipts must be True or False, not None"),
        ({"one_per_event": 0}, "one_per_event must be True or False, not int"),
        ({"ingested_at": "at"}, "ingested_at must be True or False, not text"),
        ({"order": 7}, "order must be text, not int"),
        ({"late_after_s": "900"}, "late_after_s must be a number from 0, or None for no limit, not text"),
        ({"late_after_s": -1}, "late_after_s must be a number from 0, or None for no limit, not -1"),
        ({"late_after_s": float("nan")}, "late_after_s must be a number from 0, or None for no limit, not nan"),
        ({"late_after_s": True}, "late_after_s must be a number from 0, or None for no limit, not bool"),
        ({"retention_days": 0}, "retention_days must be a number over 0 and up to 36,500, or None for ever, not 0"),
        (
            {"retention_days": "7"},
            "retention_days must be a number over 0 and up to 36,500, or None for ever, not text",
        ),
        ({"retention_days": 10**9}, "retention_days must be a number over 0 and up to 36,500"),
        ({"adopt": 7}, 'adopt must be a field\'s name, or a tuple of names, such as adopt = "updatedAt", not int'),
        ({"adopt": ("a", None)}, "adopt must hold names of fields, not None"),
        ({"adopt": ""}, "adopt holds a blank name"),
        ({"adopt": lambda _self: None}, "adopt must be a method with one argument, def adopt(self, document)"),
        ({"existing": "overwrite"}, 'existing must be "replace", or be left out'),
        ({"existing": True}, 'existing must be "replace", or be left out'),
        ({"topics": property(lambda _: 1 / 0)}, "topics cannot be read: ZeroDivisionError: division by zero"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_value_is_refused(names: dict[str, Any], text: str) -> None:
    found = refusal(declared(**names))
    assert found.startswith(text)
    assert ";" not in found, "one mistake is reported once"


def test_all_mistakes_of_a_view_are_in_one_error() -> None:
    text = refusal(
        declared(tme="at", key=..., topics="orders", late_after_s="5", document=function("def document(self): ..."))
    )
    assert len(text.split("; ")) == 5, text


# --- several views ------------------------------------------------------------------------------------------------


def refused(*views: Any, **more: Any) -> str:
    with pytest.raises(SettingsError) as error:
        check_declarations(views, **more)
    return str(error.value)


def test_a_collection_belongs_to_one_view() -> None:
    """Also what is below it; the error names the view that has it."""
    here = declared.__module__
    for other in ("orders", "orders/eu/daily"):
        text = refused(declared(), declared(name="second", collection=other))
        expected = f"VIEWS={here}.Orders: writes to orders, which is taken: it belongs to the view {here}.Orders"
        assert text == expected
    own = refused(declared(collection="dead_letters"))
    assert own.endswith("writes to dead_letters, which is taken: it belongs to Millpond itself")


def test_a_name_belongs_to_one_view() -> None:
    text = refused(declared(name="a"), declared(name="a", collection="b"))
    assert text.endswith(f'is named "a", and so is {declared.__module__}.Orders: set name')
    assert "is named" in refused(declared(name="b"), declared(collection="b"))


def test_an_event_type_stands_for_one_topic() -> None:
    """Messages with it would all go to the other view."""
    first = declared(topics=("a",), event_types=("x",))
    text = refused(first, declared(topics=("b",), collection="b", event_types=("x",)))
    assert 'event_types has "x", which stands for "a" already, by ' in text
    is_topic = 'event_types has "x", which is a topic: '
    assert is_topic in refused(first, declared(topics=("x",), collection="b"))
    assert is_topic in refused(declared(topics=("x",), collection="b"), first)
    check_declarations(
        [
            first,
            declared(topics=("a",), collection="b", event_types=("x",)),
            declared(topics=("b", "a"), collection="c", event_types=("x", "a")),
        ]
    )


def test_a_tally_needs_logical_receipts() -> None:
    assert "needs RECEIPTS=all or tallies" in refused(declared(Tally), receipts_by_message=True)
    check_declarations([declared(Latest)], receipts_by_message=True)


def test_the_error_names_the_place_that_the_views_are_from() -> None:
    assert refused(declared(tme=1), setting="views").startswith(
        f"views={declared.__module__}.Orders: tme is unknown"
    )
    assert refused("orders", setting="views").startswith("views=builtins.str: is no view")


def test_a_frozen_view_is_told_what_to_declare() -> None:
    @dataclass(frozen=True)
    class Frozen(Latest):
        topics = ("orders",)
        collection = "orders"
        key = "orderId"

        def document(self, event: Any) -> Any:
            return {"id": event.require("orderId")}

    assert "does not let its name be set: declare name = 'orders'" in refused(Frozen())
