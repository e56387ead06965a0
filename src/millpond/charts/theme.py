"""The two themes of a chart: light, and dark for the template `dark`."""

from __future__ import annotations

from typing import NamedTuple


class Theme(NamedTuple):
    """Colours. Up is blue and down is orange: colour-blind readers can distinguish these."""

    paper: str
    ink: str
    faint: str
    grid: str
    shade: str
    up: str
    down: str
    up_volume: str
    down_volume: str


LIGHT = Theme(
    paper="#ffffff",
    ink="#1b1f27",
    faint="#667085",
    grid="#e9ecf1",
    shade="#f2f4f7",
    up="#0072b2",
    down="#d55e00",
    up_volume="#9fcae3",
    down_volume="#f0c09a",
)
DARK = Theme(
    paper="#12161f",
    ink="#e2e6ee",
    faint="#8b93a3",
    grid="#242a37",
    shade="#1b212d",
    up="#56b4e9",
    down="#e69f00",
    up_volume="#2c566f",
    down_volume="#6b5117",
)


def look_of(template: str | None) -> Theme:
    """The theme for a `chartTemplateId`; an unknown one is drawn light, and still recorded."""
    return DARK if template == "dark" else LIGHT
