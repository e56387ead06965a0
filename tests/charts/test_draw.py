"""The pictures: nothing overlaps, gaps are empty, hostile text is only text, the same bars are the same bytes."""

from __future__ import annotations

import functools
import io
import itertools
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from millpond.charts.bars import Bar
from millpond.charts.draw import Chart, draw, figure_of
from millpond.charts.theme import DARK, LIGHT, look_of
from millpond.charts.times import MINUTE_US
from millpond.core import timestamps
from tests.charts.market import DAY_US, HOUR_US, OPEN, walk

NEW_YORK = "America/New_York"
HOSTILE = "$\\frac{1}{0}$ $$ \\n\n\t\x00\x07\u202e🚀日経\ud800 " + "_^{}%#" * 100


def sessions(count: int, bars: int = 78, step: int = 5 * MINUTE_US) -> list[Bar]:
    return [bar for n in range(count) for bar in walk(bars, OPEN + n * DAY_US, step, seed=n)]


def flat(price: float, count: int = 60, volume: float | None = None) -> list[Bar]:
    return [Bar(OPEN + n * MINUTE_US, price, price, price, price, volume) for n in range(count)]


def at(text: str) -> int:
    return timestamps.parse(text, "t")


def chart(symbol: str, timeframe: str, bars: list[Bar], zone: str = "UTC", template: str | None = None) -> Chart:
    return Chart(symbol=symbol, timeframe=timeframe, bars=bars, zone=zone, template=template)


FALLING = [Bar(OPEN + n * MINUTE_US, 20 - n, 21 - n, 18 - n, 19 - n, 1) for n in range(60)]
SPARSE = [walk(1, OPEN + n * 17 * MINUTE_US)[0] for n in range(120)]
CHARTS: dict[str, Chart] = {
    "last 120": chart("SPY", "1m", walk(120), NEW_YORK),
    "dark": chart("BTC/USD", "1m", walk(120, price=42_000), template="dark"),
    "one bar": chart("SPY", "1m", walk(1), NEW_YORK),
    "two bars": chart("EURUSD", "1m", walk(2, price=1.0842, decimals=5)),
    "5,000 bars": chart("SPY", "1m", walk(5_000), NEW_YORK),
    "a night": chart("SPY", "5m", sessions(2), NEW_YORK),
    "twelve nights": chart("SPY", "1h", sessions(13, 7, HOUR_US), "Asia/Kolkata"),
    "200 nights": chart("SPY", "1h", sessions(200, 7, HOUR_US)),
    "flat": chart("USDT", "1m", flat(1.0)),
    "zero": chart("NIL", "1m", flat(0.0, volume=0.0)),
    "tiny": chart("SHIB", "1m", walk(90, price=0.00001234, decimals=10)),
    "minute": chart("DUST", "1m", walk(90, price=1.2e-17, decimals=25)),
    "huge": chart("X" * 500, "15m", walk(120, OPEN, 15 * MINUTE_US, 9.2e14), NEW_YORK),
    "below zero": chart("CL", "1m", FALLING),
    "sparse": chart("ILLQ", "1m", SPARSE),
    "new year": chart("BTC", "1h", walk(120, at("2025-12-29T00:00:00Z"), HOUR_US), "Europe/Berlin"),
    "clocks back": chart("BTC", "5m", walk(120, at("2026-11-01T00:00:00Z"), 5 * MINUTE_US), NEW_YORK),
    "hostile": chart(HOSTILE, "1m", walk(60), "America/Argentina/ComodRivadavia", HOSTILE),
}


@functools.cache
def pixels(name: str) -> npt.NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(draw(CHARTS[name]).png)))


def rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def has_colour(area: npt.NDArray[np.uint8], colours: Sequence[str]) -> bool:
    return any(bool((area == rgb(colour)).all(axis=-1).any()) for colour in colours)


