"""The source of each signal of `alerts.json`: the counters of this process, and the same counters in Prometheus.

Both are defined here, so that they keep the same meaning. Those of Cloud Monitoring are in
`infra/terraform/monitoring.tf`. This module keeps no state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millpond.core.errors import AccessDenied, Unavailable
from millpond.core.model import Outcome
from millpond.telemetry.metrics import Metrics

# With 429 a full waiting room slows Pub/Sub down. It counts as a request, but not as one of the 4xx, which mean
# that a producer is at fault.
_BACKPRESSURE = 429

# Prometheus' counters, each summed over all instances.
COUNTERS = {
    "letters_buried": "millpond_letters_buried_total",
    "push_requests": "millpond_push_responses_total",
    "push_4xx": f'millpond_push_responses_total{{status=~"4..",status!="{_BACKPRESSURE}"}}',
    "push_5xx": 'millpond_push_responses_total{status=~"5.."}',
    "transient_errors": f'millpond_store_errors_total{{kind="{Unavailable.__name__}"}}',
    "denied_errors": f'millpond_store_errors_total{{kind="{AccessDenied.__name__}"}}',
    # An event is a message as one view saw it; a message that feeds two views is two events.
    "events": "millpond_view_events_total",
    "stale": f'millpond_view_events_total{{outcome="{Outcome.STALE.value}"}}',
}
# Its gauges. All instances measure the same store, so the highest value counts.
GAUGES = {"letters": "millpond_letters", "store_failing": "millpond_store_failing_seconds"}


def totals(metrics: Metrics) -> dict[str, int]:
    """The counts of this process since it began, for each of `COUNTERS`."""
    answers, errors = metrics.push_responses, metrics.store_errors
    return {
        "letters_buried": metrics.letters_buried,
        "push_requests": answers.total(),
        "push_4xx": sum(n for status, n in answers.items() if status // 100 == 4 and status != _BACKPRESSURE),
        "push_5xx": sum(n for status, n in answers.items() if status // 100 == 5),
        "transient_errors": errors[Unavailable.__name__],
        "denied_errors": errors[AccessDenied.__name__],
        "events": metrics.view_events.total(),
        "stale": sum(n for (_, outcome), n in metrics.view_events.items() if outcome == Outcome.STALE),
    }


def of_view(outcomes: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """The counts of one view in each step, for signals that cases measure by view; `outcomes` is not empty."""
    events = [sum(step) for step in zip(*outcomes.values(), strict=True)]
    return {"events": events, "stale": list(outcomes.get(Outcome.STALE, [0] * len(events)))}
