"""What the alerts need of a running process: counters that begin at zero, and a memory that is long enough."""

from __future__ import annotations

from millpond.alerts.definitions import load
from millpond.core.errors import AccessDenied, Unavailable
from millpond.live.history import STEP_S, History
from millpond.telemetry.metrics import Metrics


def test_store_errors_are_exported_before_there_are_any() -> None:
    """Prometheus sees a counter rise from its second sample on: the first denied call would call no operator."""
    rendered = Metrics().render().decode()
    for kind in (AccessDenied, Unavailable):
        assert f'millpond_store_errors_total{{kind="{kind.__name__}"}} 0.0\n' in rendered


def test_a_process_remembers_as_long_as_its_longest_alert_needs() -> None:
    """Otherwise that alert could never fire there."""
    history = History(Metrics(), lambda: 0)
    needed_s = load().needed_s()
    for step in range(2 * needed_s // STEP_S):
        history.sample(step * STEP_S)
    assert history.columns.at[-1] - history.columns.at[0] >= needed_s
