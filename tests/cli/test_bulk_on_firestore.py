"""Bulk work on Google's Firestore emulator: the bar of each command says how fast it is, and why not faster."""

from __future__ import annotations

import re

import pytest

from tests.cli.orders import CHANGED, ORDERS, STRICT
from tests.cli.shell import Shell
from tests.common.push import PUBLISHED

# A view that waits for a fix is a bug of code; a missing field is poison, and makes a letter at once.
BESIDE = re.compile(r"(\d+) operations/s, ramping up: 500 operations/s, half as much again every 5 minutes")


@pytest.fixture
def cloud(shell: Shell, firestore_emulator: str, project: str) -> Shell:
    names = {
        "STORE": "firestore",
        "GCP_PROJECT": project,
        "ENV": "test",
        "FIRESTORE_EMULATOR_HOST": firestore_emulator,
    }
    shell.environment |= {**names, "BUILT_IN_VIEWS": "none", "VIEWS": "orders", "BULK_PACE": "on"}
    return shell


def use(shell: Shell, view: str) -> None:
    (shell.folder / "orders.py").write_text(view)


def order(number: int) -> dict[str, object]:
    data = {"orderId": f"o{number}", "at": PUBLISHED, "depot": "north"}
    if number % 2:
        data["quantity"] = "1"
    return {"topic": "orders", "data": data, "messageId": f"m{number}", "publishTime": PUBLISHED}


def test_ingest_replay_and_rebuild_on_firestore_say_how_fast_they_are(cloud: Shell) -> None:
    """No bar shows more than the rule allows, and everything arrives."""
    use(cloud, STRICT)
    name = cloud.write("orders.jsonl", *map(order, range(400)))
    ingested = cloud.on_terminal("ingest", name)
    assert ingested.code == 1, "half of them are poison"
    assert "400 messages in" in ingested.out
    use(cloud, ORDERS)
    replayed = cloud.on_terminal("dlq", "replay", "--all")
    assert replayed.code == 0
    use(cloud, CHANGED)
    rebuilt = cloud.on_terminal("rebuild", "orders", "--yes")
    assert "documents written: 400" in rebuilt.out
    for label, ran in (("Ingesting", ingested), ("Replaying", replayed), ("Swapping", rebuilt)):
        assert label in ran.out
        rates = [int(found) for found in BESIDE.findall(ran.out)]
        assert rates, ran.out
        assert max(rates) < 600, label
