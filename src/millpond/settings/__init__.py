"""All settings: `table` lists them, `parse` and `checks` refuse wrong ones, `loading` returns all, `docs` a page.

Never builds anything: `service` turns settings into the rules of each part. Called by the CLI and `functions`.
"""

from millpond.settings.checks import FIRESTORE, REQUIRED_BY_VIEW, REQUIRED_ON_FIRESTORE
from millpond.settings.loading import Settings, SettingsByName, load

__all__ = ["FIRESTORE", "REQUIRED_BY_VIEW", "REQUIRED_ON_FIRESTORE", "Settings", "SettingsByName", "load"]
