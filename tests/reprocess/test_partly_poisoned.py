"""Events that one view took and another refused: verify and rebuild fold them for the views that took them."""

from __future__ import annotations

from millpond import Event, InvalidEvent
from millpond.core.model import Document, Outcome
from tests.common.pond import SECOND
from tests.reprocess.doors import Doors, Passes, door
from tests.reprocess.folding import Works


class Picky(Doors):
    """Refuses doors that are ajar; fails on those that are stuck."""

    name = collection = "picky"
    fixed = False

    def document(self, event: Event) -> Document:
        state = event.require("state")
        if state == "ajar" and not self.fixed:
            raise InvalidEvent("ajar is no state")
        if state == "stuck" and not self.fixed:
            raise ZeroDivisionError("a bug")
        return {"state": state}


async def swapped(works: Works, view: str) -> int:
    rebuild = await works.rebuild(view)
    await rebuild.fold()
    return await rebuild.swap()


async def test_a_rebuild_keeps_what_one_view_took_and_another_refused() -> None:
    async with Works([Doors(), Passes(), Picky()]) as works:
        poison, retried, fine = await works.take(door("1", "open", 1), door("2", "ajar", 2), door("3", "stuck", 3))
        assert (poison.outcome, retried.outcome, fine.outcome) == (Outcome.APPLIED, Outcome.POISON, Outcome.RETRY)
        assert (await works.verify()).listed == []
        for view, path in (("doors", "doors/d"), ("passes", "passes/d")):
            before = await works.document(path)
            await works.delete(path)
            works.engine.forget([(await works.snapshot(path)).ref])
            assert await swapped(works, view) == 1
            assert await works.document(path) == before
        assert (await works.document("doors/d"))["state"] == "stuck"
        assert (await works.document("passes/d"))["n"] == 3


async def test_a_rebuild_does_not_apply_what_its_view_refused() -> None:
    """The letter waits for its replay: until then the view has not taken the event, whatever its rules are now."""
    async with Works([Doors(), Picky()]) as works:
        await works.take(door("1", "open", 1), door("2", "ajar", 2))
        assert (await works.document("picky/d"))["state"] == "open"
        assert await swapped(works, "picky") == 0
        assert (await works.verify()).listed == []


async def test_what_a_replay_settles_is_folded_from_then_on() -> None:
    """Also by a fold that has read the message's entry before."""
    picky = Picky()
    async with Works([Doors(), picky]) as works:
        await works.take(door("1", "open", 1), door("2", "ajar", 2))
        rebuild = await works.rebuild("picky")
        await rebuild.fold()
        picky.fixed = True
        works.now += SECOND
        result = await works.service.replay_letter("s__2")
        assert result is not None
        assert result.outcome is Outcome.APPLIED
        await works.damage("picky/d", state="broken by hand")
        works.engine.forget([(await works.snapshot("picky/d")).ref])
        assert await rebuild.swap() == 1
        assert (await works.document("picky/d"))["state"] == "ajar"
        assert (await works.verify()).listed == []


class Pickier(Picky):
    name = collection = "pickier"


async def test_a_fold_meets_a_view_that_settles_while_another_still_refuses() -> None:
    """The entry stays poison, and is completed all the same: a fold that has read it must read it again."""
    picky = Picky()
    async with Works([picky, Pickier()]) as works:
        await works.take(door("1", "open", 1), door("2", "ajar", 2))
        rebuild = await works.rebuild("picky")
        await rebuild.fold()
        picky.fixed = True
        result = await works.service.replay_letter("s__2")
        assert result is not None
        assert result.outcome is Outcome.POISON
        assert await rebuild.swap() == 0
        assert (await works.document("picky/d"))["state"] == "ajar"
        assert (await works.verify()).listed == []


async def test_a_fold_meets_a_view_that_settles_while_another_is_retried() -> None:
    picky = Picky()
    async with Works([picky, Pickier()]) as works:
        await works.take(door("1", "open", 1), door("2", "stuck", 2))
        rebuild = await works.rebuild("picky")
        await rebuild.fold()
        picky.fixed = True
        await works.take(door("2", "stuck", 2))
        assert await rebuild.swap() == 0
        assert (await works.document("picky/d"))["state"] == "stuck"
