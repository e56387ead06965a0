"""`Pond` without any server: what it stores and returns, what it refuses, and what it leaves of itself: nothing."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import gc
import logging
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from millpond import (
    Delivery,
    Document,
    Event,
    Latest,
    MillpondError,
    Outcome,
    Pond,
    Settings,
    SettingsError,
    StoreError,
    UsageError,
    load_settings,
)
from millpond.stores.clock_agreement import ClockAgreement
from millpond.stores.memory import MemoryStore
from tests.common.waiting import until
from tests.pond.orders import Orders, Sales, memory_pond

PUBLISHED_US = 1_767_873_600_000_000


def store_in(folder: Path) -> str:
    return f"sqlite:{folder / 'orders.db'}"


def order(message_id: str, **more: Any) -> Delivery:
    data = b'{"orderId": "o-1", "amount": 3}'
    return Delivery(
        message_id=message_id, publish_time=PUBLISHED_US, data=data, attributes={"topic": "orders"}, **more
    )


# --- publish, handle, get ----------------------------------------------------------------------------------------


async def test_what_is_published_is_durable_and_can_be_read(tmp_path: Path) -> None:
    """Also by the next process: the store's file has it when `publish` returns."""
    pond = Pond(views=[Orders()], store=store_in(tmp_path))
    async with pond:
        result = await pond.publish("orders", {"orderId": "o-1", "amount": 3})
        assert (result.outcome, result.settled, result.topic) == (Outcome.APPLIED, True, "orders")
        assert [(view.view, view.doc) for view in result.views] == [("orders", "orders/o-1")]
        with contextlib.closing(sqlite3.connect(f"file:{tmp_path / 'orders.db'}?mode=ro", uri=True)) as other:
            assert other.execute("SELECT count(*) FROM documents WHERE id = 'o-1'").fetchone() == (1,)
        document = await pond.get("orders", "o-1")
    assert document is not None
    assert (document["amount"], document["source"]["topic"]) == (3, "orders")
    async with pond:
        assert await pond.get("orders", "o-1") == document
        assert await pond.get("orders", "o-2") is None


