"""Inputs → requests: what is asked for, what is refused, and with which words."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from millpond.charts.request import BARS_MAX, ChartFailure, Request, parse_inputs, symbol_of
from millpond.core import timestamps
from millpond.core.errors import StepFailed

T = "2026-01-08T14:30:00Z"
T_US = timestamps.parse(T, "t")
MINUTE = 60_000_000


def one(fields: Any, **step: Any) -> Request | ChartFailure:
    (request,) = parse_inputs(step, {"requests": [fields]}).requests
    return request


@pytest.mark.parametrize("symbol", ["spy", " SPY ", "SPY"])
def test_the_symbol_is_written_as_the_view_writes_it(symbol: str) -> None:
    """Upper-case, without the space around it."""
    assert symbol_of({"scope": {"symbol": symbol}}) == "SPY"


@pytest.mark.parametrize(
    "run",
    [{}, {"scope": None}, {"scope": "SPY"}, {"scope": {}}, {"scope": {"symbol": 7}}, {"scope": {"symbol": " "}}],
)
def test_a_run_without_a_symbol_is_told_what_to_do(run: dict[str, Any]) -> None:
    """MISSING_SYMBOL, and the text shows where it belongs."""
    with pytest.raises(StepFailed, match="scope") as failed:
        symbol_of(run)
    assert failed.value.code == "MISSING_SYMBOL"


def test_a_symbol_no_document_can_be_named_after_is_refused() -> None:
    """Otherwise the search for its bars would fail somewhere deeper."""
    with pytest.raises(StepFailed, match="1500 bytes") as failed:
        symbol_of({"scope": {"symbol": "🚀" * 500}})
    assert failed.value.code == "INVALID_INPUTS"


def test_nothing_asked_is_one_chart_of_the_last_minutes() -> None:
    """Every input has a default."""
    inputs = parse_inputs({}, {})
    assert inputs == ("1m", 1, [Request(index=1, timeframe="1m", template=None, start=None, end=None)])
    assert parse_inputs({"timeframe": None}, {"minImages": None, "requests": None, "timeframe": None}) == inputs


@pytest.mark.parametrize(
    ("step", "inputs", "request_fields", "expected"),
    [
        ({}, {}, {}, "1m"),
        ({}, {"timeframe": "5m"}, {}, "5m"),
        ({"timeframe": "15m"}, {"timeframe": "5m"}, {}, "15m"),
        ({"timeframe": "15m"}, {"timeframe": "5m"}, {"timeframe": "1h"}, "1h"),
    ],
)
def test_the_nearest_timeframe_counts(
    step: dict[str, Any], inputs: dict[str, Any], request_fields: dict[str, Any], expected: str
) -> None:
    """The request's, else the step's, else the inputs'."""
    (request,) = parse_inputs(step, {**inputs, "requests": [request_fields]}).requests
    assert request.timeframe == expected


