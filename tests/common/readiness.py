"""Whether a dashboard says that the store works."""

from __future__ import annotations

from typing import Any


def store_verdict(page: Any) -> str:
    """The state of the alert `store-failing` on a page that is read: its verdict is that of the worst alert."""
    alerts = page.named("alerts")[-1].content["alerts"]
    return next(str(alert["state"]) for alert in alerts if alert["id"] == "store-failing")
