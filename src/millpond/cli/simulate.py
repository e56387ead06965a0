"""`millpond simulate`: runs the simulator (`millpond.sim`) over many seeds, or over one, and prints the result."""

from __future__ import annotations

import os
from typing import Any

import click
from click.core import ParameterSource

from millpond.cli import exit_codes
from millpond.cli.options import OVERRIDES, example, json_option, views_option
from millpond.cli.output import Column, print_json, print_line, print_table, progress
from millpond.core.timestamps import SECOND_US, to_text
from millpond.sim.facts import START, PublishedMessage
from millpond.sim.runner import RunSeed, Summary, run_seeds
from millpond.sim.shrink import BUILT_IN, NONE, Smaller, Stage, shrink
from millpond.sim.world import run_seed
from millpond.sim.world_frame import WorldFailure, WorldReport
from millpond.sim.world_parameters import FAULTS

_COUNTS = (Column("what happened"), Column("times", right=True))
_MESSAGES = (
    Column("message"),
    Column("published", right=True),
    Column("topic"),
    Column("key"),
    Column("event time", right=True),
    Column("sequence", right=True),
    Column("flaw"),
)
_USER_MESSAGES = (Column("message"), Column("published"), Column("topic"), Column("data", clip=True))


@click.command(
    epilog=example(
        "millpond simulate --seeds 2000 --jobs 2",
        "millpond simulate --seed 17 --trace | less",
        "millpond simulate --views orders --events orders.jsonl",
    )
)
@views_option
@click.option(
    "--events",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Simulate these messages and your own views (--views), instead of the built-in ones.",
)
@click.option(
    "--seeds", type=click.IntRange(1, 10_000_000), default=200, show_default=True, help="Number of worlds."
)
@click.option("--start", type=click.IntRange(0), default=0, show_default=True, help="Seed of the first world.")
@click.option("--jobs", type=click.IntRange(1, 512), help="Worlds at once.  [default: one per core]")
@click.option("--keep-going", is_flag=True, help="Continue after a world that fails.")
@click.option("--no-shrink", is_flag=True, help="Do not search for the smallest world that fails.")
@click.option("--require-rare", is_flag=True, help="Fail if no world reached one of the rare states.")
@click.option("--seed", type=click.IntRange(0), help="Run only the world of this seed.")
@click.option("--trace", is_flag=True, help="With --seed: print every event of the world.")
@click.option("--messages", metavar="IDS", help="With --seed: publish only these, separated by commas; or `none`.")
@click.option(
    "--faults", metavar="NAMES", help="With --seed: inject only these faults, separated by commas; or `none`."
)
@click.option("--instances", type=click.IntRange(1, 5), help="With --seed: number of instances.")
@json_option
@click.pass_context
def simulate(
    ctx: click.Context,
    seeds: int,
    start: int,
    jobs: int | None,
    seed: int | None,
    messages: str | None,
    faults: str | None,
    instances: int | None,
    events: str | None,
    *,
    keep_going: bool,
    no_shrink: bool,
    require_rare: bool,
    trace: bool,
    as_json: bool,
) -> None:
    """Check the guarantees in simulated worlds.

    The engine, the views and the flow worker are the real ones. A world is drawn from a seed: messages that arrive
    twice, late and out of order, instances that crash, a store that fails before and after it has committed. It has
    no sockets, no threads and no clock, so the same seed always gives the same run. Exits with 1 if a guarantee was
    broken; then it shows the smallest world that still breaks it, and the command that repeats it.
    """
    stage, run = _stage(ctx, events, require_rare=require_rare)
    if seed is not None:
        _refuse_many(ctx)
        one = Smaller(
            seed=seed,
            stage=stage,
            messages=_names(messages),
            faults=_known_faults(ctx, _names(faults)),
            instances=instances,
        )
        unknown = set(one.messages or ()) - set(Smaller(seed=seed, stage=stage).shown_ids())
        if unknown:
            raise click.UsageError(f"--messages: seed {seed} publishes no {', '.join(sorted(unknown))}", ctx)
        _run_one(ctx, one, trace=trace, as_json=as_json)
        return
    if trace or messages is not None or faults is not None or instances is not None:
        raise click.UsageError("--trace, --messages, --faults and --instances need --seed", ctx)
    with progress("Worlds", seeds) as advance:
        jobs = jobs or os.cpu_count() or 1
        summary = run_seeds(start, seeds, jobs=jobs, keep_going=keep_going, advance=advance, run=run)
    smaller = None
    if summary.failures and not no_shrink:
        smaller = _shrunk(summary.failures[0], stage)
    if as_json:
        print_json(_as_json(summary, smaller))
    else:
        _show(summary, smaller, stage)
    unreached = summary.unreached if require_rare else []
    if unreached and not as_json:
        print_line(f"rare states that no world reached: {', '.join(unreached)}")
    ctx.exit(exit_codes.NEGATIVE if summary.failures or unreached else exit_codes.OK)


