"""The symbol of an instrument, as ticks, bars and signals read it."""

from __future__ import annotations

from typing import Any

from millpond import Event, InvalidEvent, trimmed


def find_symbol(event: Event) -> str | None:
    """`symbol`, else `instrument.symbol`, in upper case, so that `spy` and `SPY` are one instrument."""
    memo = event.memo
    if "symbol" not in memo:
        symbol = event.text("symbol") or trimmed(instrument_symbol(event), "instrument.symbol")
        memo["symbol"] = symbol.upper() if symbol is not None else None
    return memo["symbol"]  # type: ignore[no-any-return]


def instrument_symbol(event: Event) -> Any:
    """`instrument.symbol` as it was sent; None if there is none."""
    instrument = event.payload.get("instrument")
    return instrument.get("symbol") if isinstance(instrument, dict) else None


def symbol_of(event: Event) -> str:
    symbol = find_symbol(event)
    if symbol is None:
        raise InvalidEvent("symbol is missing")
    return symbol
