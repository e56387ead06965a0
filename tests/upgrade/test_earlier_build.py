"""From the build before `source.order` to this one: a file it wrote, and both side by side on one Firestore."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.common.process import Ran, millpond
from tests.common.server import Server
from tests.upgrade.earlier_build import SETTINGS, STREAMS, at, earlier_server, messages, unpack_file

WORDS = pytest.mark.parametrize(("topic", "word", "collection"), STREAMS)


# --- a file that the earlier build wrote -------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of this build, on the earlier one's file."""
    unpack_file(tmp_path / "millpond.db")
    with Server(tmp_path, SETTINGS) as running:
        yield running


def send(server: Server, topic: str, message_id: str, published: int, **payload: Any) -> str:
    answer = server.send(payload, message_id=message_id, published=at(published), topic=topic)
    assert answer.status == 200, answer
    # Of a tick the history is what goes by event time, and it stands last.
    outcome: str = answer.json["views"][-1]["outcome"]
    return outcome


def event_time(server: Server, path: str) -> str:
    document = server.document(path)
    assert document is not None
    time: str = document["eventTime"]
    return time


@WORDS
def test_a_file_of_the_earlier_build_goes_on(server: Server, topic: str, word: str, collection: str) -> None:
    """Redelivered, older and newer events find the place its documents have by `eventTime`."""
    path, event = f"{collection}/{word}-1", {"eventId": f"{word}-1", "symbol": "SPY"}
    before = server.document(path)
    assert before is not None
    assert "order" not in before["source"]
    assert send(server, topic, f"{word}-m1", 120, **event, ts=at(60), close=2, note="newer") == "duplicate"
    assert send(server, topic, "older", 400, **event, ts=at(30), note="older, published later") == "stale_ignored"
    assert server.document(path) == before
    assert send(server, topic, "newer", 401, **event, ts=at(90), note="newer") == "applied"
    after = server.document(path)
    assert after is not None
    assert (after["eventTime"], after["source"]["order"]) == (at(90), "eventTime")
    assert send(server, topic, "older-2", 500, **event, ts=at(75), note="older, published later") == "stale_ignored"
    assert server.document(path) == after


@WORDS
def test_a_document_the_earlier_build_put_back_is_mended_by_redelivery(
    server: Server, topic: str, word: str, collection: str
) -> None:
    """It let an older bar replace a newer one; the newer one, delivered again, wins here."""
    path = f"{collection}/{word}-2"
    went_back = word == "bar"
    assert event_time(server, path) == (at(0) if went_back else at(60))
    payload = {"eventId": f"{word}-2", "symbol": "SPY", "ts": at(60), "close": 2, "note": "newer"}
    outcome = send(server, topic, f"{word}-m2", 120, **payload)
    assert outcome == ("applied" if went_back else "duplicate")
    assert event_time(server, path) == at(60)


@WORDS
def test_a_clock_that_ran_ahead_freezes_nothing(server: Server, topic: str, word: str, collection: str) -> None:
    """The earlier build shows 2027; here the document stands at when that message was published."""
    path = f"{collection}/{word}-3"
    assert event_time(server, path) == "2027-01-08T12:00:00Z"
    assert send(server, topic, "before", 200, eventId=f"{word}-3", symbol="SPY", ts=at(100)) == "stale_ignored"
    assert send(server, topic, "after", 201, eventId=f"{word}-3", symbol="SPY", ts=at(150)) == "applied"
    assert event_time(server, path) == at(150)


def test_a_sequence_breaks_ties_and_no_more(server: Server) -> None:
    """The earlier build ordered signals by it first."""
    event = {"eventId": "signal-4", "symbol": "SPY"}
    assert send(server, "trade-signals", "fourth", 300, **event, ts=at(60), sequence=4) == "stale_ignored"
    assert send(server, "trade-signals", "sixth", 301, **event, ts=at(60), sequence=6) == "applied"
    assert send(server, "trade-signals", "ninth", 302, **event, ts=at(30), sequence=9) == "stale_ignored"
    assert send(server, "trade-signals", "first", 303, **event, ts=at(90), sequence=1) == "applied"
    assert event_time(server, "trade_signals/signal-4") == at(90)