async def test_the_last_one_published_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also within one microsecond, and if the wall clock is set back meanwhile."""
    clock = iter([1_767_873_600_000_000_000] * 3 + [1_767_870_000_000_000_000] * 5)
    async with memory_pond() as pond:
        monkeypatch.setattr("millpond.pond.time", SimpleNamespace(time_ns=lambda: next(clock)))
        for amount in range(8):
            assert (await pond.publish("orders", {"orderId": "o-1", "amount": amount})).outcome is Outcome.APPLIED
        found = await pond.get("orders", "o-1")
        assert found is not None
        assert found["amount"] == 7


async def test_an_event_id_counts_once() -> None:
    async with Pond(views=[Sales()], store="memory") as pond:
        sale = {"shop": "a/b", "day": "d1", "amount": 5}
        at = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
        first = await pond.publish("orders", sale, event_id="e-1")
        second = await pond.publish("orders", sale, event_id="e-1")
        third = await pond.publish("orders", sale, event_id="e-2", publish_time=at, message_id="m-3")
        assert [first.outcome, second.outcome, third.outcome] == ["applied", "duplicate", "applied"]
        found = await pond.get("sales", ("a/b", "d1"))
        assert found is not None
        assert (found["count"], found["amount"]) == (2, 10)


async def test_a_deleted_document_is_gone_for_readers() -> None:
    async with memory_pond() as pond:
        await pond.publish("orders", {"orderId": "o-1"})
        assert (await pond.publish("orders", {"orderId": "o-1", "cancelled": True})).outcome is Outcome.APPLIED
        assert await pond.get("orders", "o-1") is None


async def test_rich_payloads_become_json() -> None:
    """Times, decimals and ids as a host has them."""
    async with memory_pond() as pond:
        at = dt.datetime(2026, 1, 8, 12, tzinfo=dt.UTC)
        result = await pond.publish("orders", {"orderId": 7, "amount": at})
        assert result.outcome is Outcome.APPLIED
        found = await pond.get("orders", 7)
        assert found is not None
        assert found["amount"] == "2026-01-08T12:00:00Z"


async def test_handle_takes_what_a_broker_delivers() -> None:
    """Each message once; and `settled` says whether it may be acknowledged."""
    async with memory_pond() as pond:
        results = [await pond.handle(order("m-1")), await pond.handle(order("m-1"))]
        assert [(result.outcome, result.settled) for result in results] == [("applied", True), ("duplicate", True)]


async def test_poison_is_a_letter_or_an_error() -> None:
    """What is published is never lost: it is buried, or `publish` raises."""
    async with memory_pond() as pond:
        result = await pond.publish("orders", {"amount": 1})
        assert (result.outcome, result.buried) == (Outcome.POISON, True)
    async with memory_pond(settings={"POISON_POLICY": "native"}) as pond:
        with pytest.raises(MillpondError, match="orderId is missing"):
            await pond.publish("orders", {"amount": 1})


async def test_a_store_that_fails_raises(tmp_path: Path) -> None:
    """Nothing that is not durable looks like a success."""
    settings = {"FIRESTORE_RETRY_MAX_ATTEMPTS": 1}
    async with Pond(views=[Orders()], store=store_in(tmp_path), settings=settings) as pond:
        await pond.publish("orders", {"orderId": "o-1"})
        (tmp_path / "orders.db").rename(tmp_path / "moved.db")
        with pytest.raises(StoreError, match="deleted or moved"):
            await pond.publish("orders", {"orderId": "o-2"})
        assert not (await pond.handle(order("m-2"))).settled


# --- wrong calls -------------------------------------------------------------------------------------------------

CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE
NAIVE = dt.datetime(2026, 1, 8)  # noqa: DTZ001 - that is what is wrong with it
WRONG_CALLS: dict[str, tuple[Callable[[Pond], Awaitable[Any]], str]] = {
    "empty topic": (lambda pond: pond.publish(" ", {}), "topic must be text that is not empty"),
    "topic is no text": (lambda pond: pond.publish(None, {}), "topic must be text"),  # type: ignore[arg-type]
    "unknown topic": (lambda pond: pond.publish("order", {}), 'did you mean "orders"'),
    "two topics": (lambda pond: pond.publish("orders", {}, attributes={"topic": "x"}), "names another topic"),
    "payload is a list": (lambda pond: pond.publish("orders", []), "payload must be a dict"),  # type: ignore[arg-type]
    "an object": (lambda pond: pond.publish("orders", {"x": object()}), "cannot be written as JSON"),
    "not a number": (lambda pond: pond.publish("orders", {"x": float("nan")}), "cannot be written as JSON"),
    "a cycle": (lambda pond: pond.publish("orders", CYCLE), "cannot be written as JSON"),
    "half a character": (lambda pond: pond.publish("orders", {"x": "\ud800"}), "cannot be written as JSON"),
    "two event ids": (lambda pond: pond.publish("orders", {"eventId": "a"}, event_id="b"), "another eventId"),
    "naive time": (lambda pond: pond.publish("orders", {}, publish_time=NAIVE), "with a time zone"),
    "empty message id": (lambda pond: pond.publish("orders", {}, message_id=""), "message_id must be"),
    "attributes": (lambda pond: pond.publish("orders", {}, attributes={"a": 1}), "text to text"),  # type: ignore[dict-item]
    "no delivery": (lambda pond: pond.handle(b"{}"), "takes a Delivery, not bytes"),  # type: ignore[arg-type]
    "seconds": (
        lambda pond: pond.handle(Delivery(message_id="1", publish_time=1_767_873_600, data=b"")),
        "whole microseconds",
    ),
    "text as data": (
        lambda pond: pond.handle(Delivery(message_id="1", publish_time=PUBLISHED_US, data="{}")),  # type: ignore[arg-type]
        "data must be bytes",
    ),
    "unknown view": (lambda pond: pond.get("order", "o-1"), 'did you mean "orders"'),
    "empty key": (lambda pond: pond.get("orders", ""), "no key of orders"),
    "key of another type": (lambda pond: pond.get("orders", None), "must be text"),
    "too many parts": (lambda pond: pond.get("orders", ("a", "b")), "has 1 parts"),
    "a second start": (lambda pond: pond.__aenter__(), "running already"),
}


@pytest.mark.parametrize("call", WRONG_CALLS)
async def test_a_wrong_call_is_one_clear_error(call: str) -> None:
    """It says what is wrong, stores nothing, and the pond goes on."""
    act, text = WRONG_CALLS[call]
    async with memory_pond() as pond:
        with pytest.raises(UsageError, match=text):
            await act(pond)
        assert (await pond.publish("orders", {"orderId": "o-1"})).outcome is Outcome.APPLIED


@pytest.mark.parametrize("state", ["before its start", "after its stop"])
async def test_a_pond_that_does_not_run_says_how_to_start_it(state: str) -> None:
    pond = memory_pond()
    if state == "after its stop":
        async with pond:
            pass
    calls = (lambda: pond.publish("orders", {}), lambda: pond.handle(order("1")), lambda: pond.get("orders", "1"))
    for call in calls:
        with pytest.raises(UsageError, match="not running: use `async with pond:`"):
            await call()
    with pytest.raises(UsageError, match="not running"):
        await pond.__aexit__(None, None, None)


async def test_another_event_loop_is_refused() -> None:
    async with memory_pond() as pond:

        def elsewhere() -> None:
            asyncio.run(pond.publish("orders", {"orderId": "o-1"}))

        with pytest.raises(UsageError, match="another event loop"):
            await asyncio.to_thread(elsewhere)


def test_a_pond_starts_again_on_the_next_event_loop(tmp_path: Path) -> None:
    """As in a test suite, where each test has a loop of its own and the application is a module's."""
    pond = Pond(views=[Orders()], store=store_in(tmp_path))

    async def once(number: int) -> Document | None:
        async with pond:
            await pond.publish("orders", {"orderId": "o-1", "amount": number})
            return await pond.get("orders", "o-1")

    assert [(asyncio.run(once(number)) or {})["amount"] for number in range(3)] == [0, 1, 2]