def written(figure: Figure) -> Iterator[tuple[Text, Bbox]]:
    """Every text of a figure, with the box it is drawn in."""
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if text.get_text() and text.get_visible():
            patch = text.get_bbox_patch()
            text.draw(renderer)
            yield text, text.get_window_extent(renderer) if patch is None else patch.get_window_extent(renderer)


@pytest.mark.parametrize("name", CHARTS)
def test_no_text_is_over_another_or_cut(name: str) -> None:
    """Labels, title and marks have room, whatever the numbers are."""
    figure = figure_of(CHARTS[name])
    boxes = list(written(figure))
    assert len(boxes) >= 6
    width, height = figure.get_size_inches() * figure.dpi
    for text, box in boxes:
        assert (box.x0 >= 0, box.y0 >= 0, box.x1 <= width, box.y1 <= height) == (True,) * 4, text
    for (text, box), (other, other_box) in itertools.combinations(boxes, 2):
        assert not box.overlaps(other_box), f"{text} is over {other}"


def test_a_label_over_another_would_be_noticed() -> None:
    """The measuring measures."""
    figure = figure_of(CHARTS["last 120"])
    text, box = next(written(figure))
    x, y = figure.transFigure.inverted().transform((box.x0 + 3, box.y0))
    figure.text(x, y, "over it")
    boxes = [found for _, found in written(figure)]
    assert any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2)), text


def test_a_break_is_empty_of_candles_and_says_how_long_it_is() -> None:
    """Shaded from top to bottom, with candles beside it on both sides and none in it."""
    figure = figure_of(CHARTS["a night"])
    image = pixels("a night")
    plot = image[79:540]
    candles = [LIGHT.up, LIGHT.down]
    # The line of the last close is dashed in a candle's colour; it is no candle.
    shaded = [x for x in range(image.shape[1]) if (plot[:, x] == rgb(LIGHT.shade)).all(axis=-1).sum() > 300]
    assert 15 <= len(shaded) <= 20
    assert shaded == list(range(shaded[0], shaded[-1] + 1))
    inside = plot[:, shaded[0] : shaded[-1] + 1]
    coloured_rows = {int(y) for c in candles for y in np.nonzero((inside == rgb(c)).all(axis=-1))[0]}
    assert len(coloured_rows) <= 1
    assert has_colour(plot[:, shaded[0] - 10 : shaded[0]], candles)
    assert has_colour(plot[:, shaded[-1] + 1 : shaded[-1] + 11], candles)
    assert "17 h 30 min" in [text.get_text() for text, _ in written(figure)]


def test_missing_bars_leave_paper() -> None:
    """Where five minutes are missing, fifty pixels hold nothing but the grid and the line of the last close."""
    bars = [bar for n, bar in enumerate(walk(120)) if not 60 <= n < 65]
    image = np.asarray(Image.open(io.BytesIO(draw(chart("SPY", "1m", bars)).png)))
    left = 28 + 60 * 10
    for rows, colours in (
        (image[79:540], [LIGHT.up, LIGHT.down]),
        (image[553:660], [LIGHT.up_volume, LIGHT.down_volume]),
    ):
        gap = rows[:, left : left + 50]
        coloured = {int(y) for c in colours for y in np.nonzero((gap == rgb(c)).all(axis=-1))[0]}
        assert len(coloured) <= 1
        assert has_colour(rows[:, left - 9 : left - 1], colours)
        assert has_colour(rows[:, left + 51 : left + 59], colours)


def test_neighbours_do_not_touch() -> None:
    """Between two candles there is a column of paper, and each is as wide as the next."""
    volume = pixels("last 120")[659, 28 : 28 + 1_200]
    bars = [(volume == rgb(c)).all(axis=-1) for c in (LIGHT.up_volume, LIGHT.down_volume)]
    filled = "".join("#" if one or other else "." for one, other in zip(*bars, strict=True))
    assert {len(run) for run in filled.split(".") if run} == {7}
    assert filled.count("#######") == 120


