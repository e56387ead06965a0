"""Formats the numbers of alerts, for people and for PromQL. Pure."""

from __future__ import annotations

from millpond.alerts.definitions import Case, Level

_UNITS = ((3600, "hour", "h"), (60, "minute", "m"), (1, "second", "s"))


def span(seconds: float) -> str:
    """`300` → `5 minutes`. Rounded down to a whole number of the greatest unit that fits."""
    for size, name, _ in _UNITS:
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {name}{'' if number == 1 else 's'}"
    return "0 seconds"


def duration(seconds: int) -> str:
    """`300` → `5m`: exact, as PromQL writes it."""
    for size, _, letter in _UNITS:
        if seconds and seconds % size == 0:
            return f"{seconds // size}{letter}"
    return "0s"


def amount(case: Case, value: float) -> str:
    """A value for people: a share in per cent, any other value with four significant digits."""
    return (
        f"{value * 100:.3g} %" if case.measure == "share" else f"{value:.4g}" if value < 10_000 else f"{value:.0f}"
    )


def condition(case: Case, level: Level) -> str:
    """`over 1 % within 5 minutes`: a cell of the runbook's table."""
    bound = f"{level.bound * 100 if case.measure == 'share' else level.bound:g} {case.unit}"
    return "".join(
        (
            "growth " if case.measure == "growth" else "",
            f"over {bound}" if level.at_least is None else f"at least {bound}",
            f" within {span(case.window_s)}" if case.window_s else "",
            f", for {span(level.for_s)}" if level.for_s else "",
        )
    )