# --- construction ------------------------------------------------------------------------------------------------


class NoKey(Latest):
    topics = ("x",)
    collection = "no key"


class NeedsArguments(Orders):
    def __init__(self, _: str) -> None:
        pass


WRONG_ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "no store": ({}, 'STORE=: must be "sqlite:PATH"'),
    "a path alone": ({"store": "orders.db"}, "STORE=orders.db: must be sqlite:PATH, firestore, or memory"),
    "no text": ({"store": Path("orders.db")}, "must be"),
    "no views": ({"store": "memory", "views": []}, "at least one view"),
    "a view, not a list": ({"store": "memory", "views": Orders()}, r"views=\[Orders\(\)\]"),
    "a name, not a list": ({"store": "memory", "views": "orders"}, "must be a list"),
    "not a view": ({"store": "memory", "views": [3]}, "a view object, a view class, or a module's name"),
    "another class": ({"store": "memory", "views": [dict]}, "a view object, a view class"),
    "unknown module": ({"store": "memory", "views": ["no_such_module"]}, "cannot be imported"),
    "wrong declaration": ({"store": "memory", "views": [NoKey()]}, "NoKey: must define document"),
    "needs arguments": ({"store": "memory", "views": [NeedsArguments]}, "give an object instead"),
    "twice": ({"store": "memory", "views": [Orders(), Orders()]}, "which is taken: it belongs to the view"),
    "unknown setting": ({"store": "memory", "settings": {"RECEIPT_TTL": 1}}, 'did you mean "RECEIPT_TTL_DAYS"'),
    "wrong value": ({"store": "memory", "settings": {"RECEIPT_TTL_DAYS": "x"}}, "must be a number"),
    "wrong type": ({"store": "memory", "settings": {"ROUTES": {}}}, "must be text, a number or a boolean"),
    "port": ({"store": "memory", "settings": {"PORT": 1}}, "the host's server listens"),
    "store twice": ({"store": "memory", "settings": {"STORE": "memory"}}, "an argument of its own"),
    "settings": ({"store": "memory", "settings": "x"}, "must be a dict of settings"),
    "settings and store": ({"store": "memory", "settings": load_settings({})}, "given twice"),
    "firestore": ({"store": "firestore"}, "^GCP_PROJECT, ENV: must be set"),
    "built-in": ({"store": "firestore", "views": None}, "ENV, SYSTEM_EVENTS_TOPIC, DEFAULT_REGION: must be set"),
    "two choices": ({"store": "memory", "settings": {"BUILT_IN_VIEWS": "all"}}, "has no effect beside views="),
    "no view": ({"store": "memory", "views": None, "settings": {"BUILT_IN_VIEWS": "none"}}, "no view to load"),
}


@pytest.mark.parametrize("case", WRONG_ARGUMENTS)
def test_a_wrong_argument_is_refused_at_once(case: str) -> None:
    """When the pond is built: a host that imports the module sees it, before any message is taken."""
    arguments, text = WRONG_ARGUMENTS[case]
    with pytest.raises(SettingsError, match=text):
        Pond(**{"views": [Orders()], **arguments})


