"""What is shown of an exception in a view: type and line always, its text and its calls only in full."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from millpond import Latest
from millpond.core.errors import Unavailable, ViewError, explained, trace_of
from tests.common.pond import Pond, delivery

HERE = Path(__file__)


class Prices(Latest):
    topics = ("t",)
    collection = "prices"
    key = "id"

    def document(self, event: Any) -> Any:
        return {"cents": self._cents(event.payload)}

    def _cents(self, payload: dict[str, Any]) -> int:
        return int(payload["price"])


class Deep(Prices):
    """Never ends."""

    def _cents(self, payload: dict[str, Any]) -> int:
        return self._cents(payload)


class Clumsy(Prices):
    """Calls the event wrongly: the exception is raised in our code."""

    def document(self, event: Any) -> Any:
        return {"cents": event.integer()}


def raised(view: Latest, **payload: Any) -> ViewError:
    fault = Pond([view]).route(delivery({"id": "a", **payload}, attributes={"topic": "t"})).fault
    assert isinstance(fault, ViewError)
    return fault


def line_of(text: str) -> int:
    """The line of this file that is this text."""
    return 1 + [line.strip() for line in HERE.read_text(encoding="utf-8").splitlines()].index(text)


def test_the_text_names_type_and_line_only() -> None:
    """An exception may quote the payload, and this text goes everywhere."""
    fault = raised(Prices(), price="s3cr3t")
    line = line_of('return int(payload["price"])')
    assert str(fault) == f"the view prices raised ValueError at {HERE.name}:{line}"
    assert (explained(fault), trace_of(fault)) == (str(fault), None)


def test_in_full_the_exception_and_its_calls_are_shown() -> None:
    """From the view's method inward, as Python prints them; no call of Millpond."""
    fault = raised(Prices(), price="s3cr3t")
    fault.in_full = True
    said = "invalid literal for int() with base 10: 's3cr3t'"
    assert explained(fault) == f"{fault}: {said}"
    outer, inner = line_of('return {"cents": self._cents(event.payload)}'), line_of('return int(payload["price"])')
    assert trace_of(fault) == "\n".join(
        [
            f'File "{HERE}", line {outer}, in Prices.document',
            f'File "{HERE}", line {inner}, in Prices._cents',
            f"ValueError: {said}",
        ]
    )


def test_an_exception_in_our_code_is_shown_at_the_line_of_the_view() -> None:
    """A line of ours says nothing to the author of a view."""
    fault = raised(Clumsy())
    line = line_of('return {"cents": event.integer()}')
    assert str(fault) == f"the view prices raised TypeError at {HERE.name}:{line}"
    assert "millpond" not in fault.trace.rpartition("\n")[0].replace(str(HERE), "")


def test_a_long_traceback_has_an_end() -> None:
    """The first calls and the last ones are kept."""
    lines = raised(Deep()).trace.splitlines()
    assert len(lines) == 22
    assert "in Prices.document" in lines[0]
    assert lines[5].startswith("... ")
    assert lines[5].endswith(" calls are left out")
    assert int(lines[5].split()[1]) > sys.getrecursionlimit() // 2
    assert lines[-1].startswith("RecursionError")


def test_a_long_text_has_an_end_and_is_storable() -> None:
    """It may be the whole payload, with characters that neither a store nor a log takes."""
    fault = ViewError("boxes", ValueError("\ud800" * 2_000_000))
    assert len(fault.trace) < 1_200
    assert fault.detail == "?" * 1_000
    fault.trace.encode()


@pytest.mark.parametrize("error", [None, Unavailable("away"), ValueError("x")], ids=repr)
def test_other_errors_have_their_text_and_no_trace(error: BaseException | None) -> None:
    assert (explained(error), trace_of(error)) == ("" if error is None else str(error), None)
