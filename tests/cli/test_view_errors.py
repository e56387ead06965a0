"""What a user sees on the terminal when a view of theirs raises."""

from __future__ import annotations

import pytest

from tests.cli.orders import ORDERS
from tests.cli.shell import Serve, Shell

# Raises KeyError if there is no price, in a function that the view calls.
BUGGY = (
    ORDERS.replace('event.get("quantity")', "cents(event)")
    + '\n\ndef cents(event):\n    return event.payload["price"]\n'
)
ORDER = '{"orderId": "o-1", "at": "2026-01-08T12:00:00Z"}'
CALLS = ["in Orders.document", "in cents", "KeyError: 'price'"]


@pytest.fixture
def buggy(shell: Shell) -> Shell:
    (shell.folder / "orders.py").write_text(BUGGY)
    shell.environment["VIEWS"] = "orders"
    return shell


def is_traceback(lines: list[str]) -> bool:
    """Three lines with a margin: a call, a call, the exception."""
    marked = [line for line in lines if line.startswith("  | ")]
    return [call in line for call, line in zip(CALLS, marked, strict=True)] == [True] * 3


def test_publish_prints_the_traceback(buggy: Shell, serve: Serve) -> None:
    """On the own machine; with VIEW_ERRORS=brief it prints the type and the line."""
    server = serve(env=buggy.environment)
    publish = ("publish", "--url", server.url, "--topic", "orders", "--data", ORDER)
    ran = buggy.run(*publish)
    assert ran.code == 1
    assert "503 retry (view_error)" in ran.out
    assert "the view orders raised KeyError at orders.py:16: 'price'" in ran.out
    assert is_traceback(ran.out.splitlines())
    assert buggy.run(*publish, "--json").json["trace"].endswith("KeyError: 'price'")


def test_publish_prints_no_payload_of_a_brief_server(buggy: Shell, serve: Serve) -> None:
    server = serve(env={**buggy.environment, "VIEW_ERRORS": "brief"})
    ran = buggy.run("publish", "--url", server.url, "--topic", "orders", "--data", ORDER)
    assert "the view orders raised KeyError at orders.py:16\n" in ran.out
    assert "in cents" not in ran.out


def test_ingest_and_show_print_the_traceback(buggy: Shell) -> None:
    """`ingest` once for all messages that fail in the same place; `dlq show` and its JSON for the letter."""
    lines = [{"topic": "orders", "data": {"orderId": f"o{n}"}, "messageId": f"m{n}"} for n in range(3)]
    old = [{**line, "publishTime": "2026-01-08T12:00:10Z"} for line in lines]
    ran = buggy.run("ingest", buggy.write("o.jsonl", *old))
    assert ran.code == 1
    assert ran.err.count("the view orders raised KeyError at orders.py:16: 'price'") == 3
    assert is_traceback(ran.err.splitlines())
    shown = buggy.ok("dlq", "show", "-__m1").out.split("payload\n")[0]
    assert "trace\n" in shown
    assert is_traceback(shown.splitlines())
    assert buggy.ok("dlq", "show", "-__m1", "--json").json["trace"].endswith("KeyError: 'price'")


def test_brief_letters_have_no_trace(buggy: Shell) -> None:
    line = {"topic": "orders", "data": {"orderId": "o1"}, "messageId": "m1", "publishTime": "2026-01-08T12:00:10Z"}
    ran = buggy.run("ingest", buggy.write("o.jsonl", line), env={"VIEW_ERRORS": "brief"})
    assert ran.code == 1
    assert "in cents" not in ran.err
    assert "trace" not in buggy.ok("dlq", "show", "-__m1", "--json").json


def test_a_dry_run_says_what_a_view_still_raises(buggy: Shell) -> None:
    """So that a fix can be tried before the letters are replayed."""
    line = {"topic": "orders", "data": {"orderId": "o1"}, "messageId": "m1", "publishTime": "2026-01-08T12:00:10Z"}
    buggy.run("ingest", buggy.write("o.jsonl", line))
    dry = ("dlq", "replay", "--all", "--dry-run", "--json")
    (letter,) = buggy.run(*dry).json["letters"]
    assert letter["error"].endswith(": 'price'")
    assert letter["trace"].endswith("KeyError: 'price'")
    (letter,) = buggy.run(*dry, env={"VIEW_ERRORS": "brief"}).json["letters"]
    assert letter["error"].endswith("KeyError at orders.py:16")
    assert "trace" not in letter
