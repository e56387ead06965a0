"""load: the load tester, against servers that take everything, too little, or fail."""

from __future__ import annotations

import contextlib
import sqlite3
import threading

from tests.cli.shell import Serve, Shell

TOPICS = {
    "system.events": "ops_services",
    "ingest-heartbeat": "ingest_pipelines",
    "market-ticks": "market_ticks_latest",
    "market-bars-1m": "market_bars_1m",
    "trade-signals": "trade_signals",
}


def test_every_built_in_topic_gets_valid_unique_events(shell: Shell, serve: Serve) -> None:
    """Whatever the topic, all requests are acked and each one is an event of its own."""
    url = serve().url
    for topic in TOPICS:
        options = ["--topic", topic, "--requests", "150", "--concurrency", "20"]
        summary = shell.ok("load", "--url", f"{url}/pubsub/push", *options, "--json").json
        assert summary["answers"] == {"200": 150}
        assert 0 < summary["latencyMs"]["p50"] <= summary["latencyMs"]["p99"] <= summary["latencyMs"]["max"]
    counts = {row["collection"]: row["docs"] for row in shell.ok("ls", "--json").json["collections"]}
    assert "dead_letters" not in counts
    assert {counts[collection] for collection in TOPICS.values()} == {100}
    assert counts["market_ticks"] == 150


def test_backpressure_is_no_failure(shell: Shell, serve: Serve) -> None:
    """A tiny queue that stays full answers 429 to some, which is explained and exits with 0."""
    server = serve(env={"CONSUMER_QUEUE_SIZE": "1"})
    with contextlib.closing(sqlite3.connect(shell.store, isolation_level=None, check_same_thread=False)) as other:
        # Nothing can be committed meanwhile, longer than a message waits for room.
        other.execute("BEGIN IMMEDIATE")
        later = threading.Timer(2.0, other.execute, ("ROLLBACK",))
        later.start()
        ran = shell.ok("load", "--url", server.url, "--requests", "400", "--concurrency", "50")
        later.join()
    assert "backpressure: the queue was full" in ran.out
    assert "acked: the store holds it" in ran.out
    assert "p99" in ran.out


def test_server_errors_exit_with_1(shell: Shell, serve: Serve) -> None:
    """Any 5xx makes the answer negative."""
    (shell.folder / "buggy.py").write_text(
        "from millpond import Latest\n\n\nclass Buggy(Latest):\n    topics = ('system.events',)\n"
        "    collection = 'buggy'\n    key = 'service'\n\n    def document(self, event):\n        return 1 / 0\n"
    )
    url = serve(env={"VIEWS": "buggy"}).url
    ran = shell.run("load", "--url", url, "--requests", "5", "--json")
    assert (ran.code, ran.json["answers"]) == (1, {"503": 5})
