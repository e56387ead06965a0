"""`millpond rebuild VIEW`: in the server that holds the store, or in this process where none does."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any, Protocol
from urllib.parse import quote

import click

from millpond.cli import exits
from millpond.cli.http_client import Client
from millpond.cli.local import open_service, refuse_memory
from millpond.cli.options import example, json_option, load_settings, store_option, views_option
from millpond.cli.output import print_json, print_line, print_note
from millpond.cli.reports import tell_report
from millpond.cli.server import admin_client, answer_of, find_server, refuse_missing
from millpond.cli.verify import refuse_without_log
from millpond.reprocess.describe import report_json
from millpond.reprocess.jobs import Phase
from millpond.reprocess.rebuild import Rebuild
from millpond.settings import Settings

_TIMEOUT_S = 30.0
_POLL_S = 0.5
_FIGURES = (
    ("log entries read", "entries"),
    ("documents", "documents"),
    ("equal to the fold", "equal"),
    ("changed", "changed"),
    ("new", "new"),
    ("not checkable, left as they are", "notCheckable"),
)
State = dict[str, Any]


@click.command(
    epilog=example("millpond rebuild market_ticks_latest", "millpond rebuild parcels --views parcels --yes")
)
@click.argument("view")
@click.option("--yes", is_flag=True, help="Swap without asking.")
@store_option
@views_option
@json_option
@click.pass_context
def rebuild(ctx: click.Context, view: str, *, yes: bool, as_json: bool) -> None:
    """Fold the event log into one view's documents anew.

    The log is folded beside the documents first, while traffic goes on; then the differences are shown, and
    only what was approved is swapped in. A view you have just added is filled from the log the same way.
    Documents that the log did not decide are left as they are, and none is removed. Asks first on a terminal;
    elsewhere it needs --yes. Exits with 1 where there are differences and nothing was swapped.
    """
    settings = load_settings()
    refuse_without_log(settings)
    refuse_memory(settings)
    refuse_missing(settings.store_path)
    state = _rebuild(settings, view, yes=yes, as_json=as_json)
    swapped = state["phase"] == Phase.SWAPPED
    if as_json:
        print_json(state)
    elif swapped:
        print_line(f"Rebuilt {view}; documents written: {state['written']}.")
    ctx.exit(exits.OK if swapped else exits.NEGATIVE)


def _rebuild(settings: Settings, view: str, *, yes: bool, as_json: bool) -> State:
    # The question is asked outside of the event loop, where Ctrl-C is an answer.
    with asyncio.Runner() as runner:
        held = contextlib.AsyncExitStack()
        try:
            workshop = runner.run(held.enter_async_context(_open_workshop(settings, view)))
            state = runner.run(workshop.fold())
            different = state["report"]["different"]
            if not as_json:
                tell_report(state["report"], _FIGURES)
            # Where nothing differs the swap only remembers that the rules of today hold for all of it.
            if not different or yes or _approved(different):
                state = runner.run(workshop.swap())
        finally:
            runner.run(held.aclose())
    return state


def _approved(different: int) -> bool:
    if not sys.stdin.isatty():
        print_note("Nothing was swapped: look at the differences, and give --yes to swap.")
        return False
    return click.confirm(f"Put the fold in the place of {different} documents?", err=True)


class Workshop(Protocol):
    """Where a view is rebuilt."""

    async def fold(self) -> State: ...

    async def swap(self) -> State: ...


@contextlib.asynccontextmanager
async def _open_workshop(settings: Settings, view: str) -> AsyncIterator[Workshop]:
    address = find_server(settings)
    if address is not None:
        client = admin_client(settings, address, timeout_s=_TIMEOUT_S)
        workshop = ServerWorkshop(client, view)
        try:
            yield workshop
        finally:
            await workshop.leave()
            client.close()
        return
    async with open_service(settings, 1) as service:
        opening = service.rebuild(view)
        if opening is None:
            names = ", ".join(sorted(known.name for known in service.views))
            raise exits.NegativeAnswer(f"there is no view {view}: loaded are {names} (--views names your own)")
        async with opening as rebuild:
            yield OwnWorkshop(rebuild)


class OwnWorkshop:
    def __init__(self, rebuild: Rebuild) -> None:
        self._rebuild = rebuild
        self._report: State = {}

    async def fold(self) -> State:
        self._report = report_json(await self._rebuild.fold())
        return self._state(Phase.FOLDED, None)

    async def swap(self) -> State:
        return self._state(Phase.SWAPPED, await self._rebuild.swap())

    def _state(self, phase: Phase, written: int | None) -> State:
        view, entries = self._rebuild.view.name, self._rebuild.entries
        return {"view": view, "phase": phase, "entries": entries, "report": self._report, "written": written}


class ServerWorkshop:
    def __init__(self, client: Client, view: str) -> None:
        self._client = client
        self._path = f"/api/rebuilds/{quote(view, safe='')}"
        self._begun = False

    async def fold(self) -> State:
        await self._ask("POST", self._path)
        self._begun = True
        return await self._ended()

    async def swap(self) -> State:
        await self._ask("POST", f"{self._path}/swap")
        return await self._ended()

    async def leave(self) -> None:
        """The server need not keep what it folded for us."""
        if self._begun:
            with contextlib.suppress(exits.Unreachable, exits.NegativeAnswer):
                await self._ask("DELETE", self._path)

    async def _ended(self) -> State:
        """The state once the server has done what it was asked to do."""
        while True:
            state = await self._ask("GET", self._path)
            if state["phase"] not in {Phase.FOLDING, Phase.SWAPPING}:
                break
            await asyncio.sleep(_POLL_S)
        if state["phase"] == Phase.FAILED:
            raise exits.Unreachable(f"the rebuild failed: {state['error']}")
        return state

    async def _ask(self, method: str, path: str) -> State:
        reply = await self._client.request(method, path, b"")
        answer = answer_of(reply)
        if reply.status >= 400:
            known = exits.NegativeAnswer if reply.status in {404, 409} else exits.Unreachable
            raise known(f"{answer.get('error')} ({self._client.address.base})")
        return answer
