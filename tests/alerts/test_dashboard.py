"""The Grafana dashboard: importable, and every query of it is PromQL over metrics that a service exports."""

from __future__ import annotations

import json
import re
import time
from itertools import combinations
from pathlib import Path
from typing import Any

from millpond.alerts.signals import COUNTERS, GAUGES
from millpond.http import server
from millpond.http.bodies import Bodies
from millpond.stores.memory import MemoryStore
from tests.alerts.tools import ROOT, RULES, unreadable
from tests.common.rig import Rig

DASHBOARD = json.loads((ROOT / "infra" / "grafana" / "millpond.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel.get("targets", [])]
_NAME = re.compile(r"\bmillpond_\w+")


def exported() -> set[str]:
    """The names of a service's metrics, and of the parts of its histograms."""
    service = Rig(MemoryStore()).service
    server.watch_http(service.metrics, set(), Bodies(1, time.monotonic))
    # Otherwise left out until the store was asked for the first time.
    service.monitor.history.letters = 0
    names: set[str] = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\w+)$", service.metrics.render().decode(), re.MULTILINE):
        names |= {f"{name}_{part}" for part in ("bucket", "count", "sum")} if kind == "histogram" else {name}
    service.log.close()
    return names


def test_every_query_is_promql(tmp_path: Path) -> None:
    """With Grafana's own variable filled in, as Grafana does."""
    assert len(QUERIES) > 30
    assert unreadable((query.replace("$__rate_interval", "1m") for query in QUERIES), tmp_path) == ""


def test_every_metric_is_exported() -> None:
    """A renamed one would leave an empty panel, or an alert that never fires."""
    names = exported()
    assert set(_NAME.findall(" ".join(QUERIES))) <= names
    assert set(_NAME.findall(" ".join([*COUNTERS.values(), *GAUGES.values()]))) <= names
    assert (
        set(_NAME.findall(" ".join(re.findall(r"expr: \|-\n((?: {10}.*\n)+)", RULES.read_text("utf-8"))))) <= names
    )


def test_every_metric_of_the_service_is_shown() -> None:
    """But how often a verdict was checked, and how many times a histogram was."""
    shown = set(_NAME.findall(" ".join(QUERIES)))
    unseen = {name for name in exported() - shown if not name.endswith(("_count", "_sum"))}
    assert unseen == {"millpond_verdicts_checked_total"}


def test_the_data_source_is_whoever_imports_its_choice() -> None:
    """No panel and no query names one of its own."""
    (choice,) = (variable for variable in DASHBOARD["templating"]["list"] if variable["type"] == "datasource")
    assert (choice["name"], choice["query"]) == ("datasource", "prometheus")
    sources = [
        place["datasource"]
        for panel in PANELS
        for place in (panel, *panel.get("targets", []))
        if "datasource" in place
    ]
    assert len(sources) > len(PANELS)
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    assert DASHBOARD["id"] is None


def test_panels_lie_beside_each_other() -> None:
    """Within the grid of 24, each with its own number, none upon another."""
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    places = [panel["gridPos"] for panel in PANELS]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        apart_x = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_y = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_x or apart_y, (one, other)
