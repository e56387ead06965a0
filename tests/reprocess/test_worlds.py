"""Simulated worlds end with documents that `verify` agrees with, which knows nothing of the simulation's oracle."""

from __future__ import annotations

import asyncio

import pytest

from millpond.core.model import Put
from millpond.core.route import Router
from millpond.reprocess.fold import open_scratch
from millpond.reprocess.report import Report
from millpond.reprocess.verify import Verifier
from millpond.service.rules import engine_rules, route_rules
from millpond.service.views import load_views
from millpond.sim.facts import START, draw_messages
from millpond.sim.instance import settings_of
from millpond.sim.views import Doors
from millpond.sim.world import World
from millpond.sim.world_parameters import draw

SEEDS = [seed for seed in range(50) if draw(seed).keeps_log]


def verify_world(seed: int, *, damage: bool = False) -> Report:
    """Run a world to its end and fold its log, with the view that had a bug mended as in the world."""
    swarm = draw(seed)
    world = World(seed, swarm, draw_messages(seed, swarm))
    ended = world.run()
    assert ended.failure is None
    store, settings = world.store, settings_of(swarm)
    views = load_views(settings)
    for view in views:
        if isinstance(view, Doors):
            view.mended = True

    async def check() -> Report:
        if damage:
            (found, *_) = await store.list_documents("doors", 1, None)
            put = Put(found.ref, found.version, {**(found.data or {}), "state": "changed by hand"})
            await store.commit([put])
        async with open_scratch() as scratch:
            router = Router(views, route_rules(settings))
            clock = START + round(ended.seconds * 1_000_000)
            receipts = engine_rules(settings).receipts
            return await (await Verifier.begin(store, router, receipts, scratch, lambda: clock)).check()

    return asyncio.run(check())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_world_verifies(seed: int) -> None:
    """Duplicates, lost answers, crashes, races, replays, documents from before: no difference and no doubt."""
    report = verify_world(seed)
    assert report.listed == []
    assert report.documents > 0


def test_damage_done_to_a_world_is_found() -> None:
    assert len(verify_world(SEEDS[0], damage=True).listed) == 1
