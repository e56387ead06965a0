"""A CHART_EXPORT step's inputs → requests for charts, or failures. Pure. Called by `step.py`.

A fault of the inputs as a whole fails the step. A fault of one request fails that request; the others are drawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from millpond import Document, InvalidEvent, StepFailed, encode_id, to_text
from millpond.charts import times
from millpond.charts.times import MINUTE_US

TIMEFRAMES = {"1m": MINUTE_US, "5m": 5 * MINUTE_US, "15m": 15 * MINUTE_US, "1h": 60 * MINUTE_US}
BARS_DEFAULT = 120
BARS_MAX = 5_000
REQUESTS_MAX = 50
TEMPLATE_CHARS_MAX = 200

_TIMEFRAME_DEFAULT = "1m"
_TIMEFRAMES_ALLOWED = f"must be one of {', '.join(TIMEFRAMES)}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """One chart. `start` and `end` are the requested times in microseconds, rounded up to the start of a bar.

    So the chart holds exactly the bars that start in `[start, end)`, each complete.
    """

    # Counted from 1, as the file names are.
    index: int
    timeframe: str
    template: str | None
    start: int | None
    end: int | None

    @property
    def step(self) -> int:
        return TIMEFRAMES[self.timeframe]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChartFailure:
    """Why a request has no chart. Fields that could not be read are None."""

    index: int
    timeframe: str | None
    template: str | None
    code: str
    message: str


class Inputs(NamedTuple):
    """What the step was asked for."""

    timeframe: str
    images_min: int
    requests: list[Request | ChartFailure]


def symbol_of(run: Document) -> str:
    """The run's `scope.symbol`, as the bars view writes symbols."""
    scope = run.get("scope")
    symbol = scope.get("symbol") if isinstance(scope, dict) else None
    symbol = symbol.strip().upper() if isinstance(symbol, str) else ""
    if not symbol:
        raise StepFailed(
            "MISSING_SYMBOL", 'the run must name its instrument as text, such as scope: {symbol: "SPY"}'
        )
    try:
        encode_id(symbol, to_text(0))
    except InvalidEvent as error:
        raise StepFailed("INVALID_INPUTS", f"scope.symbol: {error}") from None
    return symbol


def parse_inputs(step: Mapping[str, Any], inputs: Mapping[str, Any]) -> Inputs:
    """The step's requests. Raises StepFailed for a fault of the whole."""
    timeframe = next((t for t in (step.get("timeframe"), inputs.get("timeframe")) if t is not None), None)
    timeframe = _TIMEFRAME_DEFAULT if timeframe is None else timeframe
    if not _is_timeframe(timeframe):
        raise StepFailed("INVALID_INPUTS", f"timeframe {_TIMEFRAMES_ALLOWED}")
    asked = inputs.get("requests")
    asked = [{}] if asked is None else asked
    if not isinstance(asked, list) or not 1 <= len(asked) <= REQUESTS_MAX:
        raise StepFailed("INVALID_INPUTS", f"inputs.requests must be a list of 1 to {REQUESTS_MAX} requests")
    images_min = inputs.get("minImages")
    images_min = len(asked) if images_min is None else images_min
    if type(images_min) is not int or not 0 <= images_min <= len(asked):
        raise StepFailed(
            "INVALID_INPUTS",
            f"inputs.minImages must be a whole number from 0 to the number of requests, which is {len(asked)}",
        )
    requests = [_parse_request(index, fields, timeframe) for index, fields in enumerate(asked, 1)]
    return Inputs(timeframe, images_min, requests)


def _parse_request(index: int, fields: Any, timeframe_default: str) -> Request | ChartFailure:
    """Reads every field, so that a failure reports as much of the request as possible."""
    faults: list[str] = []
    if not isinstance(fields, dict):
        faults.append(f"a request must be a map, not {_type_name(fields)}")
        fields = {}
    template = fields.get("chartTemplateId")
    if template is not None and not (isinstance(template, str) and len(template) <= TEMPLATE_CHARS_MAX):
        faults.append(f"chartTemplateId must be text of at most {TEMPLATE_CHARS_MAX} characters")
        template = None
    timeframe = fields.get("timeframe")
    timeframe = timeframe_default if timeframe is None else timeframe
    if not _is_timeframe(timeframe):
        faults.append(f"timeframe {_TIMEFRAMES_ALLOWED}")
        timeframe = None
    start, end = (_parse_time(fields.get(name), name, faults) for name in ("from", "to"))
    if timeframe is not None and not faults:
        step = TIMEFRAMES[timeframe]
        if start is not None and end is not None and end <= start:
            faults.append("to must be later than from")
        start, end = _up(start, step), _up(end, step)
        if start is not None and end is not None and end - start > BARS_MAX * step:
            faults.append(f"from and to must be at most {BARS_MAX:,} bars of {timeframe} apart")
    if timeframe is None or faults:
        return ChartFailure(
            index=index, timeframe=timeframe, template=template, code="INVALID_REQUEST", message="; ".join(faults)
        )
    return Request(index=index, timeframe=timeframe, template=template, start=start, end=end)


def _type_name(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _is_timeframe(value: Any) -> bool:
    return isinstance(value, str) and value in TIMEFRAMES


def _parse_time(value: Any, name: str, faults: list[str]) -> int | None:
    try:
        return None if value is None else times.parse(value, name)
    except InvalidEvent as error:
        faults.append(str(error))
        return None


def _up(us: int | None, step: int) -> int | None:
    """The first start of a bar at or after `us`."""
    return None if us is None else -(-us // step) * step
