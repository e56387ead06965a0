"""`GET /api/cost`: what a day like the last one costs on Firestore. Never writes.

Its own reads are billed too, so requests share one answer for a minute.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from millpond.cost.answer import Cost
from millpond.cost.bill import priced
from millpond.cost.examine import examine
from millpond.http.access import Access, RequestFault
from millpond.http.operation import fails, operation
from millpond.http.routing import Route
from millpond.service.service import Service
from millpond.stores.operations import BilledStore

NO_BILL = "store_without_bill"
_FRESH_S = 60.0


class CostApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._asking = asyncio.Lock()
        self._known: tuple[float, Cost] | None = None

    def routes(self) -> list[Route]:
        return [Route("/api/cost", {"GET": self._cost}, Access.ADMIN)]

    @operation("cost", fails(404, NO_BILL))
    async def _cost(self, _: Request) -> Cost:
        """What a day like the last 24 hours costs on Firestore, by view.

        From operations that all instances counted; what others did in the last two minutes may be missing, and of
        an idle one the last hour. At most a minute old. Stored bytes are an estimate. docs/firestore.md has the
        rules.
        """
        store = self._service.store
        if not isinstance(store, BilledStore):
            raise RequestFault(404, NO_BILL, "only STORE=firestore has a bill; this server has another store")
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if self._known is None or now - self._known[0] >= _FRESH_S:
                spending = await self._service.day.spending()
                cost = await examine(store, self._service.views, spending)
                self._known = now, priced(cost, self._service.settings.firestore_prices)
            return self._known[1]
