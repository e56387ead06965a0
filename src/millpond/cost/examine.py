"""Asks the store for what the answer needs: a count and a few documents of each collection. Never writes.

`http.api.cost` and `cli.reading` call it, with what the instances spent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from millpond.core.errors import StoreError
from millpond.core.view import View
from millpond.cost.answer import Cost, Stored
from millpond.cost.bill import Period, collections_of, make_answer, measured_collections
from millpond.cost.storage_size import document_bytes, index_bytes
from millpond.live.minutes import MINUTE_S
from millpond.live.spending import Spending
from millpond.stores.operations import BilledStore, Measured

# Views have one collection each, and Millpond six.
_MEASURED_MAX = 100


async def examine(store: BilledStore, views: Sequence[View], spending: Spending) -> Cost:
    """What a day costs, without prices. A collection that cannot be measured has no size, and the rest is there."""
    period = Period(spending, minute_now=int(time.time()) // MINUTE_S)
    rows = collections_of(views, period.spent)
    stored: dict[str, Stored | None] = {}
    reads = spending.read
    for collection in measured_collections(rows, period.spent):
        stored[collection] = None
        if len(stored) > _MEASURED_MAX:
            continue
        try:
            measured = await store.measure(collection)
        except StoreError:
            continue
        stored[collection] = _estimate(measured)
        reads += _reads(measured)
    return make_answer(spending, period, rows, stored, reads)


def _estimate(measured: Measured) -> Stored:
    sample = [(found.ref, found.data) for found in measured.sample if found.data is not None]
    sizes = (sum(size(ref, data) for ref, data in sample) for size in (document_bytes, index_bytes))
    in_all = [round(size / len(sample) * measured.documents) if sample else 0 for size in sizes]
    return Stored(documents=measured.documents, bytes=in_all[0], index_bytes=in_all[1], more=measured.more)


def _reads(measured: Measured) -> int:
    """As Firestore bills them: a count by the thousand, and each at least one."""
    return max(1, math.ceil(measured.documents / 1_000)) + max(1, len(measured.sample))
