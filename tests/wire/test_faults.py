"""Faults on the wire, every combination: nothing acknowledged is lost, nothing is applied twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from millpond.core.model import Document
from tests.common.firestore_proxy import AFTER, BEFORE, Fault, FirestoreProxy
from tests.wire.onlooker import Onlooker
from tests.wire.rig import WireRig, documents_of_views, inject
from tests.wire.table import FOR_EVER, KNOWN, METHODS, ROWS, SAME_EVENT, TIMES, Line, Row, expected, rows
from tests.wire.traffic import FIRST, PRIOR, fold, more

# Enough to keep two processors busy.
ROWS_AT_ONCE = 6
# Far longer than a call takes, or a slow one would be taken for one that hangs.
HANG_S = 1.0
# As long as all of a first try may take when the machine is busy: a call that is cut off is not contention.
CONTENTION_S = 3.0
# Far more than a row takes: one that does not end fails alone.
ROW_S = 45.0
ALL = rows()


class Report(NamedTuple):
    """What one row found."""

    lines: list[tuple[str, Line]]
    lies: list[str]
    struck: int
    left: int | None
    # Documents of views: once every message is acknowledged, and what they should be.
    documents: Mapping[str, Document]
    fold: Mapping[str, Document]
    # The same after each letter was replayed.
    replayed: Mapping[str, Document]
    fold_of_all: Mapping[str, Document]
    # What changed when an instance that knows nothing got every message again.
    changed: list[str]


@pytest.fixture(scope="module")
def reports(firestore_emulator: str) -> Mapping[Row, Report | BaseException]:
    """Every row, run side by side."""
    with pytest.MonkeyPatch.context() as patched:
        # A verdict from memory is checked when a second has passed: on a slow machine that would change words.
        patched.setattr("millpond.engine.reader.TRUSTED_FOR_S", 60.0)
        return asyncio.run(_run_all(firestore_emulator))


async def _run_all(emulator: str) -> Mapping[Row, Report | BaseException]:
    found: dict[Row, Report | BaseException] = {}
    with Onlooker(emulator) as onlooker:
        async with FirestoreProxy(emulator) as proxy:

            async def run(row: Row, at_once: asyncio.Semaphore) -> None:
                async with at_once:
                    try:
                        async with asyncio.timeout(ROW_S):
                            found[row] = await _run(row, f"row-{ALL.index(row)}", emulator, proxy, onlooker)
                    except Exception as error:  # noqa: BLE001 - it is raised by the test of that row
                        found[row] = error

            # Those that hang come last and all at once: the emulator is warm by then, and they only wait.
            working, waiting = asyncio.Semaphore(ROWS_AT_ONCE), asyncio.Semaphore(len(ALL))
            await asyncio.gather(*(run(row, working) for row in ALL if row.kind != "hang"))
            await asyncio.gather(*(run(row, waiting) for row in ALL if row.kind == "hang"))
    return found


async def _run(row: Row, project: str, emulator: str, proxy: FirestoreProxy, onlooker: Onlooker) -> Report:
    async with WireRig(project, emulator, onlooker) as earlier:
        await earlier.deliver_until_taken(PRIOR)
    door = await proxy.open_door()
    async with WireRig(project, door, onlooker, **_patience(row)) as rig:
        fault = inject(proxy, rig, Fault(METHODS[row.on], row.position, row.strike, TIMES[row.times]))
        statuses = await rig.deliver(*FIRST)
        if row.times == FOR_EVER:
            fault.left = 0
        await rig.deliver_until_taken([m for m, status in zip(FIRST, statuses, strict=True) if status != 200])
        sent = list(FIRST)
        while fault.left:
            # A commit that fails after it was applied is not repeated: the next faults wait for the next commits.
            sent.append(more(len(sent)))
            await rig.deliver_until_taken(sent[-1:])
        documents = rig.look()
        in_documents = sent if row.applied_first else [m for m in sent if m.message_id in rig.in_documents]
        in_documents, sent = [*PRIOR, *in_documents], [*PRIOR, *sent]
        for path in documents:
            if path.startswith("dead_letters/"):
                await rig.service.replay_letter(path.rpartition("/")[2])
        replayed = rig.look()
        async with WireRig(project, emulator, onlooker) as newcomer:
            await newcomer.deliver_until_taken(sent)
        after = rig.look()
        return Report(
            lines=rig.answered(),
            lies=rig.lies + newcomer.lies,
            struck=fault.struck,
            left=fault.left,
            documents=documents_of_views(documents),
            fold=fold(in_documents),
            replayed=documents_of_views(replayed),
            fold_of_all=fold(sent),
            # A stale tick that comes again is logged again: ticks leave no receipts.
            changed=[
                path
                for path in after
                if replayed.get(path, (0,))[0] != after[path].version
                and not path.startswith("millpond_event_segments/")
            ],
        )


def _patience(row: Row) -> dict[str, str]:
    """Waiting is what these two are about, so they wait less than the others would."""
    if row.kind == "hang":
        return {"FIRESTORE_RPC_DEADLINE_S": f"{HANG_S}"}
    return {"FIRESTORE_RETRY_MAX_TOTAL_S": f"{CONTENTION_S}"} if row.word == "contended" else {}


def test_the_table_has_every_combination() -> None:
    """Eight statuses, a hang and a reset before and after, a lost reply after; thrice each; on read and commit."""
    statuses = ["UNAVAILABLE", "ABORTED", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN"]
    wanted = {
        (kind, on, position, times)
        for kind in (*statuses, "PERMISSION_DENIED", "INVALID_ARGUMENT", "hang", "reset", "lost reply")
        for on in METHODS
        for position in ((AFTER,) if kind == "lost reply" else (BEFORE, AFTER))
        for times in TIMES
    }
    assert len(ALL) == ROWS == len(wanted)
    assert {row[:4] for row in ALL} == wanted


@pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)
def test_a_fault_on_the_wire(row: Row, reports: Mapping[Row, Any]) -> None:
    """The status, the logged outcome, and documents that equal the fold, counted once each."""
    report = reports[row]
    if isinstance(report, BaseException):
        raise report
    wanted = [(message.message_id, line) for message, line in zip(FIRST, expected(row), strict=True)]
    if row.applied_first and row.times == FOR_EVER and row.word in {"away", "contended"}:
        # Only the republished copy has something left to store; those that share no batch with it are duplicates.
        known = {(message.message_id, line) for message, line in zip(FIRST, KNOWN, strict=True)}
        assert set(report.lines[: len(FIRST)]) <= {*wanted, *known}
        assert wanted[KNOWN.index(SAME_EVENT)] in report.lines
    else:
        assert Counter(report.lines[: len(FIRST)]) == Counter(wanted)
    assert report.lies == []
    assert report.struck >= 1
    assert report.left == 0
    assert report.documents == report.fold
    assert report.replayed == report.fold_of_all
    assert report.changed == []
