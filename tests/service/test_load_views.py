"""The modules in VIEWS: what is loaded from one, and what is said about one that cannot be loaded."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millpond import Latest
from millpond import settings as settings_module
from millpond.core.errors import SettingsError
from millpond.core.view import View
from millpond.service.views import built_in_views, check_views, load_views

ORDERS = """
from millpond import Latest

class Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"

    def document(self, event):
        return {"orderId": event.require("orderId")}
"""
_numbers = itertools.count()
Load = Callable[[str], list[View]]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load a module with this text, and return its own views."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(text: str) -> list[View]:
        name = f"shop{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(text)
        found = settings_module.load({"STORE": "memory", "VIEWS": name})
        return [view for view in load_views(found) if type(view).__module__ == name]

    return load


def refusal(load: Load, text: str) -> str:
    """The error without the number of the module."""
    with pytest.raises(SettingsError) as error:
        load(text)
    head, _, rest = str(error.value).partition("shop")
    return head + "shop" + rest.lstrip("0123456789")


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"OPS_SERVICE_ID": "service", "BARS_ID": "event", "SIGNALS_ID": "event", "TICK_HISTORY": "off"},
        {"BARS_ID": "nested", "TICKS_MAX_LATE_S": "0", "BARS_MAX_BACKFILL_DAYS": "2", "ENV": "prod"},
    ],
    ids=str,
)
def test_the_built_in_views_and_the_examples_are_declared_rightly(more: dict[str, str]) -> None:
    views = "examples.parcels,examples.turnstiles,millpond.sim.views"
    found = settings_module.load({"STORE": "memory", "VIEWS": views, **more})
    assert len(load_views(found)) == len(built_in_views(found)) + 5


def test_each_class_of_a_module_is_loaded(load: Load) -> None:
    """An alias is no second view; neither is an imported class, nor a private base of another view."""
    text = ORDERS.replace("class Orders", "class _Base") + (
        "\nclass Orders(_Base):\n    pass\n\nclass Big(_Base):\n    collection = 'big'\n"
        "\nAlias = Big\nfrom tests.cli import orders\nfrom millpond.sim.views import Doors\n"
    )
    assert [type(view).__name__ for view in load(text)] == ["Orders", "Big"]
    assert [view.name for view in load(ORDERS.replace("Orders", "_Orders"))] == ["orders"]


def test_a_function_may_return_the_views(load: Load) -> None:
    """With the settings at hand; a list or a tuple."""
    text = ORDERS.replace("(Latest):", "(Latest):\n    def __init__(self, env):\n        self._env = env\n")
    for returned in ("[Orders(settings.env)]", "(Orders(settings.env),)"):
        (view,) = load(f"{text}\ndef views(settings):\n    return {returned}\n")
        assert view.__dict__["_env"] == "dev"


@pytest.mark.parametrize(
    ("tail", "text"),
    [
        ("views = [Orders()]", "VIEWS=shop: views must be a function, def views(settings): return [...]"),
        ("def views(): return [Orders()]", "VIEWS=shop: views must be a function, def views(settings)"),
        ("async def views(settings): return [Orders()]", "(it must not be async)"),
        ("def views(settings): [Orders()]", "views(settings) must return a list of views, not NoneType"),
        ("def views(settings): return Orders()", "views(settings) must return a list of views, not Orders"),
        ("def views(settings): yield Orders()", "views(settings) must return a list of views, not generator"),
        ("def views(settings): return [1 / 0]", "views(settings) raised ZeroDivisionError: division by zero"),
        ("def views(settings): return []", "VIEWS=shop: defines no view"),
        ("def views(settings): return [Orders]", ".Orders: is a class, not a view: give an object, Orders()"),
        ("def views(settings): return [Orders(), None]", "VIEWS=builtins.NoneType: is no view"),
        ("del Orders", "VIEWS=shop: defines no view: subclass millpond.Latest, Merge or Tally in it"),
        ("Orders.tme = 'at'", ".Orders: tme is unknown: did you mean time?"),
        ("Orders.collection = 'market_ticks'", "it belongs to the view millpond.views.ticks.TickHistory"),
        (
            "Orders.event_types = ('market.tick',)",
            'which stands for "market-ticks" already, by millpond.views.ticks.',
        ),
        (
            "Orders.event_types = ('trade-signals',)",
            "which is a topic: millpond.views.signals.TradeSignals feeds on it",
        ),
        ("Orders.name = 'trade_signals'", "and so is millpond.views.signals.TradeSignals: set name"),
    ],
)
def test_a_module_that_cannot_be_loaded_says_why(load: Load, tail: str, text: str) -> None:
    found = refusal(load, f"{ORDERS}\n{tail}\n")
    assert text in found.replace("VIEWS=shop.", "VIEWS=.")


@pytest.mark.parametrize(
    ("constructor", "text"),
    [
        (
            "def __init__(self, region): pass",
            "its constructor needs arguments: give an object instead, or define views(settings)",
        ),
        ("def __init__(self, *, region): pass", "its constructor needs arguments"),
        ("def __init__(self): self._rate = 1 / 0", "its constructor raised ZeroDivisionError: division by zero"),
        ("def __init__(self): len(5)", "its constructor raised TypeError: object of type 'int' has no len()"),
        (
            "@abc.abstractmethod\n    def rate(self): pass",
            "is abstract: define rate, or begin the name of a base of other views with _",
        ),
    ],
)
def test_a_class_that_makes_no_object_says_why(load: Load, constructor: str, text: str) -> None:
    base = "(abc.ABC, Latest):" if "abc" in constructor else "(Latest):"
    module = "import abc\n" + ORDERS.replace("(Latest):", f"{base}\n    {constructor}\n")
    assert text in refusal(load, module)


class Parcels(Latest):
    topics = ("parcels",)
    collection = "parcels"
    key = "parcelId"

    def document(self, event: Any) -> Any:
        return {"id": event.require("parcelId")}


def test_views_from_elsewhere_are_checked_in_the_same_way() -> None:
    """For an embedded pond: its objects are completed as those of a module are, or refused."""
    found = settings_module.load({"STORE": "memory"})
    view = Parcels()
    check_views([view], found)
    assert view.name == "parcels"
    with pytest.raises(SettingsError, match=r"^views=tests.service.test_load_views.Parcels: writes to parcels"):
        check_views([view, Parcels()], found, setting="views")
