"""The answer of `GET /api/cost` and `millpond cost --json`. Its docstrings and descriptions are public."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from millpond.core.answers import Count
from millpond.settings.prices import Prices


class Figures(msgspec.Struct, rename="camel", kw_only=True):
    """Operations as Firestore bills them."""

    reads: Count
    writes: Count
    deletes: Annotated[Count, Meta(description="Deletes that Millpond made.")]
    expiring: Annotated[Count, Meta(description="Documents created to expire: the store bills a delete for each.")]
    bytes_written: Annotated[
        Count, Meta(description="Encoded size of the documents written, from one of sixteen while there are many.")
    ]


class Stored(msgspec.Struct, rename="camel", kw_only=True):
    """What lies in the store, estimated: documents are counted, their size is that of a few of them."""

    documents: Count
    bytes: Annotated[Count, Meta(description="By Google's rules for the size of documents.")]
    index_bytes: Annotated[
        Count, Meta(description="Of single-field indexes, with the exemptions of docs/deploy.md.")
    ]
    more: Annotated[bool, Meta(description="Whether there are more documents than were counted.")]


class CostRow(msgspec.Struct, rename="camel", kw_only=True):
    """A view, or a part of Millpond: what it was counted to do, and what that makes in a day."""

    name: str
    is_view: bool
    collections: Annotated[list[str], Meta(description="`*` stands for the ids of documents.")]
    counted: Figures
    day: Annotated[Figures, Meta(description="`counted`, scaled to 24 hours.")]
    stored: Annotated[Stored | None, Meta(description="Null if none of its collections could be measured.")]
    cost: Annotated[float | None, Meta(description="A day, in the currency of `prices`; null without prices.")]


class Cost(msgspec.Struct, rename="camel", kw_only=True):
    """What a day like the last 24 hours costs. The free quota is not subtracted."""

    minutes: Annotated[Count, Meta(description="The figures are of so many minutes; 0 if nothing was counted yet.")]
    scale: Annotated[float, Meta(description="By which they were multiplied to make a day.")]
    messages: Annotated[Count, Meta(description="Messages in these minutes.")]
    operations_per_message: float | None
    rows: list[CostRow]
    total: CostRow
    unanswered_reads: Annotated[Count, Meta(description="Of calls without an answer: perhaps billed, not counted.")]
    unanswered_writes: Annotated[Count, Meta(description="The same; deletes are among them.")]
    complete: Annotated[bool, Meta(description="False if more instances ran than are read.")]
    kept: Annotated[bool, Meta(description="False with HISTORY=off: the figures are of this process alone.")]
    reads_for_this: Annotated[Count, Meta(description="What this answer itself read.")]
    unmeasured: Annotated[
        list[str], Meta(description="Collections whose size is not known: their storage is in no cost.")
    ]
    prices: Prices | None
