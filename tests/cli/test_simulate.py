"""`millpond simulate`: what it prints, what it exits with, what it refuses."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from millpond.cli.root import cli
from millpond.sim.rare_states import RARE
from millpond.sim.runner import FAULTS


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["simulate", *words])
    return result.exit_code, result.output


def test_worlds_that_hold_are_summed_up() -> None:
    code, output = run("--seeds", "4", "--start", "10", "--jobs", "1")

    assert code == 0
    assert "4 worlds from seed 10" in output
    assert output.splitlines()[-1] == "every guarantee held"
    for name in (*FAULTS, *RARE):
        assert f"\n{name} " in output


def test_json_is_one_document() -> None:
    code, output = run("--seeds", "4", "--jobs", "1", "--json")
    summary = json.loads(output)

    assert code == 0
    assert (summary["seeds"], summary["failures"], summary["shrunk"]) == (4, [], None)
    assert summary["faults"].keys() == set(FAULTS)
    assert summary["rare"].keys() == set(RARE)


def test_two_processes_find_what_one_finds() -> None:
    alone = json.loads(run("--seeds", "20", "--jobs", "1", "--json")[1])
    together = json.loads(run("--seeds", "20", "--jobs", "2", "--json")[1])

    assert alone == together


def test_rare_states_that_nobody_reached_are_named() -> None:
    code, output = run("--seeds", "1", "--jobs", "1", "--require-rare")

    assert code == 1
    assert "rare states that no world reached: " in output.splitlines()[-1]


def test_one_seed_is_told_with_its_trace() -> None:
    code, output = run("--seed", "3", "--trace")

    assert code == 0
    assert " starts" in output.splitlines()[0]
    assert output.splitlines()[-1] == "every guarantee held"


def test_one_seed_can_be_made_smaller_by_hand() -> None:
    messages = json.loads(run("--seed", "3", "--json")[1])["messages"]
    fewer = json.loads(run("--seed", "3", "--messages", "none", "--faults", "none", "--json")[1])

    assert messages > 0
    assert fewer["messages"] == 0
    assert fewer["failure"] is None


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--trace",), "need --seed"),
        (("--faults", "crash_every_s"), "need --seed"),
        (("--seed", "1", "--faults", "rain"), "'rain' is none of"),
        (("--seed", "1", "--messages", "rain"), "seed 1 publishes no rain"),
        (("--seed", "1", "--seeds", "5"), "--seeds makes no sense with --seed"),
        (("--seed", "1", "--require-rare"), "--require-rare makes no sense with --seed"),
        (("--seeds", "0"), "0 is not in the range"),
        (("--seed", "-1"), "-1 is not in the range"),
    ],
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], text: str) -> None:
    code, output = run(*words)

    assert code == 2
    assert text in output
