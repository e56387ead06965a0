"""`millpond cost` if there is no bill. With one: tests/instances/test_cost.py."""

from __future__ import annotations

from tests.cli.shell import Shell


def test_an_embedded_store_has_no_bill(shell: Shell) -> None:
    """Also if there is no file yet, and in memory."""
    for store in (f"sqlite:{shell.store}", "memory"):
        ran = shell.run("cost", "--store", store)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == (
            f"millpond: STORE={store} has no bill: `millpond cost` is for STORE=firestore, or for the --url of a "
            "server on it\n"
        )


def test_a_server_on_an_embedded_store_has_no_bill(shell: Shell) -> None:
    """Asked over HTTP, the answer is the same."""
    server = shell.serve()
    ran = shell.run("cost", "--url", server.url, "--json")
    assert (ran.code, ran.out) == (2, "")
    assert "only STORE=firestore has a bill" in ran.err
    answer = server.get("/api/cost")
    assert (answer.status, answer.json["reason"]) == (404, "store_without_bill")
