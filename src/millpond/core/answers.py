"""Field types and Structs that several JSON answers share. Used by every package with answers.

The OpenAPI description is derived from the Structs, so the Struct alone holds a field's type, constraints and
description, and its docstring is public.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from millpond.core.model import Outcome

Count = Annotated[int, Meta(ge=0)]
Reason = Annotated[str, Meta(description="One stable word: docs/ordering.md has every one.")]
ErrorText = Annotated[str, Meta(description="Why, for people. The text may change; build on `reason`.")]
TraceText = Annotated[str, Meta(description="The traceback through the view that raised; VIEW_ERRORS says when.")]
TimeText = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
AlwaysTrue = Annotated[bool, Meta(extra_json_schema={"const": True})]
DocPath = Annotated[str, Meta(description="The document's path; empty if the view did not want the event.")]
Topic = Annotated[str, Meta(description="Empty if none was found.")]


class ViewAnswer(msgspec.Struct):
    """What became of the message in one view."""

    view: str
    doc: DocPath
    outcome: Outcome
    reason: Reason


class Failure(msgspec.Struct):
    """Why there is nothing else to say."""

    reason: Reason
    error: ErrorText