def test_verify_names_what_the_rules_changed_and_rebuild_mends_it(tmp_path: Path) -> None:
    """What is the same by both rules is no difference, although another made its stamp, or both took part."""
    path = tmp_path / "millpond.db"
    unpack_file(path)
    with Server(tmp_path, SETTINGS) as server:
        update = {"eventId": "signal-1", "symbol": "SPY", "ts": at(90), "state": "new"}
        assert send(server, "trade-signals", "update", 401, **update) == "applied"
        assert server.terminate() == 0

    def on_file(*arguments: str) -> Ran:
        return millpond(tmp_path, *arguments, env={**SETTINGS, "STORE": f"sqlite:{path}"})

    found = on_file("verify").out
    named = {line.split()[0] for line in found.splitlines() if "/" in line.split()[0]}
    assert named == {
        "market_bars_1m/bar-2",  # an older bar stands there
        *("market_bars_1m/bar-3", "market_ticks/tick-3", "trade_signals/signal-3"),  # the clock that ran ahead
        "ops_services/prod__api",  # its status and version came as severity and git_sha
    }
    for view in ("market_bars_1m", "market_ticks", "trade_signals", "ops_services"):
        rebuilt = on_file("rebuild", view, "--yes")
        assert rebuilt.code == 0, rebuilt
    mended = on_file("verify")
    assert mended.code == 0, mended.out


# --- side by side ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(
    firestore_emulator: str, earlier_source: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Server]]:
    """A server of the earlier build and one of this, on the same documents; each test has documents of its own."""
    environment = {"STORE": "firestore", "FIRESTORE_EMULATOR_HOST": firestore_emulator, "GCP_PROJECT": "two-builds"}
    with (
        earlier_server(earlier_source, tmp_path_factory.mktemp("earlier"), environment) as earlier,
        Server(tmp_path_factory.mktemp("this"), {**SETTINGS, **environment}) as this,
    ):
        yield earlier, this


@WORDS
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_this_build_never_takes_a_document_back(
    both: tuple[Server, Server], topic: str, word: str, collection: str, seed: int
) -> None:
    """Messages dealt to one, the other or both: no answer of this build lowers `eventTime`.

    The earlier build goes by its own rule all the while. Once it gets no more, what was published during that time
    is delivered again, as a seek of the subscription does, and the document ends at the newest.
    """
    earlier, this = both
    lots = random.Random(seed)
    name = f"{word}-{seed}"
    path = f"{collection}/dealt-{name}"
    sent: list[tuple[str, int, dict[str, Any]]] = [
        (
            f"{name}-{second}",
            100 + lots.randrange(60),
            {"eventId": f"dealt-{name}", "symbol": name, "ts": at(second)},
        )
        for second in lots.sample(range(90), 24)
    ]
    for message_id, published, payload in sent:
        who = lots.choice(("earlier", "this", "both"))
        if who != "this":
            send(earlier, topic, message_id, published, **payload)
        if who != "earlier":
            document = this.document(path)
            send(this, topic, message_id, published, **payload)
            if document is not None:
                assert event_time(this, path) >= document["eventTime"]
    for message_id, published, payload in lots.sample(sent, len(sent)):
        send(this, topic, message_id, published, **payload)
    newest = max(payload["ts"] for _, _, payload in sent)
    document = this.document(path)
    assert document is not None
    assert (document["eventTime"], document["data"]["ts"]) == (newest, newest)


def test_the_earlier_build_still_takes_newer_signals(both: tuple[Server, Server]) -> None:
    """Its stamps of signals had another layout. Ours compare with them by time, so it calls nothing newer stale."""
    earlier, this = both
    for second, server in ((10, this), (20, earlier), (30, this), (40, earlier)):
        payload = {"eventId": "s", "symbol": "SPY", "ts": at(second)}
        assert send(server, "trade-signals", f"m{second}", second + 1, **payload) == "applied"
        assert event_time(this, "trade_signals/s") == at(second)


def test_the_earlier_build_may_put_back_what_this_one_wrote_until_it_is_delivered_again(
    both: tuple[Server, Server],
) -> None:
    """Which is why the page says to keep the time short, and to seek afterwards."""
    earlier, this = both
    newer = {"eventId": "b", "symbol": "SPY", "ts": at(60)}
    assert send(this, "market-bars-1m", "m1", 61, **newer) == "applied"
    assert send(earlier, "market-bars-1m", "m2", 90, **{**newer, "ts": at(0)}) == "applied"
    assert event_time(this, "market_bars_1m/b") == at(0)
    assert send(this, "market-bars-1m", "m1", 61, **newer) == "applied"
    assert send(this, "market-bars-1m", "m2", 90, **{**newer, "ts": at(0)}) != "applied"
    assert event_time(this, "market_bars_1m/b") == at(60)


def test_every_message_of_the_file_is_one_the_earlier_build_took(both: tuple[Server, Server]) -> None:
    """And the earlier build behaves as this page of tests says it does: it puts a bar back."""
    earlier, _ = both
    for topic, message_id, published, payload in messages():
        send(earlier, topic, message_id, published, **payload)
    assert event_time(earlier, "market_bars_1m/bar-2") == at(0)
    assert event_time(earlier, "trade_signals/signal-2") == at(60)
