"""Draws a chart (candles, volume, axes) as a PNG. The only module that imports matplotlib.

Threads draw several charts at once, so this module never uses matplotlib's global state (pyplot, rcParams). The
same chart gives the same bytes each time. `layout.py` computes positions. Called by `step.py`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import io
import zoneinfo
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, get_font
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from millpond import to_datetime
from millpond.charts import labels, layout
from millpond.charts.bars import Bar
from millpond.charts.request import TIMEFRAMES
from millpond.charts.theme import look_of

_DPI = 100
_HEIGHT_PX = 720
_LEFT_PX, _TOP_PX, _BOTTOM_PX = 28, 78, 58
_PANELS_GAP_PX, _VOLUME_PX = 12, 110
# The width of a digit in the label font. No other character of a number is wider.
_DIGIT_PX = 8
_LABEL_PX, _SMALL_PX, _TITLE_PX = 12, 11, 21
_SYMBOL_CHARS_MAX = 32
# The narrowest break with room for upright text.
_BREAK_LABEL_PX = 14


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chart:
    """All that a picture depends on. At least one bar; their starts are multiples of the timeframe."""

    symbol: str
    timeframe: str
    bars: Sequence[Bar]
    zone: str
    template: str | None = None


class Picture(NamedTuple):
    png: bytes
    width: int
    height: int


def draw(chart: Chart) -> Picture:
    """The chart as PNG bytes."""
    canvas = _Page(chart).canvas
    canvas.draw()
    # Through Pillow: matplotlib would write its version and an unused alpha channel into the file.
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return Picture(file.getvalue(), *image.size)


def figure_of(chart: Chart) -> Figure:
    """The chart as a matplotlib figure, before it is rendered; tests measure it."""
    return _Page(chart).figure


class _Page:
    """One chart being drawn. Pixels are counted from the lower left corner."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.look = look_of(chart.template)
        self.bars = chart.bars
        self.step = TIMEFRAMES[chart.timeframe]
        self.zone = _zone(chart.zone)
        self.layout = layout.place([bar.start for bar in self.bars], self.step)
        has_volume = any(bar.volume is not None for bar in self.bars)
        self.bottom_px = _BOTTOM_PX + (_VOLUME_PX + _PANELS_GAP_PX if has_volume else 0)
        self.price_px = _HEIGHT_PX - _TOP_PX - self.bottom_px
        self.scale = layout.price_scale(self.bars, self.price_px)
        self.whole = _whole(self.bars)
        self.decimals = labels.decimals_of(self.whole[1:5], self.scale.decimals)
        prices = [labels.price_text(tick, self.scale.decimals) for tick in self.scale.ticks]
        close = labels.price_text(self.whole.close, self.decimals)
        right_px = max(72, max(map(len, [close, *prices])) * _DIGIT_PX + 24)
        self.edge_px: float = _LEFT_PX + self.layout.plot_px
        self.width_px = self.edge_px + right_px
        self.figure = Figure(figsize=(self.width_px / _DPI, _HEIGHT_PX / _DPI), dpi=_DPI, facecolor=self.look.paper)
        # matplotlib's canvas is untyped.
        self.canvas: Any = FigureCanvasAgg(self.figure)
        self._times()
        self._prices(prices, close)
        if has_volume:
            self._volumes()
        self._title()

    def _times(self) -> None:
        ticks = layout.time_ticks(self.layout, self.step, self.zone)
        years = [ticks[0].at.year, *(tick.at.year for tick in ticks)]
        self.tick_xs = [tick.x for tick in ticks]
        for tick, year in zip(ticks, years, strict=False):
            self._write(_LEFT_PX + tick.x, _BOTTOM_PX - 8, labels.time_text(tick, year), ha="center", va="top")

    def _prices(self, texts: Sequence[str], close: str) -> None:
        panel = self._panel(self.bottom_px, self.price_px, self.scale)
        self._candles(panel)
        self._break_lengths()
        last = self.bars[-1]
        colour = self._colour(last)
        panel.axhline(last.close, color=colour, linewidth=_points(1), linestyle=(0, (4, 4)), zorder=1.5)
        close_y = self._price_y(last.close)
        box = {"boxstyle": "square,pad=0.32", "facecolor": colour, "edgecolor": "none"}
        self._write(self.edge_px + 8, close_y, close, colour=self.look.paper, bold=True, va="center", bbox=box)
        for tick, text in zip(self.scale.ticks, texts, strict=True):
            # The label of the last close replaces that of a tick beside it.
            if abs(self._price_y(tick) - close_y) > 22:
                self._write(self.edge_px + 8, self._price_y(tick), text, va="center")

    def _break_lengths(self) -> None:
        """How long each break lasts, upright in the middle of it, on top of the line of the last close."""
        box = {"boxstyle": "square,pad=0.2", "facecolor": self.look.shade, "edgecolor": "none"}
        upright: dict[str, Any] = {"rotation": 90, "rotation_mode": "anchor", "ha": "center", "va": "center"}
        y = self.bottom_px + self.price_px / 2
        for gap in self.layout.breaks:
            if gap.right - gap.left >= _BREAK_LABEL_PX:
                x = _LEFT_PX + (gap.left + gap.right) / 2
                text = labels.length_text(gap.length)
                self._write(x, y, text, px=_SMALL_PX, colour=self.look.faint, bbox=box, **upright)

    def _candles(self, panel: Axes) -> None:
        colours = [self._colour(bar) for bar in self.bars]
        # A body without height is drawn as a line two pixels thick.
        thin = (self.scale.high - self.scale.low) / self.price_px
        wicks = [(bar.low, bar.high) for bar in self.bars]
        bodies = []
        for bar in self.bars:
            low, high = sorted((bar.open, bar.close))
            middle = (low + high) / 2
            bodies.append((low, high) if high - low >= 2 * thin else (middle - thin, middle + thin))
        self._boxes(panel, wicks, 1 if self.layout.slot_px < 24 else 3, colours)
        self._boxes(panel, bodies, _body_px(self.layout.slot_px), colours)

    def _volumes(self) -> None:
        scale = layout.volume_scale(max(bar.volume or 0.0 for bar in self.bars))
        panel = self._panel(_BOTTOM_PX, _VOLUME_PX, scale)
        look = self.look
        colours = [look.up_volume if _is_up(bar) else look.down_volume for bar in self.bars]
        spans = [(0.0, bar.volume or 0.0) for bar in self.bars]
        self._boxes(panel, spans, _body_px(self.layout.slot_px), colours)
        for tick in scale.ticks:
            y = _BOTTOM_PX + tick / scale.high * _VOLUME_PX
            self._write(self.edge_px + 8, y, labels.volume_text(tick), va="center", colour=look.faint)
        y = _BOTTOM_PX + _VOLUME_PX - 5
        box = {"boxstyle": "square,pad=0.1", "facecolor": look.paper, "edgecolor": "none"}
        self._write(_LEFT_PX + 6, y, "Volume", px=_SMALL_PX, colour=look.faint, va="top", bbox=box)

    def _boxes(
        self, panel: Axes, spans: Sequence[tuple[float, float]], width_px: float, colours: Sequence[str]
    ) -> None:
        """One box for each bar, in the middle of its slot. Snapped to pixels, so that all are equally wide."""
        boxes = []
        for slot, (low, high) in zip(self.layout.bar_slots, spans, strict=True):
            left, right = slot.x - width_px / 2, slot.x + width_px / 2
            boxes.append([(left, low), (right, low), (right, high), (left, high)])
        panel.add_collection(PolyCollection(boxes, facecolors=colours, linewidths=0, snap=True, zorder=2))

    def _title(self) -> None:
        y = _HEIGHT_PX - 34
        symbol = labels.printable(self.chart.symbol, _SYMBOL_CHARS_MAX, _has_glyph)
        title = self._write(_LEFT_PX, y, symbol, px=_TITLE_PX, bold=True)
        timeframe_x = self._extent(title).x1 + 12
        timeframe = self._write(timeframe_x, y, self.chart.timeframe, px=_TITLE_PX, colour=self.look.faint)
        ends = (self.bars[0].start, self.bars[-1].start + self.step)
        start, end = (to_datetime(us).astimezone(self.zone) for us in ends)
        count = "1 bar" if len(self.bars) == 1 else f"{len(self.bars):,} bars"
        parts = (labels.window_text(start, end), labels.zone_text(self.chart.zone, [start, end]), count)
        self._write(_LEFT_PX, y - 22, "  ·  ".join(parts), colour=self.look.faint)
        self._summary(y, left_px=self._extent(timeframe).x1 + 20)

    def _summary(self, y: float, left_px: float) -> None:
        """The window as one bar, at the right of the title; only its change if there is no room for more."""
        whole = self.whole
        right = self.edge_px
        change = labels.change_text(whole.open, whole.close)
        if change:
            written = self._write(right, y, change, colour=self._colour(whole), bold=True, ha="right")
            right = self._extent(written).x0 - 14
        named = {"O": whole.open, "H": whole.high, "L": whole.low, "C": whole.close}
        texts = [f"{name} {labels.price_text(price, self.decimals)}" for name, price in named.items()]
        prices = self._write(right, y, "   ".join(texts), ha="right")
        if self._extent(prices).x0 < left_px:
            prices.remove()

    def _panel(self, bottom_px: float, height_px: float, scale: layout.PriceScale) -> Axes:
        """Axes whose x is in pixels, with grid and breaks."""
        width, look = self.layout.plot_px, self.look
        box = (_LEFT_PX / self.width_px, bottom_px / _HEIGHT_PX, width / self.width_px, height_px / _HEIGHT_PX)
        panel = self.figure.add_axes(box, facecolor=look.paper, xlim=(0, width), ylim=(scale.low, scale.high))
        panel.set_xticks([])
        panel.set_yticks([])
        for spine in panel.spines.values():
            spine.set(color=look.grid, linewidth=_points(1))
        grid: dict[str, Any] = {"colors": look.grid, "linewidth": _points(1), "snap": True, "zorder": 1}
        panel.hlines([tick for tick in scale.ticks if scale.low < tick < scale.high], 0, width, **grid)
        panel.vlines(self.tick_xs, scale.low, scale.high, **grid)
        # One pixel of background stays between a break and the candle before it.
        spans = [(gap.left + 1, gap.right - gap.left - 1) for gap in self.layout.breaks]
        panel.broken_barh(spans, (scale.low, scale.high - scale.low), facecolor=look.shade, linewidth=0, zorder=1.2)
        return panel

    def _write(
        self,
        x_px: float,
        y_px: float,
        text: str,
        *,
        px: int = _LABEL_PX,
        colour: str = "",
        bold: bool = False,
        **more: Any,
    ) -> Text:
        return self.figure.text(
            x_px / self.width_px,
            y_px / _HEIGHT_PX,
            text,
            fontproperties=_font(bold=bold),
            fontsize=_points(px),
            color=colour or self.look.ink,
            # A symbol may hold dollar signs, which matplotlib would read as mathematics.
            parse_math=False,
            usetex=False,
            **more,
        )

    def _price_y(self, price: float) -> float:
        return self.bottom_px + (price - self.scale.low) / (self.scale.high - self.scale.low) * self.price_px

    def _colour(self, bar: Bar) -> str:
        return self.look.up if _is_up(bar) else self.look.down

    def _extent(self, text: Text) -> Bbox:
        return text.get_window_extent(self.canvas.get_renderer())