def test_the_environment_of_the_host_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its PORT, ENV or VIEWS may mean another thing; `load_settings` reads them for hosts that want it."""
    for name, value in {"STORE": "nonsense", "PORT": "tcp://1", "VIEWS": "no_such_module", "ENV": "prod"}.items():
        monkeypatch.setenv(name, value)
    assert memory_pond()._settings.env == "dev"  # noqa: SLF001
    with pytest.raises(SettingsError, match="PORT"):
        load_settings()


def test_settings_are_given_by_name_or_as_an_object() -> None:
    named = memory_pond(settings={"RECEIPT_TTL_DAYS": 30, "EVENT_LOG": False})._settings  # noqa: SLF001
    assert (named.receipt_ttl_days, named.event_log, named.store) == (30.0, False, "memory")
    whole: Settings = load_settings({"STORE": "memory", "ENV": "prod"})
    assert Pond(views=[Orders()], settings=whole)._settings is whole  # noqa: SLF001
    assert Pond(views=[Orders()], store=whole)._settings is whole  # noqa: SLF001


async def test_views_are_objects_classes_or_modules() -> None:
    """And exactly these: no built-in view is there that the host did not ask for."""
    async with Pond(views=["tests.pond.orders"], store="memory") as pond:
        assert (await pond.publish("orders", {"orderId": "o", "shop": "s", "day": "d", "amount": 1})).settled
        with pytest.raises(UsageError, match="market-ticks"):
            await pond.publish("market-ticks", {"symbol": "SPY"})
    async with Pond(views=[Orders], store="memory") as pond:
        assert (await pond.publish("orders", {"orderId": "o"})).settled
    async with Pond(store="memory") as pond:
        assert (await pond.publish("market-ticks", {"symbol": "SPY", "price": 1})).settled


# --- start and stop ----------------------------------------------------------------------------------------------


def leftovers() -> tuple[list[str], list[str]]:
    """Threads and tasks beside the caller's own."""
    threads = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    tasks = [str(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    return threads, tasks


def open_files(folder: Path) -> list[str]:
    """Files below the folder that this process has open."""
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))  # noqa: PTH208 - names suffice
    return [target for link in links if link.is_symlink() and (target := os.readlink(link)).startswith(str(folder))]  # noqa: PTH115


async def test_a_stop_leaves_nothing_running(tmp_path: Path) -> None:
    """No task, no thread, no open file, no lock: another pond can have the store."""
    before = leftovers()
    for _ in range(2):
        async with Pond(views=[Orders()], store=store_in(tmp_path)) as pond:
            await asyncio.gather(*(pond.publish("orders", {"orderId": f"o-{n}"}) for n in range(50)))
            await pond.get("orders", "o-1")
        assert leftovers() == before
        assert open_files(tmp_path) == []


async def test_nothing_of_the_host_is_touched(tmp_path: Path) -> None:
    """Signal handlers, loggers, the garbage collector, the switch interval, the import path, the environment."""

    def host() -> list[Any]:
        loggers = [logging.getLogger(name) for name in (None, "millpond", "asyncio", "uvicorn", "google")]
        return [
            [signal.getsignal(number) for number in signal.valid_signals()],
            [(logger.level, list(logger.handlers), logger.propagate, logger.disabled) for logger in loggers],
            (gc.get_threshold(), gc.get_freeze_count(), gc.isenabled()),
            sys.getswitchinterval(),
            list(sys.path),
            dict(os.environ),
            (sys.stdout, sys.stderr, sys.excepthook, threading.excepthook),
            asyncio.get_running_loop().get_exception_handler(),
        ]

    before = host()
    async with Pond(views=["tests.pond.orders"], store=store_in(tmp_path)) as pond:
        await pond.publish("orders", {"orderId": "o", "shop": "s", "day": "d", "amount": 1})
        assert host() == before
    assert host() == before


async def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """Log lines go to the host's logger, as records with their fields; by default none below a warning is shown."""
    async with memory_pond() as pond:
        await pond.publish("orders", {"orderId": "o-1"})
    assert capfd.readouterr() == ("", "")


