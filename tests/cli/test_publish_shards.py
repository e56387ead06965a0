"""`millpond publish --shards`: what a producer for shards sends, sent from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from millpond import shard_of
from tests.cli.shell import Shell

# Poison: a letter shows the attributes that arrived.
BAD = ("publish", "--topic", "system.events", "--data", '{"nothing": 1}')
SHARDED = ("--shards", "8", "--shard-key", "AAPL")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(Path(tmp_path_factory.mktemp("shards")))
    shell.serve()
    yield shell
    shell.close()


def sent(shell: Shell, message_id: str, *options: str) -> dict[str, str]:
    """The attributes of a message as the server got it."""
    assert shell.run(*BAD, "--message-id", message_id, *options).code == 1
    letter = shell.ok("dlq", "show", f"cli__{message_id}", "--json").json
    attributes: dict[str, str] = json.loads(letter["attributes"])
    return attributes


def test_the_message_carries_the_shard_of_its_key(served: Shell) -> None:
    """Beside its topic and the attributes that were given; the number is that of `millpond.shard_of`."""
    assert sent(served, "m-1", *SHARDED, "--attribute", "a=b") == {
        "topic": "system.events",
        "a": "b",
        "shard": shard_of("AAPL", 8),
    }


def test_without_the_option_there_is_no_shard(served: Shell) -> None:
    """Unless it is given as an attribute, which is taken as it is."""
    assert sent(served, "m-2") == {"topic": "system.events"}
    assert sent(served, "m-3", "--attribute", "shard=any") == {"topic": "system.events", "shard": "any"}


def test_the_answer_says_which_shard_it_was(served: Shell) -> None:
    """In the first line and in the JSON; the document is the same as without a shard."""
    data = '{"service": "api", "status": "ok", "timestamp": "2026-01-08T12:00:00Z"}'
    event = ("publish", "--topic", "system.events", "--data", data, "--message-id", "m-4")
    first = served.ok(*event, *SHARDED).out.splitlines()[0]
    assert first.startswith(f"200 applied, message m-4, shard {shard_of('AAPL', 8)}, through http://")
    again = served.ok(*event, *SHARDED, "--json").json
    assert (again["outcome"], again["shard"]) == ("duplicate", shard_of("AAPL", 8))
    assert "shard" not in served.ok(*event, "--json").json
    assert "shard" not in served.ok(*event).out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--shards", "8"], "give --shards N and --shard-key KEY together"),
        (["--shard-key", "AAPL"], "give --shards N and --shard-key KEY together"),
        ([*SHARDED, "--attribute", "shard=2"], "give the shard either with --shards or with --attribute shard=…"),
        (["--shards", "0", "--shard-key", "AAPL"], "0 is not in the range 1<=x<=1000"),
        (["--shards", "1001", "--shard-key", "AAPL"], "1001 is not in the range 1<=x<=1000"),
        (["--shards", "some", "--shard-key", "AAPL"], "'some' is not a valid integer"),
        (["--shards", "8", "--shard-key", ""], "--shard-key: the key of a shard is empty"),
    ],
)
def test_a_wrong_use_sends_nothing(shell: Shell, options: list[str], words: str) -> None:
    """One line on standard error and exit code 2, before any server is looked for."""
    ran = shell.run(*BAD, *options)
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.err.splitlines()
    assert line.startswith("millpond: ")
    assert words in line
