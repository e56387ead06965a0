"""Which step types a process does: the modules it loads, built-in and the user's own, by the same code."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from millpond import settings as settings_module
from millpond.core.errors import SettingsError
from millpond.flow.registry import load_steps
from millpond.service.steps import load_configured_steps

OWN = 'from millpond import step\n\n\n@step("OWN")\ndef own(context):\n    return None\n'


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """Writes a module of the user's, and returns its name."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: list[str] = []

    def write(code: str) -> str:
        names.append(f"steps_{len(names)}_{abs(hash(request.node.name))}")
        (tmp_path / f"{names[-1]}.py").write_text(code)
        return names[-1]

    yield write
    for name in names:
        sys.modules.pop(name, None)


def configured(*steps: str) -> set[str]:
    return set(load_configured_steps(settings_module.load({"STORE": "memory", "STEPS": ",".join(steps)})))


def test_built_in_and_own_steps_are_found(module: Any) -> None:
    """A process does CHART_EXPORT, and what the modules in STEPS declare."""
    assert configured() == {"CHART_EXPORT"}
    assert configured(module(OWN)) == {"CHART_EXPORT", "OWN"}


def test_a_type_has_one_function(module: Any) -> None:
    """Also where the other one is built in: the user's module is named."""
    name = module(OWN.replace("OWN", "CHART_EXPORT"))
    with pytest.raises(SettingsError, match=f"{name}.*CHART_EXPORT, which is taken"):
        configured(name)


def test_a_module_without_a_step_is_refused(module: Any) -> None:
    """It is a slip in STEPS, and would otherwise show as steps that no worker does."""
    with pytest.raises(SettingsError, match="defines no step"):
        load_steps([module("x = 1\n")])


def test_types_are_left_to_others_where_a_needed_module_is_missing(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module itself is no mistake, and another function may then do the type."""
    needy = module(OWN.replace('"OWN"', '"OWN", needs="no_such_module"'))
    assert load_steps([needy]) == {}
    assert set(load_steps([needy, module(OWN)])) == {"OWN"}
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name))
    assert configured() == set()


def test_a_step_reads_settings_by_name_and_cannot_change_them() -> None:
    """As it would read an environment variable, but checked; secrets are not among them."""
    given = settings_module.load({"CHARTS_DEFAULT_TIMEZONE": "Europe/Berlin", "ADMIN_TOKEN": "x"}).by_name()
    assert (given["CHARTS_DEFAULT_TIMEZONE"], given["FLOW_LEASE_S"]) == ("Europe/Berlin", 60.0)
    assert (given.flow_lease_s, given.get("FLOW_LEASE_S"), len(list(given))) == (60.0, 60.0, len(given))
    assert "ADMIN_TOKEN" not in given
    with pytest.raises(AttributeError, match="ADMIN_TOKEN"):
        _ = given.admin_token
    with pytest.raises(TypeError):
        given["ENV"] = "prod"
