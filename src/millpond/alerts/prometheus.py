"""Prometheus' alerting rules, generated from the alerts: `infra/prometheus/millpond.rules.yml`. Pure.

There is one rule for each case and severity that Prometheus can measure. A case that is measured by view fires for
each view that reaches its level, with the view as a label. Strings are written as JSON, which is valid YAML.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from millpond.alerts.definitions import SEVERITIES, Alert, Alerts, Case, Level, Severity
from millpond.alerts.format import duration, span
from millpond.alerts.signals import COUNTERS, GAUGES

_HEAD = """\
# Made from src/millpond/alerts/alerts.json. Do not edit it; run
# .venv/bin/python -m millpond.alerts prometheus > infra/prometheus/millpond.rules.yml
# What to do when one fires: docs/runbook.md, which the service serves at /runbook. The annotations `runbook_url`
# are paths below the service's address; with `--url https://…` they are links.
groups:
  - name: millpond
    rules:
"""


def render(alerts: Alerts, url: str = "") -> str:
    """The rule file. `url` is the service's address, below which the rules' links lead to the runbook."""
    base = url.rstrip("/")
    return _HEAD + "".join(
        _rule(alert, case, severity, level, base) for alert, case, severity, level in rules(alerts, "prometheus")
    )


def rules(alerts: Alerts, place: str) -> Iterator[tuple[Alert, Case, Severity, Level]]:
    """Every case and severity that `place` can measure."""
    for alert in alerts.alerts:
        for case in alert.cases:
            for severity in reversed(SEVERITIES):
                level = case.level(severity)
                if level is not None and place in alerts.signals[case.signal].seen_by:
                    yield alert, case, severity, level


def alert_name(alert: Alert) -> str:
    """`push-5xx` → `MillpondPush5xx`."""
    return "Millpond" + "".join(word.capitalize() for word in alert.id.split("-"))


def expression(case: Case, level: Level) -> str:
    """The rule's condition in PromQL."""
    window = duration(case.window_s)
    compared = f"{level.comparison} {level.bound:g}"
    if case.measure in {"level", "growth"}:
        gauge = GAUGES[case.signal]
        if case.measure == "level":
            return f"max({gauge}) {compared}"
        guard = f"\nand max({gauge}) >= {case.least}" if case.least else ""
        return f"max({gauge}) - max({gauge} offset {window}) {compared}{guard}"
    counter = COUNTERS[case.signal]
    total = "sum" if case.by is None else f"sum by ({case.by}) "
    # Counts are whole numbers; increase() extrapolates to the edges of the window, so it is rounded down.
    count = f"floor({total}(increase({counter}[{window}])))"
    if case.measure == "count":
        return f"{count} {compared}"
    rate = f"{total}(rate({counter}[{window}]))"
    if case.measure == "rate":
        return f"{rate} * 60 {compared}"
    whole = f"{total}(rate({COUNTERS[case.of or '']}[{window}]))"
    guard = f"\nand {count} >= {case.least}" if case.least else ""
    return f"{rate}\n/ {whole} {compared}{guard}"


def _rule(alert: Alert, case: Case, severity: Severity, level: Level, base: str) -> str:
    value = _VALUES.get(case.measure, "{{ $value | humanize }}")
    said = case.says.format(value=value, window=span(case.window_s), view="{{ $labels.view }}")
    expr = "".join(f"          {line}\n" for line in expression(case, level).splitlines())
    return (
        f"      - alert: {alert_name(alert)}\n"
        f"        expr: |-\n{expr}"
        f"        for: {duration(level.for_s)}\n"
        f"        labels:\n"
        f"          severity: {severity}\n"
        f"          case: {case.name}\n"
        f"        annotations:\n"
        f"          summary: {json.dumps(alert.title)}\n"
        f"          description: {json.dumps(f'{said}. {alert.means}')}\n"
        f"          runbook_url: {json.dumps(f'{base}/{alert.runbook}')}\n"
    )


_VALUES = {"share": "{{ $value | humanizePercentage }}"}
