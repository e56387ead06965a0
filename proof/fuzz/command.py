"""The command line of the fuzz run, and what it prints.

    python -m proof.fuzz --requests 20000 --seed 1        everything, and a table at the end
    python -m proof.fuzz --seed 1 --only 1234             one request again: what is sent, and what comes back

Exit status 0 means that every answer was documented, that no rejected request changed the store, and that the
requests met enough of the documented answers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from millpond.cli.output import Column, print_json, print_table
from proof.fuzz.contract import Contract
from proof.fuzz.requests import Request, make_request
from proof.fuzz.run import Fault, Fuzz
from proof.fuzz.target import millpond
from proof.fuzz.wire import Wire
from proof.progress import show_progress

# With fewer requests, the share of answers met depends on chance.
FIGURES_FROM = 2_000
ACCEPTED_SHARE = (0.2, 0.6)
# Of the documented pairs of status and reason on the two paths. Those that need a failing store, a bad token or a
# faulty view cannot be reached here.
REASONS_MIN = 45
_SHOWN_CHARS = 2_000
_FAULTS_SHOWN = 10


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m proof.fuzz", description=__doc__, add_help=True)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--requests", type=int, default=20_000, help="how many (20000)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--only", type=int, metavar="N", help="only request N of the seed, shown whole")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="millpond-fuzz-") as folder:
        if given.only is not None:
            return _run_one(Path(folder), given.seed, given.only)
        report = run_many(Path(folder), given.seed, given.requests)
    if given.json:
        print_json(report)
    else:
        _print_report(report)
    return 1 if report["faults"] else 0


def run_many(folder: Path, seed: int, requests: int) -> dict[str, Any]:
    """Start a server, fuzz it, and return the report."""
    with millpond(folder) as server:
        fuzz = Fuzz(server, seed)
        began = time.monotonic()
        try:
            with show_progress("requests", requests) as advance:
                fuzz.run(range(requests), advance)
        finally:
            fuzz.close()
        seconds = time.monotonic() - began
    return make_report(fuzz, seed, requests, seconds)


def make_report(fuzz: Fuzz, seed: int, requests: int, seconds: float) -> dict[str, Any]:
    documented = fuzz.contract.reasons()
    # Mutated bytes may name another path; its answers do not count.
    met = {path: sorted(fuzz.met[path] & documented[path]) for path in documented}
    faults = [_fault(fault, seed) for fault in fuzz.faults]
    if requests >= FIGURES_FROM:
        share, count = fuzz.accepted / requests, sum(map(len, met.values()))
        low, high = ACCEPTED_SHARE
        if not low <= share <= high:
            faults.append({"fault": f"{share:.0%} were accepted, not {low:.0%} to {high:.0%}"})
        if count < REASONS_MIN:
            faults.append({"fault": f"only {count} documented answers were met, not {REASONS_MIN}"})
    return {
        "seed": seed,
        "requests": requests,
        "seconds": round(seconds, 1),
        "kinds": dict(sorted(fuzz.kinds.items())),
        "statuses": {str(status): n for status, n in sorted(fuzz.statuses.items())},
        "accepted": fuzz.accepted,
        "rejected": fuzz.rejected,
        "no HTTP and no answer": fuzz.unanswered,
        "rejected and sent again alone": fuzz.repeated,
        "state changes by rejected ones": fuzz.changed_by_rejected,
        "answers": {path: [f"{status} {reason}" for status, reason in found] for path, found in met.items()},
        "not met": {
            path: [f"{status} {reason}" for status, reason in sorted(documented[path] - fuzz.met[path])]
            for path in documented
        },
        "faults": faults,
    }


def _fault(fault: Fault, seed: int) -> dict[str, Any]:
    if fault.request is None:
        return {"fault": fault.text}
    request = fault.request
    return {
        "fault": fault.text,
        "kind": request.kind,
        "number": request.number,
        "again": f".venv/bin/python -m proof.fuzz --seed {seed} --only {request.number}",
        "bytes": len(request.raw),
        "request": _shown(request.raw, _SHOWN_CHARS),
    }


def _shown(raw: bytes, limit: int | None = None) -> str:
    """Bytes as text that can be pasted into Python, on one line."""
    text = repr(raw)
    return text if limit is None or len(text) <= limit else f"{text[:limit]}… (--only shows all of it)"


def _print_report(report: dict[str, Any]) -> None:
    for fault in report["faults"][:_FAULTS_SHOWN]:
        print(f"FAULT: {fault['fault']}")
        for name in ("kind", "number", "again", "request"):
            if name in fault:
                print(f"  {name}: {fault[name]}")
    hidden = len(report["faults"]) - _FAULTS_SHOWN
    if hidden > 0:
        print(f"FAULT: and {hidden} more (--json has them all)")
    kinds = [(kind, n) for kind, n in report["kinds"].items()]
    print_table([Column("kind"), Column("requests", right=True)], kinds)
    print()
    print_table([Column("status"), Column("answers", right=True)], [*report["statuses"].items()])
    print()
    rows: list[tuple[str, Any]] = [("seed", report["seed"]), ("requests", report["requests"])]
    shares = {
        name: f"{report[name]} ({report[name] / report['requests']:.0%})" for name in ("accepted", "rejected")
    }
    plain = ("no HTTP and no answer", "rejected and sent again alone", "state changes by rejected ones")
    rows += [*shares.items(), *((name, report[name]) for name in plain)]
    for path, found in report["answers"].items():
        documented = len(found) + len(report["not met"][path])
        rows.append((f"documented answers met, {path}", f"{len(found)} of {documented}"))
    rows += [("seconds", report["seconds"]), ("faults", len(report["faults"]))]
    print_table([Column("figure"), Column("value", right=True)], rows)


def _run_one(folder: Path, seed: int, number: int) -> int:
    request = make_request(seed, number)
    print(f"seed {seed}, request {number}, {request.kind}, {len(request.raw)} bytes\n{_shown(request.raw)}\n")
    with millpond(folder) as server:
        _show_answers(server.port, request, Contract(server.openapi()))
        fuzz = Fuzz(server, seed)
        fuzz.run([number])
        fuzz.close()
    for fault in fuzz.faults:
        print(f"FAULT: {fault.text}")
    return 1 if fuzz.faults else 0


def _show_answers(port: int, request: Request, contract: Contract) -> None:
    wire = Wire(port, 1)
    if request.framed:
        (reply,) = wire.exchange([request])
    else:
        flung = wire.fling([request])
        time.sleep(1)
        flung.look()
        (reply,) = flung.replies()
    wire.close()
    for answer in reply.answers:
        print(f"{answer.status} {_shown(answer.body, _SHOWN_CHARS)}")
    print("; ".join(contract.judge(request, reply)[1]) or "in order", file=sys.stderr)
