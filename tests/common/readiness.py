"""Whether a dashboard says that the store works."""

from __future__ import annotations

from tests.acceptance.event_streams import Reading


def store_verdict(page: Reading) -> str:
    """The state of the alert `store-failing`: the page's verdict is that of the worst alert."""
    alerts = page.named("alerts")[-1].content["alerts"]
    return next(str(alert["state"]) for alert in alerts if alert["id"] == "store-failing")
