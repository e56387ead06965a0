"""Generates `docs/settings.md` from the table of settings, so that the page and the code cannot differ.

    python -m millpond.settings.docs > docs/settings.md

The allowed values are the text of the error that a setting's parser raises for an impossible value.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from millpond import settings
from millpond.core.errors import SettingsError
from millpond.settings.table import TABLE, Setting

# Only parsers of any text accept the first; only parsers of optional text accept the second.
_IMPOSSIBLE = ("\x00", "")
# Environments that each parser accepts and `load` refuses.
_ALSO_REFUSED = (
    {"STORE": "firestore"},
    {"STORE": "firestore", "BUILT_IN_VIEWS": "none"},
    {"DLQ_TOPIC": "letters"},
    {"ACCESS_DENIED": "dlq"},
    {"FIRESTORE_RETRY_INITIAL_BACKOFF_S": "7"},
)
_HEAD = """\
# Settings

Every setting is an environment variable. On the embedded store every one has a default: with none set, `millpond
serve` listens on 127.0.0.1:8080 and keeps its documents in `var/millpond.db`. With `STORE=firestore` these must be
set: {required}.
The options `--host`, `--port`, `--store`, `--views` and `--steps` win over the environment. A value that is not
allowed is refused before anything starts, with the setting's name, the value and what is allowed:

```
{example}
```

`millpond config` shows what is in force and where each value came from.{masked}

Words such as *view*, *receipt* and *letter* are in the [glossary](glossary.md).

This page is generated from [settings/table.py](../src/millpond/settings/table.py). Do not edit it; run
`.venv/bin/python -m millpond.settings.docs > docs/settings.md`.

| setting | default | allowed | meaning |
|---|---|---|---|
"""
_FOOT = """
## Also refused

Each value is checked alone, and then beside the others:

```
{lines}
```
"""


def render() -> str:
    """The page, as Markdown."""
    secrets = [f"`{row.name}`" for row in TABLE if row.secret]
    masked = f" It masks secrets: {', '.join(secrets)}." if secrets else ""
    required = _named(settings.REQUIRED_ON_FIRESTORE)
    for view, names in settings.REQUIRED_BY_VIEW.items():
        required += f", and, if the view `{view}` is on, {_named(names)}"
    head = _HEAD.format(required=required, example=_refusal({"PORT": "http"}), masked=masked)
    rows = "".join(_row(setting) for setting in TABLE)
    return head + rows + _FOOT.format(lines="\n".join(map(_refusal, _ALSO_REFUSED)))


def _named(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def allowed(setting: Setting) -> str:
    """The allowed values, from the parser's error."""
    for text in _IMPOSSIBLE:
        try:
            setting.parse(text)
        except ValueError as error:
            # JSON is formatted as code on the page.
            return re.sub(r"(\{.*\})", r"`\1`", str(error))
    return "any text"


def _row(setting: Setting) -> str:
    default = f"`{setting.default}`" if setting.default else "unset"
    meaning = f"{setting.meaning} Secret." if setting.secret else setting.meaning
    cells = (f"`{setting.name}`", default, allowed(setting), _linked(meaning))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _linked(meaning: str) -> str:
    """Links to other pages, relative to docs/, where this page is."""
    return re.sub(r"docs/([a-z-]+\.md)", r"[\1](\1)", meaning)


def _refusal(environment: dict[str, str]) -> str:
    try:
        settings.load(environment)
    except SettingsError as error:
        return str(error)
    raise AssertionError(f"{environment} is no longer refused: this page must not say so")


if __name__ == "__main__":
    # Bytes, because the output becomes a file of the repository and must not depend on the terminal's encoding.
    sys.stdout.buffer.write(render().encode())