def _zone(name: str) -> dt.tzinfo:
    # UTC needs no database of zones.
    return dt.UTC if name == "UTC" else zoneinfo.ZoneInfo(name)


def _whole(bars: Sequence[Bar]) -> Bar:
    """All of them as one bar."""
    high, low = max(bar.high for bar in bars), min(bar.low for bar in bars)
    return Bar(bars[0].start, bars[0].open, high, low, bars[-1].close, None)


def _is_up(bar: Bar) -> bool:
    return bar.close >= bar.open


def _body_px(slot_px: float) -> float:
    """An odd number, so that the wick is centred, with space between neighbours if the slot is wide enough."""
    if slot_px < 4:
        return max(1, int(slot_px) - 1)
    return (int(slot_px * 0.78) - 1) // 2 * 2 + 1


def _points(px: float) -> float:
    return px * 72 / _DPI


@functools.cache
def _font(*, bold: bool) -> FontProperties:
    """The font that matplotlib ships: the same on every machine."""
    return FontProperties(fname=_font_file(bold=bold))


def _font_file(*, bold: bool) -> Path:
    return Path(mpl.get_data_path(), "fonts", "ttf", "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf")


def _has_glyph(character: str) -> bool:
    return get_font(_font_file(bold=True)).get_char_index(ord(character)) != 0
