"""dlq list, show, replay and purge, through a running server and without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.orders import ORDERS, STRICT
from tests.cli.shell import Serve, Shell
from tests.common.process import Ran

HOSTILE = b"not json \x1b[2J\x1b]0;owned\x07 \xc2\x9b31m [bold]x[/bold]\nmessage   forged\r\n\xff"


def order(number: int) -> dict[str, Any]:
    data = {"orderId": f"o{number}", "at": f"2026-01-08T12:00:0{number}Z"}
    return {"topic": "orders", "data": data, "messageId": f"m{number}", "publishTime": "2026-01-08T12:00:10Z"}


def unroutable(number: int) -> dict[str, Any]:
    return {"data": {"n": number}, "messageId": f"u{number}", "publishTime": "2026-01-08T12:00:10Z"}


@pytest.fixture
def buried(shell: Shell) -> Shell:
    """Two orders and an unroutable message in the letters, and the view fixed since."""
    shell.environment["VIEWS"] = "orders"
    (shell.folder / "orders.py").write_text(STRICT)
    assert shell.run("ingest", shell.write("o.jsonl", order(1), order(2), unroutable(3))).code == 1
    (shell.folder / "orders.py").write_text(ORDERS)
    return shell


@pytest.fixture
def either_way(buried: Shell, start: Callable[[], object]) -> Shell:
    start()
    return buried


def ids(ran: Ran) -> list[str]:
    return [letter["id"] for letter in ran.json["letters"]]


def test_list_filters_and_pages(buried: Shell) -> None:
    """Letters are found by reason and by topic, and a page says where the next one starts."""
    assert ids(buried.ok("dlq", "list", "--json")) == ["-__m1", "-__m2", "-__u3"]
    assert ids(buried.ok("dlq", "list", "--reason", "unroutable_payload", "--json")) == ["-__u3"]
    assert ids(buried.ok("dlq", "list", "--topic", "orders", "--json")) == ["-__m1", "-__m2"]
    page = buried.ok("dlq", "list", "--limit", "2", "--json").json
    assert page["next"] == "-__m2"
    text = buried.ok("dlq", "list", "--reason", "invalid_event")
    assert "quantity is missing" in text.out
    assert "u3" not in text.out


def test_letters_are_chosen_by_the_time_of_their_burial(buried: Shell) -> None:
    """In the list, and for a replay and a purge of all that match."""
    early = buried.ok("dlq", "show", "-__m2", "--json").json["buriedAt"]
    assert buried.run("ingest", buried.write("u.jsonl", unroutable(4), unroutable(5))).code == 1
    late = buried.ok("dlq", "show", "-__u4", "--json").json["buriedAt"]
    assert ids(buried.ok("dlq", "list", "--since", late, "--json")) == ["-__u4", "-__u5"]
    assert ids(buried.ok("dlq", "list", "--until", late, "--json")) == ["-__m1", "-__m2", "-__u3"]
    assert ids(buried.ok("dlq", "list", "--since", "1h", "--reason", "unroutable_payload", "--json")) == [
        *("-__u3", "-__u4", "-__u5")
    ]
    assert "no letters like that" in buried.ok("dlq", "list", "--until", "1h").err
    url = buried.serve().url
    assert ids(buried.ok("dlq", "list", "--url", url, "--since", late, "--json")) == ["-__u4", "-__u5"]
    assert ids(
        buried.ok("dlq", "list", "--url", url, "--since", "1h", "--until", late, "--topic", "orders", "--json")
    ) == [*("-__m1", "-__m2")]
    replayed = buried.ok("dlq", "replay", "--all", "--until", late, "--topic", "orders", "--json").json["letters"]
    assert sorted(letter["id"] for letter in replayed) == ["-__m1", "-__m2"]
    purged = buried.ok("dlq", "purge", "--all", "--since", late, "--yes", "--json").json
    assert (purged["purged"], purged["missing"]) == (["-__u4", "-__u5"], [])
    assert ids(buried.ok("dlq", "list", "--since", early[:4] + "-01-01T00:00:00Z", "--json")) == [
        *("-__m1", "-__m2", "-__u3")
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("list", "--since", "yesterday"), "--since must be a time such as"),
        (("purge", "--all", "--yes", "--since", "1h", "--until", "2h"), "--since must be before until"),
        (("purge", "-__m1", "--yes", "--until", "1h"), "go with --all"),
    ],
)
def test_a_wrong_range_changes_nothing(buried: Shell, arguments: tuple[str, ...], text: str) -> None:
    """It is refused with what is allowed."""
    ran = buried.run("dlq", *arguments)
    assert ran.code == 2
    assert text in ran.err
    assert len(ids(buried.ok("dlq", "list", "--json"))) == 3


def test_replay_applies_what_was_healed(either_way: Shell) -> None:
    """Replaying by reason applies those letters, notes it on them, and loses none."""
    ran = either_way.ok("dlq", "replay", "--all", "--reason", "invalid_event", "--json")
    assert ran.json["summary"] == {"applied": 2}
    assert either_way.ok("get", "orders/o1", "--json").json["data"]["orderId"] == "o1"
    assert ids(either_way.ok("dlq", "list", "--json")) == ["-__m1", "-__m2", "-__u3"]
    assert ids(either_way.ok("dlq", "list", "--replayed", "--json")) == ["-__m1", "-__m2"]
    assert "duplicate" in either_way.ok("dlq", "replay", "-__m1").out


def test_a_purge_of_what_was_replayed_leaves_what_failed_again(either_way: Shell) -> None:
    """Each letter is listed with its state; `--replayed` means those that were replayed successfully."""
    assert either_way.run("dlq", "replay", "-__m1", "-__u3").code == 1
    letters = either_way.ok("dlq", "list", "--json").json["letters"]
    states = {letter["id"]: letter["state"] for letter in letters}
    assert states == {"-__m1": "succeeded", "-__m2": "never", "-__u3": "failed"}
    (line,) = either_way.ok("dlq", "list", "--state", "failed").out.splitlines()[1:]
    assert {"-__u3", "failed"} <= set(line.split())
    assert "state failed" in " ".join(either_way.ok("dlq", "show", "-__u3").out.split())
    assert either_way.ok("dlq", "purge", "--all", "--replayed", "--yes", "--json").json["purged"] == ["-__m1"]
    assert ids(either_way.ok("dlq", "list", "--json")) == ["-__m2", "-__u3"]
    assert either_way.run("dlq", "replay", "--all", "--state", "failed", "--json").json["summary"] == {"poison": 1}
    purged = either_way.ok("dlq", "purge", "--all", "--state", "failed", "--yes", "--json").json["purged"]
    assert purged == ["-__u3"]


def test_replay_of_what_fails_again_exits_with_1(either_way: Shell) -> None:
    """What is still poison, or not there, is named, the rest is applied, and the letters stay."""
    ran = either_way.run("dlq", "replay", "-__m1", "-__u3", "nosuch/letter")
    assert ran.code == 1
    assert "unroutable_payload" in ran.out
    counts = [line.split() for line in ran.out.splitlines()[-3:]]
    assert sorted(counts) == [["applied", "1"], ["not_found", "1"], ["poison", "1"]]
    letter = either_way.ok("dlq", "show", "-__u3", "--json").json
    assert (letter["replays"], letter["replayOutcome"]) == (1, "poison")


def test_purge_deletes_only_what_was_named(either_way: Shell) -> None:
    """Purging says what was missing and leaves the rest, by name and by reason."""
    ran = either_way.run("dlq", "purge", "--yes", "-__m1", "nosuch", "--json")
    assert (ran.code, ran.json["purged"], ran.json["missing"]) == (1, ["-__m1"], ["nosuch"])
    by_reason = either_way.ok("dlq", "purge", "--all", "--reason", "unroutable_payload", "--yes")
    assert by_reason.out == "Purged 1 of 1 letter.\n"
    assert ids(either_way.ok("dlq", "list", "--json")) == ["-__m2"]


@pytest.mark.parametrize(
    ("arguments", "said"), [(("--all",), "--yes"), (("--state", "failed", "-__m1", "--yes"), "--all")]
)
def test_a_purge_that_is_not_clear_purges_none(buried: Shell, arguments: tuple[str, ...], said: str) -> None:
    """It needs --yes where no person can be asked; and a state is for all letters, not beside ids."""
    refused = buried.run("dlq", "purge", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    assert len(ids(buried.ok("dlq", "list", "--json"))) == 3


def test_purge_asks_on_a_terminal(shell: Shell) -> None:
    """A person is asked; no keeps the letter, yes deletes it."""
    shell.run("ingest", shell.write("u.jsonl", unroutable(1)))
    no = shell.on_terminal("dlq", "purge", "--all", keys=b"n\n")
    assert (no.code, "Purge 1 letter forever?" in no.out) == (1, True)
    assert ids(shell.ok("dlq", "list", "--json")) == ["-__u1"]
    assert shell.on_terminal("dlq", "purge", "--all", keys=b"y\n").code == 0
    assert ids(shell.ok("dlq", "list", "--json")) == []


def test_show_escapes_hostile_payloads(shell: Shell) -> None:
    """A payload can neither send control sequences to the terminal nor forge lines of the envelope."""
    message = {"messageId": "evil", "publishTime": "2026-01-08T12:00:00Z", "data": "!"}
    shell.run("ingest", shell.write("e.jsonl", {"message": message, "subscription": "s\x1b[31m"}))
    (letter,) = ids(shell.ok("dlq", "list", "--json"))
    text = shell.ok("dlq", "show", letter).out
    assert "\x1b" not in text
    assert r"\x1b[31m" in text
    assert json.loads(shell.ok("dlq", "show", "--json", letter).out)["subscription"] == "s\x1b[31m"


def test_show_keeps_the_payload_behind_a_margin(shell: Shell, serve: Serve) -> None:
    """Every line of the payload stands behind a margin, escaped, on a pipe and on a terminal alike."""
    serve()
    (shell.folder / "hostile").write_bytes(HOSTILE)
    shell.run("publish", "--topic", "t", "--raw", "hostile", "--message-id", "evil")
    piped = shell.ok("dlq", "show", "cli__evil").out
    terminal = shell.on_terminal("dlq", "show", "cli__evil").out
    for shown in (piped, terminal):
        payload = shown[shown.index("payload\n") :].splitlines()[1:]
        assert all(line.startswith("  | ") for line in payload)
        assert payload[0] == r"  | not json \x1b[2J\x1b]0;owned\x07 \x9b31m [bold]x[/bold]"
        assert payload[1] == "  | message   forged"
        assert not set(shown) & set("\x1b\x07\x9b")


def test_a_subscription_that_cannot_be_reached(shell: Shell) -> None:
    """One line that names it, also where nothing listens."""
    shell.ok("ingest", shell.write("none.jsonl"))
    ran = shell.run("dlq", "replay", "--subscription", "s", env={"PUBSUB_EMULATOR_HOST": "127.0.0.1:1"})
    assert ran.code == 3
    assert "projects/local/subscriptions/s" in ran.err


def test_a_dry_run_shows_what_a_replay_would_change_and_writes_nothing(either_way: Shell) -> None:
    """By the views of today: what would be applied, what would still fail, and each document before and after."""
    before = either_way.ok("ls", "--json").json
    ran = either_way.run("dlq", "replay", "--all", "--dry-run", "--json")
    assert ran.code == 1, "one of them would still be poison"
    told = ran.json
    assert told["summary"] == {"applied": 2, "poison": 1}
    assert [(change["doc"], change["before"], change["after"]["orderId"]) for change in told["changes"]] == [
        ("orders/o1", None, "o1"),
        ("orders/o2", None, "o2"),
    ]
    assert either_way.ok("ls", "--json").json == before
    assert "replayOutcome" not in either_way.ok("dlq", "show", "-__m1", "--json").json
    assert either_way.ok("dlq", "replay", "-__m1", "--json").json["summary"] == {"applied": 1}
    again = either_way.ok("dlq", "replay", "-__m1", "--dry-run")
    assert "duplicate" in again.out
    assert "A replay would write 0 documents, with the views that this command loads" in again.err
    assert "Nothing was written." in again.err


def test_a_dry_run_shows_fields_and_who_decides(buried: Shell) -> None:
    """Against a document that is there: only what would change, and which message stands there."""
    newer = {**order(1), "messageId": "newer"}
    newer["data"] = {**newer["data"], "quantity": 7, "at": "2026-01-08T12:00:00.5Z"}
    buried.ok("ingest", buried.write("n.jsonl", newer))
    shown = buried.ok("dlq", "replay", "-__m1", "--dry-run")
    assert "quantity" in shown.out
    assert "decided by" in shown.out
    assert "newer" in shown.out