async def test_log_lines_go_to_the_hosts_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="millpond"):
        async with memory_pond() as pond:
            await pond.publish("orders", {"orderId": "o-1"}, message_id="m-1")
            await pond.publish("orders", {}, message_id="m-2")
    lines = {record.millpond.get("messageId"): record for record in caplog.records}  # type: ignore[attr-defined]
    assert (lines["m-1"].levelno, lines["m-2"].levelno) == (logging.INFO, logging.ERROR)
    assert lines["m-1"].millpond["docs"][0]["doc_path"] == "orders/o-1"  # type: ignore[attr-defined]
    assert '"reason":"invalid_event"' in lines["m-2"].getMessage()
    assert {record.name for record in caplog.records} == {"millpond"}


async def test_each_pond_may_have_a_logger_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with memory_pond(logger=logging.getLogger("shop.orders")):
            pass
    assert {record.name for record in caplog.records} == {"shop.orders"}


async def test_several_ponds_in_one_process(tmp_path: Path) -> None:
    """Each with its own views, store and settings."""
    async with (
        Pond(views=[Orders()], store=store_in(tmp_path)) as orders,
        Pond(views=[Sales()], store="memory", settings={"ENV": "prod"}) as sales,
    ):
        event = {"orderId": "o-1", "shop": "s", "day": "d", "amount": 4}
        await asyncio.gather(orders.publish("orders", event), sales.publish("orders", event))
        assert (await orders.get("orders", "o-1") or {})["amount"] == 4
        assert (await sales.get("sales", ("s", "d")) or {})["count"] == 1
        with pytest.raises(UsageError, match="no view"):
            await orders.get("sales", ("s", "d"))


async def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    """The first pond goes on, and nothing of the second stays."""
    async with Pond(views=[Orders()], store=store_in(tmp_path)) as first:
        second = Pond(views=[Orders()], store=store_in(tmp_path))
        with pytest.raises(MillpondError, match=r"orders.db is in use by process .* another pond has it open"):
            await second.__aenter__()
        assert (await first.publish("orders", {"orderId": "o-1"})).settled
    async with second:
        assert await second.get("orders", "o-1") is not None


def newer_schema(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 999")


UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "another file": (lambda path: path.write_bytes(b"no database " * 500), "not a Millpond store"),
    "a folder": (lambda path: path.mkdir(), "cannot be opened"),
    "newer": (newer_schema, "schema 999"),
}


@pytest.mark.parametrize("case", UNUSABLE)
async def test_a_store_that_cannot_be_opened_leaves_nothing_open(tmp_path: Path, case: str) -> None:
    """One error that names the store; the lock is free, and the pond starts once the store is fine."""
    spoil, text = UNUSABLE[case]
    path = tmp_path / "orders.db"
    spoil(path)
    before = leftovers()
    pond = Pond(views=[Orders()], store=store_in(tmp_path))
    with pytest.raises(StoreError, match=rf"the store sqlite:.*orders.db cannot be opened: .*{text}") as raised:
        await pond.__aenter__()
    assert (leftovers(), open_files(tmp_path)) == (before, [])
    assert raised.value is not None
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()
    async with pond:
        assert (await pond.publish("orders", {"orderId": "o-1"})).settled


async def test_a_start_that_fails_half_way_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is open by then, and the engine is built: both are closed, and the lock is released."""
    before = leftovers()
    pond = Pond(views=[Orders()], store=store_in(tmp_path))
    for place in ("millpond.pond.build_guard", "millpond.pond.EmbeddedApp", "millpond.service.opening.Service"):
        with monkeypatch.context() as broken:
            broken.setattr(place, lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await pond.__aenter__()
        assert (leftovers(), open_files(tmp_path)) == (before, []), place
    async with pond:
        assert (await pond.publish("orders", {"orderId": "o-1"})).settled


class SlowStore(MemoryStore):
    """Every commit and every list takes a while."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False
        self.committing = self.listing = 0

    async def commit(self, *arguments: Any) -> Any:
        self.committing += 1
        await asyncio.sleep(0.2)
        assert not self.closed
        return await super().commit(*arguments)

    async def collections(self) -> list[tuple[str, int]]:
        self.listing += 1
        await asyncio.sleep(0.2)
        assert not self.closed
        return await super().collections()

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowStore:
    store = SlowStore()
    monkeypatch.setattr("millpond.service.opening.open_store", lambda _: store)
    return store


async def test_messages_that_were_accepted_finish_before_the_stop(slow: SlowStore) -> None:
    """A host stops in the middle of traffic: each message is applied, and then the store is closed."""
    pond = memory_pond()
    async with pond:
        sending = [asyncio.create_task(pond.publish("orders", {"orderId": f"o-{n}"})) for n in range(20)]
        await until(lambda: slow.committing)
    results = await asyncio.gather(*sending)
    assert {result.outcome for result in results} == {Outcome.APPLIED}
    assert slow.closed


