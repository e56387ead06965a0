"""Rebuilds in the background: one at a time, and nothing is left of one that was swapped or dropped."""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.requests import Request

from millpond.core.model import LogPage
from millpond.http.access import RequestFault
from millpond.http.api.rebuild import RebuildApi
from millpond.http.routing import Endpoint
from millpond.reprocess.jobs import Job, Phase, Rebuilds
from millpond.reprocess.rebuild import RebuildRun
from millpond.stores.memory import MemoryStore
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics
from tests.common.endpoints import endpoint
from tests.common.stores import Run
from tests.common.waiting import until
from tests.reprocess.doors import Doors, door
from tests.reprocess.folding import Works

NO_REQUEST = Request({"type": "http"})


class Gated(MemoryStore):
    """Its log can be read while the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def read_log(self, after: str | None, limit: int) -> LogPage:
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            # A client library ends its call first.
            await asyncio.sleep(0.2)
            raise
        return await super().read_log(after, limit)

    async def snapshot(self) -> None:  # type: ignore[override]
        return None


class Scene:
    """Rebuilds of one view on a store that can be made to wait; their shadows are in a folder of their own."""

    def __init__(self, works: Works, store: Gated, folder: Path) -> None:
        self.store = store
        self._folder = folder
        (view,) = works.router.views
        self.rebuilds = Rebuilds(
            lambda name: (
                RebuildRun.open(works.engine, store, view, others_settle_s=0.01) if name == view.name else None
            ),
            Log(io.BytesIO(), env="dev", metrics=Metrics()),
        )

    @property
    def shadows(self) -> int:
        return len(list(self._folder.iterdir()))

    async def begin(self) -> Job:
        job = await self.rebuilds.begin("doors")
        assert job is not None
        return job


def acts(scene: Scene) -> dict[str, Endpoint]:
    """What may be asked over HTTP."""
    routes, one = RebuildApi(scene.rebuilds, keeps_log=True).routes(), "/api/rebuilds/{view}"
    return {
        "look": endpoint(routes, "GET", one),
        "begin": endpoint(routes, "POST", one),
        "drop": endpoint(routes, "DELETE", one),
        "swap": endpoint(routes, "POST", f"{one}/swap"),
    }


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Iterator[Scene]:
    """One door in the store, and nothing begun; what a test left running is dropped."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = Gated()
    works = Works([Doors()], store)
    run(works.take(door("1", "open", 1)))
    scene = Scene(works, store, tmp_path)
    yield scene
    store.gate.set()
    run(scene.rebuilds.drop())
    run(works.__aexit__())


async def test_the_shadow_goes_with_the_swap(scene: Scene) -> None:
    """It may be as large as the store; the job itself stays, to be looked at."""
    job = await scene.begin()
    await until(lambda: job.phase is Phase.FOLDED)
    assert scene.shadows == 1
    job.swap()
    await until(lambda: job.phase is Phase.SWAPPED)
    assert scene.shadows == 0
    assert scene.rebuilds.job is job


async def test_a_rebuild_that_is_dropped_has_ended(scene: Scene) -> None:
    """Before anything else begins, and before its shadow is removed: it must not go on without."""
    scene.store.gate.clear()
    others = asyncio.all_tasks()
    await scene.begin()
    await until(lambda: scene.shadows)
    await scene.rebuilds.drop()
    assert asyncio.all_tasks() == others
    assert (scene.shadows, scene.rebuilds.job) == (0, None)


async def test_a_rebuild_is_dropped_by_its_own_name(scene: Scene) -> None:
    """One who drops the rebuild of another view learns that there is none."""
    scene.store.gate.clear()
    job = await scene.begin()
    for act in (acts(scene)[name] for name in ("drop", "look", "swap")):
        with pytest.raises(RequestFault, match="no rebuild of others was begun here") as refused:
            await act(NO_REQUEST, "others")
        assert refused.value.status == 404
    assert scene.rebuilds.job is job
    assert job.busy


async def test_only_one_at_a_time(scene: Scene) -> None:
    """And only of a view there is, and swapped only once it was folded."""
    api = acts(scene)
    with pytest.raises(RequestFault, match="no view windows is loaded"):
        await api["begin"](NO_REQUEST, "windows")
    scene.store.gate.clear()
    job = await scene.begin()
    for act, reason in ((api["begin"], "rebuild_under_way"), (api["swap"], "not_folded")):
        with pytest.raises(RequestFault) as refused:
            await act(NO_REQUEST, "doors")
        assert (refused.value.status, refused.value.reason) == (409, reason)
    scene.store.gate.set()
    await until(lambda: job.phase is Phase.FOLDED)
