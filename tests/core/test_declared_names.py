"""A misspelt name in a view is found; names that users add to their views are never refused."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from millpond import Latest, Merge, Tally
from millpond.core import declared_names
from millpond.core.declarations import check_declaration
from millpond.core.view import View
from tests.core.declared import declared, refusal

OWN = "(a name of your own begins with _)"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ({"tme": "at"}, f"tme is unknown: did you mean time? {OWN}"),
        ({"Time": "at"}, f"Time is unknown: did you mean time? {OWN}"),
        ({"lateAfterS": 5}, f"lateAfterS is unknown: did you mean late_after_s? {OWN}"),
        ({"retention": 5}, f"retention is unknown: did you mean retention_days? {OWN}"),
        ({"sequense": "n"}, f"sequense is unknown: did you mean sequence? {OWN}"),
        ({"partition": "n"}, f"partition is unknown: is it misspelt? {OWN}"),
        ({"topics": ..., "topic": ("orders",)}, f"topic is unknown: did you mean topics? {OWN}"),
        ({"collection": ..., "colection": "x"}, f"colection is unknown: did you mean collection? {OWN}"),
        ({"key": ..., "keys": ("a", "b")}, f"keys is unknown: did you mean key? {OWN}"),
        ({"document": ..., "documnt": lambda *_: {}}, f"documnt is unknown: did you mean document? {OWN}"),
        ({"key_off": lambda *_: ("a",)}, f"key_off is unknown: did you mean key_of? {OWN}"),
        ({"tiem_of": lambda *_: 1}, f"tiem_of is unknown: did you mean time_of? {OWN}"),
        ({"want": lambda *_: True}, f"want is unknown: did you mean wants? {OWN}"),
        ({"keyOf": lambda *_: ("a",)}, f"keyOf is unknown: did you mean key_of? {OWN}"),
        ({"ID_of": property(lambda _: "a")}, f"ID_of is unknown: did you mean id_of? {OWN}"),
        ({"sequense_off": lambda *_: 1}, f"sequense_off is unknown: did you mean sequence_of? {OWN}"),
        ({"documents": classmethod(lambda *_: {})}, f"documents is unknown: did you mean document? {OWN}"),
    ],
    ids=lambda value: next(reversed(value)) if isinstance(value, dict) else "",
)
def test_a_misspelt_name_is_refused(names: dict[str, Any], text: str) -> None:
    """It would be ignored in silence. What was probably meant is not reported as missing as well."""
    assert refusal(declared(**names)) == text


def test_what_a_constructor_misspells_is_refused() -> None:
    class Orders(Latest):
        collection = "orders"
        key = "orderId"

        def __init__(self) -> None:
            self.topcs = ("orders",)

        def document(self, event: Any) -> Any:
            return {"id": event.require("orderId")}

    assert refusal(Orders()) == f"topcs is unknown: did you mean topics? {OWN}"


def test_a_name_that_is_in_use_is_a_hint_for_one_that_is_missing() -> None:
    """`event.topic` and `payload.keys()` look like uses of the attributes `topic` and `keys`."""

    def document(_: Any, event: Any) -> Any:
        return dict.fromkeys(event.payload.keys(), event.topic)

    text = refusal(declared(topics=..., key=..., topic="orders", keys="orderId", document=document))
    assert 'needs topics, for example topics = ("orders",) (it has topic: did you mean topics?)' in text
    assert 'needs key, for example key = "orderId" (it has keys: did you mean key?)' in text


# --- views that have names of their own, and are never refused ----------------------------------------------------


class Priced:
    """A mixin of another library, with names of its own."""

    currency = "EUR"
    timers = ()

    def price(self, event: Any) -> Decimal:
        return event.decimal("price", Decimal(0))  # type: ignore[no-any-return]


class Helped(Priced, Latest):
    """Names of every kind that a user may add."""

    topics = ["orders"]  # noqa: RUF012 - users write lists
    collection = "orders/eu/daily"
    key = ("region", "orderId")
    time = ["at", "envelope.ts?"]  # type: ignore[assignment]  # noqa: RUF012
    late_after_s = 0
    retention_days = 0.5
    RATE = Decimal("1.2")
    TOPIC = "orders"
    _tme = "private"
    region = "eu"
    times = 3
    suffix = "used by a cached property"
    annotated: str

    class Meta:
        verbose = True

    def __init__(self) -> None:
        self.rates = {"eu": 1}
        self._cache: dict[str, str] = {}
        self.key_off = "used by document"

    def document(self, event: Any) -> Any:
        return {"cents": self.cents(event), "region": self.region, "n": self.times, "k": self.key_off}

    def cents(self, event: Any) -> int:
        return int(self.price(event) * 100)

    def fields(self, event: Any) -> Any:
        """Of another kind, but for `wants` here."""
        return list(event.payload)

    def wants(self, event: Any) -> bool:
        return bool(self.fields(event)) and self.id_off is not None

    @functools.cached_property
    def id_off(self) -> str:
        return f"used by wants {self.suffix}"

    @property
    def rate(self) -> Decimal:
        return self.RATE

    @staticmethod
    def line_of(event: Any) -> str:
        return str(event)

    @classmethod
    def date_of(cls, event: Any) -> str:
        return f"{event}"

    def orders(self, event: Any) -> Any:
        return event

    def names(self) -> list[str]:
        return []

    def uses(self) -> list[str]:
        return [self.uid_of(key) for key in self._cache]

    def uid_of(self, text: str) -> str:
        return text


@dataclass
class Configured(Latest):
    """Parameters as a dataclass, one of which is close to a known name."""

    times: int = 3
    region: str = "eu"
    topics = ("orders",)
    collection = "orders"
    key = "orderId"

    def document(self, event: Any) -> Any:
        return {"id": event.require("orderId")}


@dataclass(repr=False, eq=False)
class Quiet(Latest):
    """No method mentions its field."""

    times: int = 3
    topics = ("orders",)
    collection = "orders"
    key = "orderId"

    def document(self, event: Any) -> Any:
        return {"id": event.require("orderId")}


def logged(method: Any) -> Any:
    """A decorator that passes one argument more."""

    @functools.wraps(method)
    def wrapper(self: Any, event: Any) -> Any:
        return method(self, event, "extra")

    return wrapper


class Decorated(Latest):
    region = "used by a decorated method"
    topics = ("orders",)
    collection = "orders"

    @property
    def event_types(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("order.created",)

    @logged
    def document(self, event: Any, extra: str) -> Any:
        return {"extra": extra, "id": event.require("orderId"), "region": self.region}

    def key_of(self, event: Any, prefix: str = "o") -> Any:
        return (prefix, event.require("orderId"))

    def id_of(self, *arguments: Any) -> str:
        return str(arguments)


class Static(Tally):
    """As a linter suggests for methods that do not use `self`."""

    topics = ("orders",)
    collection = "orders"

    @staticmethod
    def fold(event: Any, current: Any) -> Any:
        return {"n": current.get("n", 0) + event.integer("n", 1)}

    @classmethod
    def key_of(cls, e: Any) -> Any:
        return [cls.__name__, e.require("id")]


class Inherited(Helped):
    """Overrides one method of a view that is complete."""

    name = "inherited"

    def cents(self, event: Any) -> int:
        return super().cents(event) + self.times


@pytest.mark.parametrize(
    "view",
    [
        *(Helped(), Configured(), Configured(5, "us"), Quiet(), Decorated(), Static(), Inherited()),
        *(declared(), declared(Merge), declared(Tally), declared(time=("at",), sequence="n", single_key=False)),
        declared(wants=lambda *_: True, key=..., id_of=lambda *_: "all"),
        declared(name="own-name.1", collection="a/b/c", event_types=["order.created"], ingested_at=True),
    ],
    ids=lambda view: type(view).__name__,
)
def test_a_healthy_view_with_names_of_its_own_is_never_refused(view: Any) -> None:
    check_declaration(view)
    assert view.name
    assert isinstance(view.time, str | tuple)
    # And again: an object may be given to two ponds.
    check_declaration(view)


def test_a_new_attribute_of_views_is_known_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known names and types are read from the classes, so that they cannot be forgotten here."""
    for name in ("topics", "adopt", "stamp_prefix", "document", "has_single_key", "kind"):
        assert name in declared_names.NAMES_OF[Latest]
    assert "fold" not in declared_names.NAMES_OF[Latest]
    monkeypatch.setitem(View.__annotations__, "colour", "str")
    monkeypatch.setattr(View, "colour", "", raising=False)
    known = {kind: names | {"colour"} for kind, names in declared_names.NAMES_OF.items()}
    monkeypatch.setattr(declared_names, "NAMES_OF", known)
    check_declaration(declared(colour="red"))
    assert refusal(declared(colour=True)) == "colour must be text, not bool"