async def test_requests_that_are_being_answered_finish_before_the_stop(slow: SlowStore) -> None:
    """Those that only read, too: the store is closed after them."""
    pond = memory_pond()
    transport = httpx.ASGITransport(pond.app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        async with pond:
            asking = asyncio.create_task(http.get("/api/collections"))
            await until(lambda: slow.listing)
        assert (await asking).json() == {"collections": []}
    assert slow.closed


async def test_a_service_that_cannot_be_built_closes_the_store(
    slow: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millpond.service.opening.Service", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await memory_pond().__aenter__()
    assert slow.closed


async def test_a_stop_that_is_cancelled_still_ends(slow: SlowStore) -> None:
    """A host is cancelled while it stops: the stop goes on to its end, and the cancellation is not lost."""
    pond = memory_pond()
    sent: list[asyncio.Task[Any]] = []

    async def host() -> None:
        async with pond:
            sent.append(asyncio.create_task(pond.publish("orders", {"orderId": "o-1"})))
            await until(lambda: slow.committing)

    task = asyncio.create_task(host())
    await until(lambda: pond._context is not None and pond._running is None and bool(sent))  # noqa: SLF001
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.closed
    assert sent[0].done()
    assert sent[0].result().outcome is Outcome.APPLIED
    assert leftovers()[1] == []


async def test_a_host_that_fails_stops_its_pond(tmp_path: Path) -> None:
    """Its own error comes through, and the store is free."""
    pond = Pond(views=[Orders()], store=store_in(tmp_path))
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is the host
        async with pond.lifespan():
            await pond.publish("orders", {"orderId": "o-1"})
            raise ZeroDivisionError
    assert open_files(tmp_path) == []
    async with pond:
        assert await pond.get("orders", "o-1") is not None


async def test_a_lifespan_is_composed_with_the_hosts_own() -> None:
    events: list[str] = []
    pond = memory_pond()

    @contextlib.asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        async with pond.lifespan(app):
            events.append((await pond.publish("orders", {"orderId": "o-1"})).outcome)
            yield
            events.append((await pond.publish("orders", {"orderId": "o-1"})).outcome)

    async with lifespan(None):
        pass
    assert events == ["applied", "applied"]


async def test_background_work_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expired documents are deleted in an embedded pond too."""

    class Brief(Orders):
        retention_days = 1e-9

    monkeypatch.setattr("millpond.stores.sweeper.SWEEP_EVERY_S", 0.02)
    trusting = functools.partial(ClockAgreement, agreed_s=0.0)
    monkeypatch.setattr("millpond.service.service.ClockAgreement", trusting)
    async with Pond(views=[Brief()], store=store_in(tmp_path)) as pond:
        await pond.publish("orders", {"orderId": "o-1"})
        async with asyncio.timeout(20):
            while await pond.get("orders", "o-1") is not None:  # noqa: ASYNC110 - there is no event for a sweep
                await asyncio.sleep(0.02)


async def test_an_event_is_of_the_hosts_type() -> None:
    """Views of one pond see only what was published to it."""
    seen: list[Event] = []

    class Watching(Orders):
        def document(self, event: Event) -> Any:
            seen.append(event)
            return super().document(event)

    async with Pond(views=[Watching()], store="memory") as pond, memory_pond() as other:
        await other.publish("orders", {"orderId": "o-2"})
        await pond.publish("orders", {"orderId": "o-1"}, attributes={"tenant": "t"}, message_id="m")
    assert [(event.message_id, event.attributes["tenant"]) for event in seen] == [("m", "t")]


async def test_ponds_share_one_database_on_firestore(
    firestore_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any number of processes may: there is no lock, and each event counts once."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", firestore_emulator)
    settings = {"GCP_PROJECT": project, "ENV": "test"}
    sale = {"shop": "s", "day": "d", "amount": 2}
    async with (
        Pond(views=[Sales()], store="firestore", settings=settings) as first,
        Pond(views=[Sales()], store="firestore", settings=settings) as second,
    ):
        results = await asyncio.gather(
            *(pond.publish("orders", sale, event_id=f"e-{n}") for n in range(5) for pond in (first, second))
        )
        assert sorted(result.outcome for result in results) == ["applied"] * 5 + ["duplicate"] * 5
        assert (await second.get("sales", ("s", "d")) or {})["count"] == 5
