"""A check with a hypothesis strategy: hypothesis draws lists of payloads, and shrinks them. Called by `check`.

Hypothesis is optional: it is imported only if a strategy is given.
"""

from __future__ import annotations

from typing import Any

from millpond.core.route import RouteRules
from millpond.testing import faults
from millpond.testing.check import Check
from millpond.testing.describe import Asker, Evidence, as_fault
from millpond.testing.events import from_list
from millpond.testing.faults import CheckError, CheckReport
from millpond.testing.probes import FaultFound

_EVENTS_MAX = 5
_EXAMPLES_MAX = 100
# A strategy says which payloads are legal, not which of them occur together.
_TIES = {faults.ONE_STAMP, faults.ONE_IDENTITY}


def check_strategy(strategy: Any, asker: Asker, rules: RouteRules) -> CheckReport:
    """As many examples as worlds, at most a hundred; each example gets its share of the worlds."""
    try:
        import hypothesis  # noqa: PLC0415 - optional
        from hypothesis import strategies as st  # noqa: PLC0415
    except ModuleNotFoundError:
        raise CheckError("events: a strategy needs hypothesis: pip install hypothesis") from None
    if not isinstance(strategy, st.SearchStrategy):
        raise CheckError(f"events: {type(strategy).__name__} is no hypothesis strategy")
    examples = min(asker.worlds, _EXAMPLES_MAX)
    total = Totals(asker._replace(worlds=max(1, asker.worlds // examples)), rules)

    @hypothesis.seed(asker.seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
    )
    @hypothesis.given(st.lists(strategy, min_size=1, max_size=_EVENTS_MAX))
    def every_list(payloads: list[Any]) -> None:
        total.check(payloads)

    every_list()
    return total.report()


class Totals:
    """The reports of all examples, summed up. That nothing is applied is legal in an example, but not in all."""

    def __init__(self, asker: Asker, rules: RouteRules) -> None:
        self._asker = asker
        self._rules = rules
        self._reports: list[CheckReport] = []
        self._nothing: Evidence | None = None

    def check(self, payloads: list[Any]) -> None:
        """Raises ViewFault."""
        left, view = list(payloads), self._asker.view
        while True:
            try:
                self._reports.append(Check(view, from_list(left, view), self._asker, self._rules).find())
                return
            except FaultFound as found:
                evidence = found.evidence
            if evidence.cause is faults.NOTHING_APPLIED:
                self._nothing = evidence
                return
            if evidence.cause not in _TIES:
                raise as_fault(evidence, self._asker)
            del left[evidence.events[-1].number - 1]

    def report(self) -> CheckReport:
        if not self._reports:
            assert self._nothing is not None  # noqa: S101 - every example is in one of the two
            raise as_fault(self._nothing, self._asker)
        reports = self._reports
        return CheckReport(
            view=self._asker.view.name,
            events=sum(report.events for report in reports),
            applied=sum(report.applied for report in reports),
            filtered=sum(report.filtered for report in reports),
            too_old=sum(report.too_old for report in reports),
            poison={},
            documents=sum(report.documents for report in reports),
            worlds=sum(report.worlds for report in reports),
        )