def _stage(ctx: click.Context, events: str | None, *, require_rare: bool) -> tuple[Stage, RunSeed]:
    """Whose worlds are simulated: the built-in facts', or the user's."""
    views = ctx.meta.get(OVERRIDES, {}).get("VIEWS")
    if events is None:
        if views is not None:
            raise click.UsageError("--views needs --events: the messages that the views are simulated with", ctx)
        return BUILT_IN, run_seed
    if require_rare:
        raise click.UsageError("--require-rare makes no sense with --events", ctx)
    # Imported here: the simulation of the built-in facts does not need it.
    from millpond.testing.user_stage import UserStage  # noqa: PLC0415

    stage = UserStage(views if views is not None else os.environ.get("VIEWS", ""), events)
    stage.check()
    return stage, stage.run_seed


def _refuse_many(ctx: click.Context) -> None:
    """Refuse options for many worlds together with --seed."""
    for name in ("seeds", "start", "jobs", "keep_going", "no_shrink", "require_rare"):
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} makes no sense with --seed", ctx)


def _names(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return () if text == NONE else tuple(filter(None, text.split(",")))


def _known_faults(ctx: click.Context, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for name in names or ():
        if name not in FAULTS:
            raise click.UsageError(f"--faults: {name!r} is none of {', '.join(FAULTS)}", ctx)
    return names


def _run_one(ctx: click.Context, one: Smaller, *, trace: bool, as_json: bool) -> None:
    report = one.run(trace=trace)
    if as_json:
        print_json(report)
    else:
        for line in report.trace:
            print_line(line)
        if not trace:
            print_table(_COUNTS, sorted(report.seen.items()))
        print_line(f"seed {one.seed}: {report.messages} messages, {report.seconds:.0f} simulated seconds")
        print_line(_verdict(report.failure))
    ctx.exit(exit_codes.OK if report.failure is None else exit_codes.NEGATIVE)


def _shrunk(report: WorldReport, stage: Stage) -> Smaller:
    assert report.failure is not None  # noqa: S101 - asked only about failures
    with progress("Shrinking", None) as advance:
        return shrink(report.seed, report.failure.checker, advance, stage)


def _show(summary: Summary, smaller: Smaller | None, stage: Stage) -> None:
    tables = {"faults": summary.faults, "rare states": summary.rare, "answers": summary.answers}
    if stage is not BUILT_IN:
        # Not every fault and state of the built-in facts can happen to a user's events.
        tables = {
            "faults": {name: count for name, count in summary.faults.items() if count},
            "answers": summary.answers,
        }
    for title, counts in tables.items():
        print_table((Column(title), Column("times", right=True)), list(counts.items()))
        print_line()
    hours = summary.simulated_seconds / 3_600
    worlds = "1 world" if summary.seeds == 1 else f"{summary.seeds} worlds"
    print_line(
        f"{worlds} from seed {summary.start}: {summary.messages} messages, "
        f"{summary.seen['conflict']} conflicts, {hours:.1f} simulated hours"
    )
    for report in summary.failures:
        print_line(f"seed {report.seed}: {_verdict(report.failure)}")
    if not summary.failures:
        print_line(_verdict(None))
    if smaller is not None:
        _show_smaller(smaller)


def _show_smaller(smaller: Smaller) -> None:
    print_line()
    print_line("the smallest world that still fails:")
    messages = smaller.shown_messages()
    if smaller.stage is BUILT_IN:
        print_table(_MESSAGES, [_row(message) for message in messages])
    else:
        print_table(_USER_MESSAGES, [_user_row(message) for message in messages])
    print_line(f"millpond simulate {smaller.options()} --trace")


def _row(message: PublishedMessage) -> tuple[Any, ...]:
    fact = message.fact
    happened = None if fact.at is None else _seconds(fact.at)
    return message.id, _seconds(message.published_at), fact.topic, fact.key, happened, fact.sequence, fact.flaw


def _user_row(message: PublishedMessage) -> tuple[Any, ...]:
    topic = message.attributes.get("topic")
    return message.id, to_text(message.published_at), topic, message.data.decode(errors="replace")


def _seconds(at: int) -> str:
    """Seconds on the simulated clock, as in a trace."""
    return f"{(at - START) / SECOND_US:.6f}"


def _verdict(failure: WorldFailure | None) -> str:
    return "every guarantee held" if failure is None else f"BROKEN {failure.checker}: {failure.text}"


def _as_json(summary: Summary, smaller: Smaller | None) -> dict[str, Any]:
    return {
        "start": summary.start,
        "seeds": summary.seeds,
        "messages": summary.messages,
        "simulatedSeconds": round(summary.simulated_seconds),
        "conflicts": summary.seen["conflict"],
        "faults": summary.faults,
        "rare": summary.rare,
        "unreached": summary.unreached,
        "answers": summary.answers,
        "failures": [
            {"seed": report.seed, "checker": failure.checker, "text": failure.text}
            for report in summary.failures
            if (failure := report.failure) is not None
        ],
        "shrunk": None
        if smaller is None
        else {"messages": len(smaller.messages or ()), "command": f"millpond simulate {smaller.options()}"},
    }
