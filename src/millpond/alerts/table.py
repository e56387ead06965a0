"""The runbook's table of thresholds, as Markdown, generated from the alerts. Pure."""

from __future__ import annotations

from millpond.alerts.definitions import Alert, Alerts, Case
from millpond.alerts.format import condition

_HEAD = """\
| alert | case | what is measured | warning | critical | at least | seen by |
|---|---|---|---|---|---|---|
"""


def render(alerts: Alerts) -> str:
    """One row for each case."""
    return _HEAD + "".join(_row(alerts, alert, case) for alert in alerts.alerts for case in alert.cases)


def _row(alerts: Alerts, alert: Alert, case: Case) -> str:
    measured = alerts.signals[case.signal].names
    if case.of is not None:
        measured += f", of all {alerts.signals[case.of].names}"
    if case.by is not None:
        measured += f" of a {case.by}; the worst {case.by} decides"
    cells = (
        f"[{alert.id}](#{alert.id})",
        case.name,
        measured,
        *("" if level is None else condition(case, level) for level in (case.warning, case.critical)),
        f"{case.least}" if case.least else "",
        ", ".join(alerts.signals[case.signal].seen_by),
    )
    return f"| {' | '.join(cells)} |\n"
