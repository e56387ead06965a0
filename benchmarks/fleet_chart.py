"""The chart of docs/scaling.md, as SVG: messages per second by number of instances, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.fleet_results import FleetRun

_WIDTH, _HEIGHT = 740, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 220, 24, 52
_COLOURS = ("#0b6e99", "#62b0d1", "#b3541e", "#e3a277")
_FONT = "font-family='system-ui, sans-serif' font-size='13'"


def chart(runs: Sequence[FleetRun]) -> str:
    lines: dict[str, list[FleetRun]] = {}
    for run in runs:
        if run.load.rate is None:
            lines.setdefault(f"{run.load.documents:,} documents, {run.load.keys}", []).append(run)
    instances = sorted({run.load.instances for each in lines.values() for run in each})
    least, most = 100.0, 10_000.0

    def x(n: int) -> float:
        share = math.log(n / instances[0]) / math.log(instances[-1] / instances[0])
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(speed: float) -> float:
        share = math.log(max(speed, least) / least) / math.log(most / least)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' {_FONT}>",
        "<title>Messages per second by number of instances</title>",
        f"<rect width='{_WIDTH}' height='{_HEIGHT}' fill='#ffffff'/>",
    ]
    for speed in (100, 300, 1_000, 3_000, 10_000):
        parts += [
            f"<path d='M{_LEFT} {y(speed):.1f}H{_WIDTH - _RIGHT}' stroke='#dddddd'/>",
            f"<text x='{_LEFT - 8}' y='{y(speed) + 4:.1f}' text-anchor='end' fill='#444444'>{speed:,}</text>",
        ]
    for n in instances:
        parts.append(f"<text x='{x(n):.1f}' y='{_HEIGHT - 30}' text-anchor='middle' fill='#444444'>{n}</text>")
    for each, colour in zip(lines.values(), _COLOURS, strict=False):
        points = " ".join(f"{x(run.load.instances):.1f},{y(run.per_second):.1f}" for run in each)
        parts.append(f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='2.5'/>")
        parts += [
            f"<circle cx='{x(run.load.instances):.1f}' cy='{y(run.per_second):.1f}' r='3.5' fill='{colour}'/>"
            for run in each
        ]
    for place, (name, colour) in enumerate(zip(lines, _COLOURS, strict=False)):
        top = _TOP + 22 * place
        parts += [
            f"<rect x='{_WIDTH - _RIGHT + 20}' y='{top}' width='14' height='4' fill='{colour}'/>",
            f"<text x='{_WIDTH - _RIGHT + 42}' y='{top + 7}' fill='#222222'>{escape(name)}</text>",
        ]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts += [
        f"<text x='{middle:.0f}' y='{_HEIGHT - 8}' text-anchor='middle' fill='#222222'>instances</text>",
        f"<text x='{_LEFT}' y='{_TOP - 8}' fill='#222222'>messages per second</text>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
