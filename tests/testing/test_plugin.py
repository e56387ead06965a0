"""The pytest plugin in a run of its own, as a user has it: the fixture, and what it costs a run without it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from millpond import SettingsError, UsageError
from millpond.testing import check_view
from millpond.testing.faults import CheckError
from millpond.testing.pond import SyncPond
from tests.testing.healthy import ORDERS, Counts, Orders, Refusing

ROOT = Path(__file__).parents[2]
USERS_TESTS = '''
import sys

from millpond import Latest
from millpond.testing import check_view


class Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"
    time = "at"

    def document(self, event):
        return {"status": event.require("status")}


def test_unused():
    """A test that asks for nothing pays for nothing."""
    assert not {"millpond.engine", "millpond.sim", "millpond.http", "millpond.settings"} & sys.modules.keys()


def test_pond(make_pond):
    pond = make_pond(Orders())
    newer = pond.publish("orders", {"orderId": "o-1", "at": "2026-01-08T12:00:00Z", "status": "paid"})
    older = pond.publish("orders", {"orderId": "o-1", "at": "2026-01-08T11:00:00Z", "status": "new"})
    assert (newer.reason, older.reason) == ("applied", "stale_event_ignored")
    assert pond.get("orders", "o-1")["status"] == "paid"


def test_view():
    check_view(Orders(), events=[{"orderId": "o-1", "at": "2026-01-08T12:00:00Z", "status": "paid"}], worlds=5)


def test_fault():
    class Faulty(Orders):
        def document(self, event):
            return {"now": __import__("time").time()}

    check_view(Faulty(), events=[{"orderId": "o-1"}])
'''


def test_a_users_tests(tmp_path: Path) -> None:
    """By its entry point pytest finds the plugin: the fixture, the check, and a failure whose text is whole."""
    (tmp_path / "test_orders.py").write_text(USERS_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run([*command, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 3 passed" in ran.stdout, ran.stdout
    assert "Faulty (latest, orders): document() reads the clock: time.time() at test_orders.py:" in ran.stdout
    assert "Take the time from the event: event.time(...), or event.publish_time." in ran.stdout


def test_several_ponds_are_apart() -> None:
    """And a tally counts an event of any year, once."""
    with SyncPond([Orders]) as one, SyncPond([Orders(), Counts()]) as other:
        order = {"orderId": "o-1", "at": "2020-11-08T12:00:00Z", "status": "paid", "cents": 5}
        one.publish("orders", order)
        assert (other.get("orders", "o-1"), list(one.documents("orders"))) == (None, ["o-1"])
        for _ in range(2):
            other.publish("orders", order, publish_time="2020-11-08T12:00:01Z")
        assert (other.get("order_counts", "o-1") or {})["cents"] == 5
        assert list(other.documents("orders")) == ["o-1"]


def test_a_redelivery_and_a_letter() -> None:
    with SyncPond([Refusing]) as pond:
        order = {"orderId": "a/b", "at": "2026-01-08T12:00:00Z", "status": "new"}

        def publish() -> str:
            return pond.publish("orders", order, message_id="7", publish_time="2026-01-08T12:00:01Z").reason

        assert [publish(), publish()] == ["applied", "duplicate_message_noop"]
        assert (pond.get("orders", "a/b") or {})["status"] == "new"
        assert pond.publish("orders", {**order, "status": "paid"}).buried
        (letter,) = pond.letters()
        assert letter["reason"] == "invalid_event"


async def test_in_a_running_loop() -> None:
    """A check leaves the loop of an async test as it is; the synchronous pond says that it cannot be used there."""
    loop = asyncio.get_running_loop()
    check_view(Orders, ORDERS, worlds=5)
    assert asyncio.get_running_loop() is loop
    await asyncio.sleep(0)
    with pytest.raises(CheckError, match="this pond is for synchronous tests"):
        SyncPond([Orders])


def test_wrong_arguments() -> None:
    with pytest.raises(SettingsError, match="must be a view object, a view class, or a module's name"):
        SyncPond([dict])  # type: ignore[list-item]
    with SyncPond([Orders]) as pond:
        with pytest.raises(UsageError, match='no view "order"; did you mean "orders"'):
            pond.get("order", "o-1")
        with pytest.raises(UsageError, match='feeds on the topic "order"'):
            pond.publish("order", {})