@pytest.mark.parametrize(
    ("value", "us"),
    [
        (T, T_US),
        ("2026-01-08T15:30:00+01:00", T_US),
        (T_US // 1_000_000, T_US),
        (T_US // 1_000, T_US),
        (dt.datetime(2026, 1, 8, 14, 30, tzinfo=dt.UTC), T_US),
        (dt.datetime(2026, 1, 8, 9, 30, tzinfo=dt.timezone(dt.timedelta(hours=-5))), T_US),
        ("2026-01-08T14:30:00.000001Z", T_US + MINUTE),
        ("2026-01-08T14:29:01Z", T_US),
    ],
)
def test_times_come_in_every_form_a_document_or_json_has(value: Any, us: int) -> None:
    """And move up to where the next bar starts, so that no bar is cut."""
    request = one({"from": value})
    assert isinstance(request, Request)
    assert (request.start, request.end) == (us, None)


def test_the_window_is_whole_bars_of_its_timeframe() -> None:
    """A bar is in it if it starts in it: from is included, to is not."""
    request = one({"timeframe": "5m", "from": "2026-01-08T14:31:00Z", "to": "2026-01-08T14:45:00Z"})
    assert isinstance(request, Request)
    assert (request.start, request.end) == (T_US + 5 * MINUTE, T_US + 15 * MINUTE)
    assert request.step == 5 * MINUTE


@pytest.mark.parametrize(
    ("step", "inputs", "words"),
    [
        ({"timeframe": "2m"}, {}, "timeframe must be one of 1m, 5m, 15m, 1h"),
        ({"timeframe": 5}, {}, "timeframe must be one of"),
        ({}, {"timeframe": ["1m"]}, "timeframe must be one of"),
        ({}, {"requests": {}}, "a list of 1 to 50"),
        ({}, {"requests": []}, "a list of 1 to 50"),
        ({}, {"requests": [{}] * 51}, "a list of 1 to 50"),
        ({}, {"minImages": -1}, "whole number from 0 to the number of requests, which is 1"),
        ({}, {"minImages": 2}, "which is 1"),
        ({}, {"minImages": 1.0}, "whole number"),
        ({}, {"minImages": True}, "whole number"),
        ({}, {"minImages": "1"}, "whole number"),
        ({}, {"minImages": 4, "requests": [{}] * 3}, "which is 3"),
    ],
)
def test_a_fault_of_the_whole_fails_the_step(step: dict[str, Any], inputs: dict[str, Any], words: str) -> None:
    """INVALID_INPUTS, and what is allowed."""
    with pytest.raises(StepFailed, match=words) as failed:
        parse_inputs(step, inputs)
    assert failed.value.code == "INVALID_INPUTS"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("5m", "a request must be a map, not text"),
        ({"timeframe": "1d"}, "timeframe must be one of"),
        ({"timeframe": {}}, "timeframe must be one of"),
        ({"from": "yesterday"}, "from must be an RFC 3339 time with an offset"),
        ({"to": "2026-01-08T14:30:00"}, "to must be an RFC 3339 time with an offset"),
        ({"to": dt.datetime(2026, 1, 8)}, "to must be an RFC 3339 time or an epoch number"),  # noqa: DTZ001
        ({"to": True}, "to must be"),
        ({"from": T, "to": T}, "to must be later than from"),
        ({"from": T, "to": "2026-01-08T14:00:00Z"}, "to must be later than from"),
        ({"from": T_US // 10**6, "to": T_US // 10**6 + 60 * BARS_MAX + 1}, "at most 5,000 bars of 1m apart"),
        ({"chartTemplateId": 7}, "chartTemplateId must be text"),
        ({"chartTemplateId": "x" * 201}, "chartTemplateId must be text of at most 200"),
        ({"timeframe": "1d", "from": "soon"}, "timeframe must be one of 1m, 5m, 15m, 1h; from must be"),
    ],
)
def test_a_fault_of_one_request_is_its_own(fields: Any, words: str) -> None:
    """INVALID_REQUEST with every fault; what could be read of it is kept."""
    failure = one(fields)
    assert isinstance(failure, ChartFailure)
    assert failure.code == "INVALID_REQUEST"
    assert words in failure.message


def test_a_window_may_be_as_long_as_the_limit() -> None:
    """5,000 bars of the timeframe, not of minutes."""
    start = T_US // 10**6
    assert isinstance(one({"from": start, "to": start + 60 * BARS_MAX}), Request)
    assert isinstance(one({"timeframe": "1h", "from": 0, "to": 3600 * BARS_MAX}), Request)
    assert isinstance(one({"timeframe": "1h", "from": 0, "to": 3600 * BARS_MAX + 1}), ChartFailure)


def test_requests_are_counted_from_one_and_faults_do_not_shift_them() -> None:
    """The number in a file's name is the place in the list."""
    requests = parse_inputs({}, {"requests": [{}, {"timeframe": "x"}, {"chartTemplateId": "dark"}]}).requests
    assert [(r.index, r.timeframe, r.template) for r in requests] == [
        (1, "1m", None),
        (2, None, None),
        (3, "1m", "dark"),
    ]
