"""BUILT_IN_VIEWS: which built-in views are loaded, what they then need, and what is refused."""

from __future__ import annotations

import pytest

from millpond import settings as settings_module
from millpond.core.errors import SettingsError
from millpond.core.route import Router
from millpond.pond import Pond
from millpond.service.rules import route_rules
from millpond.service.views import built_in_views, is_built_in, load_views
from millpond.settings.table import BUILT_IN_VIEWS

ON_FIRESTORE = {"STORE": "firestore", "GCP_PROJECT": "p", "ENV": "prod"}


def loaded(**environment: str) -> list[str]:
    return [view.name for view in load_views(settings_module.load({"STORE": "memory", **environment}))]


def refusal(**environment: str) -> str:
    with pytest.raises(SettingsError) as error:
        loaded(**environment)
    return str(error.value)


def test_the_names_that_may_be_chosen_are_those_of_the_views() -> None:
    """The table of settings cannot import views, so it repeats their names."""
    by_form = [built_in_views(settings_module.load({"BARS_ID": form})) for form in ("natural", "event", "nested")]
    assert {view.collection for views in by_form for view in views} == set(BUILT_IN_VIEWS)


def test_all_built_in_views_are_on_unless_the_setting_says_otherwise() -> None:
    assert loaded() == loaded(BUILT_IN_VIEWS="all")
    assert loaded()[:2] == ["ops_services", "ingest_pipelines"]
    assert len(loaded()) == len(BUILT_IN_VIEWS) - 1


def test_only_the_named_ones_are_loaded() -> None:
    """In the order they always have, whatever order and white space the setting has."""
    assert loaded(BUILT_IN_VIEWS="trade_signals, ops_services") == ["ops_services", "trade_signals"]


def test_without_built_in_views_those_of_the_user_are_left() -> None:
    assert loaded(BUILT_IN_VIEWS="none", VIEWS="examples.parcels") == ["parcels"]


def test_a_service_without_any_view_does_not_start() -> None:
    """It could only bury every message."""
    text = refusal(BUILT_IN_VIEWS="none")
    assert text.startswith("BUILT_IN_VIEWS=none: leaves no view to load")
    assert "VIEWS" in text
    with pytest.raises(SettingsError, match="leaves no view to load"):
        Pond(store="memory", settings={"BUILT_IN_VIEWS": "none"})


@pytest.mark.parametrize("wrong", ["ops_service", "ops_services,Ops_Services", "all,ops_services", "", " , "])
def test_a_name_that_is_wrong_is_refused(wrong: str) -> None:
    """Before anything is opened, by every command that reads the settings."""
    with pytest.raises(SettingsError, match="must be all, none, or names separated by commas"):
        settings_module.load({"BUILT_IN_VIEWS": wrong})


def test_a_misspelt_name_is_recognised() -> None:
    assert 'did you mean "ops_services"?' in refusal(BUILT_IN_VIEWS="ops_service")


@pytest.mark.parametrize(
    ("name", "more"),
    [("market_ticks", {"TICK_HISTORY": "off"}), ("market_bars_1m", {"BARS_ID": "nested"})],
    ids=str,
)
def test_a_view_that_another_setting_rules_out_is_refused(name: str, more: dict[str, str]) -> None:
    """Two settings that contradict each other are not resolved in silence."""
    assert f"leave no view {name}; did you mean" in refusal(BUILT_IN_VIEWS=f"ops_services,{name}", **more)


def test_tick_history_can_be_switched_off_as_before() -> None:
    assert "market_ticks" not in loaded(TICK_HISTORY="off")


def test_latest_ticks_know_whether_the_history_is_loaded() -> None:
    """They leave a tick without a symbol to the history; without one it must become a letter."""

    def wants_it(names: str) -> bool:
        (view,) = [
            one
            for one in built_in_views(settings_module.load({"BUILT_IN_VIEWS": names}))
            if "latest" in one.collection
        ]
        return not view._kept_elsewhere  # type: ignore[attr-defined]  # noqa: SLF001

    assert wants_it("market_ticks_latest")
    assert not wants_it("market_ticks_latest,market_ticks")


def test_a_route_to_a_view_that_is_off_is_refused() -> None:
    """As any route to a kind that no view feeds on."""
    routes = {"ROUTES": '{"s": {"kind": "market-ticks"}}', "BUILT_IN_VIEWS": "ops_services"}
    settings = settings_module.load(routes)
    with pytest.raises(SettingsError, match="ROUTES"):
        Router(load_views(settings), route_rules(settings)).topics.check()


def test_firestore_requires_what_the_chosen_views_need() -> None:
    """The topic and the region are settings of one view: without it, they have a default."""
    assert settings_module.load({**ON_FIRESTORE, "BUILT_IN_VIEWS": "none", "VIEWS": "examples.parcels"})
    assert settings_module.load({**ON_FIRESTORE, "BUILT_IN_VIEWS": "trade_signals"})
    for chosen in ("all", "ops_services"):
        with pytest.raises(SettingsError, match=r"^SYSTEM_EVENTS_TOPIC, DEFAULT_REGION: must be set"):
            settings_module.load({**ON_FIRESTORE, "BUILT_IN_VIEWS": chosen})


def test_everything_that_is_missing_is_in_one_message() -> None:
    """An operator who sets one variable after another would start the service four times."""
    with pytest.raises(SettingsError) as error:
        settings_module.load({"STORE": "firestore", "DEFAULT_REGION": "r"})
    assert str(error.value).startswith("GCP_PROJECT, ENV, SYSTEM_EVENTS_TOPIC: must be set with STORE=firestore")


def test_own_views_are_told_from_built_in_ones() -> None:
    views = load_views(settings_module.load({"STORE": "memory", "VIEWS": "examples.parcels"}))
    assert [view.name for view in views if not is_built_in(view)] == ["parcels"]
