"""The alerts of `alerts.json`, decoded and checked. It is JSON because Terraform reads it too. Measures nothing."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Annotated, Literal

import msgspec

Measure = Literal["level", "growth", "count", "rate", "share"]
Severity = Literal["warning", "critical"]
Place = Literal["process", "prometheus", "cloud"]
Part = Literal["view"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning")  # the more severe first
FILE = "alerts.json"

_Word = Annotated[str, msgspec.Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
_Seconds = Annotated[int, msgspec.Meta(ge=0)]


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An unknown field is an error."""


class Level(Strict, frozen=True):
    """When a case has a severity: its value is over `above`, or at least `at_least`, for `for_s` seconds."""

    above: float | None = None
    at_least: float | None = None
    for_s: _Seconds = 0

    @property
    def bound(self) -> float:
        bound = self.above if self.at_least is None else self.at_least
        assert bound is not None  # noqa: S101 - `_fault` lets no level pass without one
        return bound

    @property
    def comparison(self) -> str:
        return ">" if self.at_least is None else ">="

    def reached_by(self, value: float) -> bool:
        return value > self.bound if self.at_least is None else value >= self.bound


class Case(Strict, frozen=True):
    """One measured value, and the levels at which it is a warning or critical.

    `level` is the value of a gauge; `growth` is its increase since `window_s` ago; `count` is the number of events
    within `window_s`; `rate` is that number per minute; `share` is the count divided by that of `of`. `least` is a
    minimum, below which the case never fires: of the gauge for `growth`, of the count for `share`.

    With `by` each view is measured separately, and the worst one decides: outcomes of one message may differ
    between views, and events that one view applies must not hide events that another ignores.
    """

    name: _Word
    says: str
    unit: str
    measure: Measure
    signal: str
    of: str | None = None
    by: Part | None = None
    window_s: _Seconds = 0
    least: _Seconds = 0
    warning: Level | None = None
    critical: Level | None = None

    def level(self, severity: Severity) -> Level | None:
        return self.critical if severity == "critical" else self.warning

    def needed_s(self) -> int:
        """Seconds of history that the case needs."""
        return self.window_s + max(level.for_s for level in (self.warning, self.critical) if level is not None)


class Alert(Strict, frozen=True):
    id: _Word
    title: str
    means: str
    cases: Annotated[tuple[Case, ...], msgspec.Meta(min_length=1)]

    @property
    def runbook(self) -> str:
        """Its heading on the page that the service serves, below the service's address."""
        return f"runbook#{self.id}"


class Signal(Strict, frozen=True):
    """A counter or a gauge, and the places that can measure it."""

    names: str
    seen_by: Annotated[tuple[Place, ...], msgspec.Meta(min_length=1)]


class Alerts(Strict, frozen=True):
    signals: dict[str, Signal]
    alerts: tuple[Alert, ...]

    def seen(self, case: Case, place: Place) -> bool:
        return place in self.signals[case.signal].seen_by

    def needed_s(self) -> int:
        """Seconds of history that a process must keep for the alerts that it evaluates."""
        cases = [case for alert in self.alerts for case in alert.cases if self.seen(case, "process")]
        return max((case.needed_s() for case in cases), default=0)


@functools.cache
def load() -> Alerts:
    """The alerts of this version."""
    return parse((resources.files(__package__) / FILE).read_bytes())


def parse(data: bytes) -> Alerts:
    """The alerts of a file's content; ValueError says where it is wrong and what is allowed."""
    try:
        alerts = msgspec.json.decode(data, type=Alerts)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{FILE}: {error}") from None
    ids = [alert.id for alert in alerts.alerts]
    if len(set(ids)) < len(ids):
        raise ValueError(f"{FILE}: two alerts have one id; each heading of the runbook is of one: {sorted(ids)}")
    for alert in alerts.alerts:
        names = [case.name for case in alert.cases]
        if len(set(names)) < len(names):
            raise ValueError(f"{FILE}: {alert.id}: two cases have one name: {names}")
        for case in alert.cases:
            fault = _fault(case, alerts.signals)
            if fault is not None:
                raise ValueError(f"{FILE}: {alert.id}, case {case.name}: {fault}")
    return alerts


def _fault(case: Case, signals: dict[str, Signal]) -> str | None:
    levels = [level for level in (case.warning, case.critical) if level is not None]
    if not levels:
        return "needs warning, critical or both"
    if any((level.above is None) == (level.at_least is None) for level in levels):
        return "a level needs either above or at_least"
    if unknown := {case.signal, case.of} - {None, *signals}:
        return f"no such signal: {', '.join(sorted(map(str, unknown)))}"
    if (case.of is not None) != (case.measure == "share"):
        return "`of` belongs to the measure share, and to no other"
    if (case.window_s > 0) != (case.measure != "level"):
        return "every measure but level needs window_s, over 0; level has none"
    if case.least and case.measure not in {"share", "growth"}:
        return "`least` belongs to the measures share and growth"
    if case.by is not None and case.measure != "share":
        return "`by` belongs to the measure share"
    if (case.by is not None) != ("{view}" in case.says):
        return "`says` names the {view} if the case is measured by view, and only then"
    try:
        case.says.format(value=0, window="", view="")
    except (KeyError, IndexError, ValueError):
        return "`says` may hold {value}, {window} and {view}, and no other braces"
    return None
