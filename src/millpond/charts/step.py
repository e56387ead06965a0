"""The step CHART_EXPORT: candlestick charts of the run's symbol, as PNG files with a manifest.

This module calls the others of `millpond.charts`, one request after the other. Drawing and writing happen in
threads, never on the event loop, and matplotlib is loaded for the first chart. Called by the flow-run worker.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millpond import StepContext, StepFailed, step, to_text
from millpond.charts import files
from millpond.charts.bars import Bar
from millpond.charts.find import find_bars
from millpond.charts.request import ChartFailure, Inputs, Request, parse_inputs, symbol_of
from millpond.charts.sources import BarSource, open_source

if TYPE_CHECKING:
    from millpond.charts.draw import Picture


@step("CHART_EXPORT", needs="matplotlib")
async def chart_export(context: StepContext) -> dict[str, Any]:
    """Draw what `inputs.requests` asks for, and write a manifest with the result of each request."""
    symbol = symbol_of(context.run)
    inputs = parse_inputs(context.step, context.inputs)
    context.ensure_claimed()
    await context.in_thread(files.make_folder, context.artifacts)
    source = open_source(context.documents, context.settings["BARS_ID"], symbol)
    items: list[dict[str, Any]] = []
    failures: list[ChartFailure] = []
    for request in inputs.requests:
        outcome = request if isinstance(request, ChartFailure) else await _export(context, request, source, symbol)
        if isinstance(outcome, ChartFailure):
            failures.append(outcome)
        else:
            items.append(outcome)
    await _publish(context, files.MANIFEST, files.manifest(_head(context, symbol, inputs), items, failures))
    manifest = _relative(context, files.MANIFEST)
    if len(items) < inputs.images_min:
        first = failures[0]
        raise StepFailed(
            "TOO_FEW_IMAGES",
            f"{len(items)} of {len(inputs.requests)} charts were drawn and minImages is {inputs.images_min}; "
            f"request {first.index}: {first.message}; see {manifest}",
        )
    return {
        "manifest": manifest,
        "images": [_relative(context, item["file"]) for item in items],
        "succeeded": len(items),
        "failed": len(failures),
    }


async def _export(
    context: StepContext, request: Request, source: BarSource, symbol: str
) -> dict[str, Any] | ChartFailure:
    """Publish one request's chart. Returns its item in the manifest."""
    found = await find_bars(source, request, context.wall_clock())
    if not found.bars:
        return ChartFailure(
            index=request.index,
            timeframe=request.timeframe,
            template=request.template,
            code="NO_BARS",
            message=_no_bars(request, found.skipped),
        )
    zone = context.settings["CHARTS_DEFAULT_TIMEZONE"]
    picture = await context.in_thread(_draw, request, symbol, found.bars, zone)
    name = files.file_name(request, symbol)
    await _publish(context, name, picture.png)
    start = found.bars[0].start if request.start is None else request.start
    end = found.bars[-1].start + request.step if request.end is None else request.end
    return {
        "index": request.index,
        "file": name,
        "timeframe": request.timeframe,
        "from": to_text(start),
        "to": to_text(end),
        "bars": len(found.bars),
        "skipped": found.skipped,
        "chartTemplateId": request.template,
        "width": picture.width,
        "height": picture.height,
        "bytes": len(picture.png),
        "sha256": files.sha256(picture.png),
    }


async def _publish(context: StepContext, name: str, content: bytes) -> None:
    context.ensure_claimed()
    await context.in_thread(files.publish, context.artifacts, name, content)


def _head(context: StepContext, symbol: str, inputs: Inputs) -> dict[str, Any]:
    return {
        "runId": context.run_id,
        "stepId": context.step_id,
        "createdAt": to_text(context.wall_clock()),
        "symbol": symbol,
        "timeframe": inputs.timeframe,
        "minImages": inputs.images_min,
        "requested": len(inputs.requests),
    }


def _no_bars(request: Request, skipped: int) -> str:
    since = "" if request.start is None else f" from {to_text(request.start)}"
    until = "" if request.end is None else f" to before {to_text(request.end)}"
    unusable = f"; {skipped} could not be used, for lack of a price" if skipped else ""
    return f"the run's symbol has no bars{since}{until}{unusable}"


def _relative(context: StepContext, name: str) -> str:
    """A file's path relative to ARTIFACTS_DIR: it stays valid if the folder is mounted elsewhere."""
    return Path(os.path.relpath(context.artifacts, context.settings["ARTIFACTS_DIR"]), name).as_posix()


def _draw(request: Request, symbol: str, bars: Sequence[Bar], zone: str) -> Picture:
    try:
        from millpond.charts.draw import Chart, draw  # noqa: PLC0415 - takes long to load, and may not be there
    except ModuleNotFoundError as error:
        raise StepFailed(
            "CHARTS_NOT_INSTALLED", f"drawing needs pip install 'millpond[charts]' ({error})"
        ) from error
    return draw(Chart(symbol=symbol, timeframe=request.timeframe, bars=bars, zone=zone, template=request.template))
