"""All settings: `table` lists them, `parse` reads their text, `loading` makes the effective ones, `docs` a page.

Never builds anything: `service` turns settings into the rules of each part. Called by the CLI and `functions`.
"""

from millpond.settings.loading import FIRESTORE, REQUIRED_ON_FIRESTORE, Settings, SettingsByName, load

__all__ = ["FIRESTORE", "REQUIRED_ON_FIRESTORE", "Settings", "SettingsByName", "load"]
