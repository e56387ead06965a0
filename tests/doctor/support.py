"""What the tests of doctor share."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.doctor.findings import Finding, State


def texts(findings: Sequence[Finding], state: State) -> list[str]:
    """What was found in this state."""
    return [finding.found for finding in findings if finding.state is state]