@pytest.mark.parametrize("name", ["flat", "zero"])
def test_flat_prices_are_a_line_in_the_middle(name: str) -> None:
    """Each bar is there, two pixels high."""
    image = pixels(name)
    rows = sorted({int(y) for y in np.nonzero((image[79:-60, :1100] == rgb(LIGHT.up)).all(axis=-1))[0]})
    assert 2 <= len(rows) <= 3
    assert rows[-1] - rows[0] == len(rows) - 1


def test_candles_are_where_their_prices_are() -> None:
    """The body from open to close, the wick from low to high, in pixels."""
    figure = figure_of(CHARTS["one bar"])
    wick, body = [c for c in figure.axes[0].collections if isinstance(c, PolyCollection)][-2:]
    (bar,) = walk(1)
    for shape, low, high in ((wick, bar.low, bar.high), (body, min(bar.open, bar.close), max(bar.open, bar.close))):
        (path,) = shape.get_paths()
        ys = np.asarray(path.vertices)[:, 1]
        assert (ys.min(), ys.max()) == (low, high)


def test_without_volume_there_is_no_panel_for_it() -> None:
    """And the prices have its room."""
    assert len(figure_of(CHARTS["flat"]).axes) == 1
    assert len(figure_of(CHARTS["last 120"]).axes) == 2


def texts_of(name: str) -> list[str]:
    return [text.get_text() for text, _ in written(figure_of(CHARTS[name]))]


def test_the_title_says_what_is_drawn() -> None:
    """Symbol, timeframe, window, zone, how many bars, and the window as one bar; the last close is marked."""
    bars = walk(120)
    texts = texts_of("last 120")
    assert texts[texts.index("SPY") + 1] == "1m"
    assert "8 Jan 2026 09:30 \N{EN DASH} 11:30  ·  America/New_York (EST)  ·  120 bars" in texts
    assert f"{bars[-1].close:.2f}" in texts
    high, low = max(bar.high for bar in bars), min(bar.low for bar in bars)
    assert f"O {bars[0].open:.2f}   H {high:.2f}   L {low:.2f}   C {bars[-1].close:.2f}" in texts


def test_hostile_text_is_only_text() -> None:
    """No mathematics, no second line, no endless line; what the font has not is a box, without a warning."""
    draw(CHARTS["hostile"])
    symbol = next(text for text in texts_of("hostile") if text.startswith("$"))
    assert symbol.startswith("$\\frac{1}{0}$ $$ \\n □□□")
    assert len(symbol) == 32
    figure = figure_of(CHARTS["hostile"])
    assert not any(text.get_parse_math() for text, _ in written(figure))


def test_the_looks() -> None:
    """`dark` is dark; every other template is light."""
    assert tuple(pixels("dark")[0, 0]) == rgb(DARK.paper)
    assert tuple(pixels("last 120")[0, 0]) == rgb(LIGHT.paper)
    assert [look_of(template) for template in (None, "", "Dark", "house")] == [LIGHT] * 4


def test_the_same_chart_is_the_same_bytes_also_in_eight_threads_at_once() -> None:
    """Different charts at the same time, so that one would be seen in the other."""
    names = ["last 120", "dark", "a night", "hostile"]
    alone = {name: draw(CHARTS[name]).png for name in names}
    together: list[tuple[str, bytes]] = []
    start = threading.Barrier(8)

    def work(name: str) -> None:
        start.wait()
        together.append((name, draw(CHARTS[name]).png))

    threads = [threading.Thread(target=work, args=(name,)) for name in names * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(together) == 8
    assert all(alone[name] == png for name, png in together)


def test_the_file_says_nothing_but_the_picture() -> None:
    """No date, no version: nothing that would change the bytes without changing the picture."""
    picture = draw(CHARTS["last 120"])
    image = Image.open(io.BytesIO(picture.png))
    assert (image.format, image.mode, image.info) == ("PNG", "RGB", {})
    assert (picture.width, picture.height) == image.size
    assert b"tEXt" not in picture.png
    assert len(picture.png) < 60_000
