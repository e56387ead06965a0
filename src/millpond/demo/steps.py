"""Steps for the demo's flow runs, which only wait. Named by STEPS while the demo runs."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from millpond import StepContext, step


@step("DEMO_IMPORT")
@step("DEMO_CHECK")
async def work(context: StepContext) -> dict[str, Any]:
    """Pretend to work for as long as the inputs say."""
    await asyncio.sleep(float(context.inputs.get("seconds", 1.0)))
    return {"rows": random.Random(context.run_id).randrange(1_000, 90_000)}  # noqa: S311 - a made-up figure
