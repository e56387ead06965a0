"""Where each signal of `alerts.json` is found: in the counters of this process, and in what Prometheus has of them.

They stand side by side so that they cannot come to mean different things. Cloud Monitoring's are in
`infra/terraform/monitoring.tf`. Nothing here keeps a state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millpond.core.errors import AccessDenied, Unavailable
from millpond.core.model import Outcome
from millpond.telemetry.metrics import Metrics

# A full waiting room is how Millpond slows its broker down, and says nothing about what was sent: such an answer is
# a request, but not one of the 4xx that tell of a producer's fault.
_BACKPRESSURE = 429

# What Prometheus counts, each over all instances.
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
# What it gauges. Every instance looks at the same store; the worst of them counts.
GAUGES = {"letters": "millpond_letters", "store_failing": "millpond_store_failing_seconds"}


def totals(metrics: Metrics) -> dict[str, int]:
    """What this process has counted since it began, for each of `COUNTERS`."""
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
    """What one view counted in each step, for the signals that cases measure by view; `outcomes` is not empty."""
    events = [sum(step) for step in zip(*outcomes.values(), strict=True)]
    return {"events": events, "stale": list(outcomes.get(Outcome.STALE, [0] * len(events)))}
