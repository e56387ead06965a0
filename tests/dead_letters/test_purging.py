"""Letters purged and replayed on a store that is away for some of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.requests import Request

from millpond.core.errors import Unavailable
from millpond.core.model import Delivery, Outcome, Ref, Result
from millpond.http.access import RequestFault
from millpond.http.api.letter_answers import PurgedLetters
from millpond.http.api.letters import LettersApi
from tests.common.endpoints import endpoint
from tests.common.faulty_store import FaultyStore
from tests.common.pond import delivery
from tests.common.rig import Bench


def request(body: Any) -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


async def test_a_letter_that_could_not_be_purged_is_not_called_missing() -> None:
    """The caller would take it for gone: it is told how many were purged, and asks again for the rest."""
    bench = Bench(FaultyStore())
    await bench.send(*(delivery({"nothing": n}, f"m{n}") for n in range(3)))
    purge = endpoint(LettersApi(bench.service).routes(), "POST", "/api/letters/purge")
    ids = {"ids": [f"s__m{n}" for n in range(3)]}
    bench.store.before = [None, Unavailable("away"), None]
    with pytest.raises(RequestFault, match="2 of 3 letters were purged: ask for the rest again") as refused:
        await purge(request(ids))
    assert (refused.value.status, refused.value.reason) == (503, "store_unavailable")
    again = await purge(request(ids))
    assert isinstance(again, PurgedLetters)
    assert (len(again.purged), len(again.missing)) == (1, 2)


async def test_a_replay_that_was_not_settled_is_not_noted() -> None:
    """The letter says how often its message was tried with a result, and waits for the next try as it was."""
    bench = Bench(FaultyStore())
    await bench.send(delivery({"nothing": 1}, "m1"))
    before = await bench.document("dead_letters/s__m1")

    async def away(_: Delivery, __: object) -> Result:
        return Result(Outcome.RETRY, "store_unavailable", error=Unavailable("away"))

    result = await bench.service.letters.replay(Ref("dead_letters", "s__m1"), away)
    assert result is not None
    assert result.outcome is Outcome.RETRY
    assert await bench.document("dead_letters/s__m1") == before
