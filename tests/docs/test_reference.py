"""What the reference pages list is what there is: metrics, log fields, letter fields, paths, modules."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import cast

import msgspec

from millpond.core.errors import UnroutableEvent
from millpond.core.item import Item
from millpond.core.model import Delivery
from millpond.dead_letters.store import StoredLetters
from millpond.flow.service import Flow
from millpond.http.api.artifacts import Artifacts
from millpond.http.api.documents import Api
from millpond.http.api.flow import FlowApi
from millpond.http.api.letters import LettersApi
from millpond.http.api.live import LiveApi
from millpond.http.api.move_ids import OldIdsApi
from millpond.http.api.rebuild import RebuildApi
from millpond.http.events import EVENTS_PATH
from millpond.http.pages import Pages
from millpond.ingress.push import Refusal
from millpond.reprocess.jobs import Rebuilds
from millpond.service.service import Service
from millpond.settings import table as settings_table
from millpond.stores.memory import MemoryStore
from millpond.telemetry.message_line import MessageLine
from millpond.telemetry.metrics import Metrics

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "millpond"


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def listed(text: str) -> set[str]:
    """What stands in backticks in the first column of a page's tables."""
    cells = re.findall(r"^\|([^|]+)\|", text, flags=re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def test_every_metric_is_listed() -> None:
    """And none that is gone; the gauges are added by the service."""
    metrics = Metrics()
    metrics.watch("millpond_waiting_messages", "", lambda: 0)
    metrics.watch("millpond_messages_in_line", "", lambda: 0)
    metrics.watch("millpond_connections", "", lambda: 0)
    metrics.watch("millpond_request_body_bytes", "", lambda: 0)
    metrics.watch("millpond_flow_steps_running", "", lambda: 0)
    metrics.watch("millpond_letters", "", lambda: 0)
    metrics.watch("millpond_store_failing_seconds", "", lambda: 0)
    rendered = set(re.findall(r"^# TYPE (\S+)", metrics.render().decode(), flags=re.MULTILINE))
    named = {word.partition("{")[0] for word in listed(page("logs-and-metrics.md"))}
    assert {word for word in named if word.startswith("millpond_")} == rendered


def test_every_field_of_a_log_line_is_listed() -> None:
    """A reader of logs finds each of them in the table."""
    assert set(MessageLine.__struct_fields__) - listed(page("logs-and-metrics.md")) == set()


def test_every_field_of_a_letter_is_listed() -> None:
    """A reader of letters finds each of them in the table."""
    item = Item(Delivery(message_id="1", publish_time=0, data=b""), "", 0, faults=(UnroutableEvent("none"),))
    letters = StoredLetters(MemoryStore(), keep=1, wall_clock=lambda: 0)
    letter = asyncio.run(letters.write_letter(item))
    assert set(letter.document or ()) - listed(page("letters.md")) == set()


def test_every_path_is_listed() -> None:
    """The API's paths are in the table of endpoints."""
    text = page("http-api.md")
    unused = cast("Service", None)
    routes = [
        *(*Api(unused).routes(), *LettersApi(unused).routes(), *LiveApi(unused).routes(), *Pages().routes()),
        *(*FlowApi(cast("Flow", None)).routes(), *RebuildApi(cast("Rebuilds", None), keeps_log=True).routes()),
        *(*Artifacts(Path()).routes(), *OldIdsApi(unused).routes()),
    ]
    paths = [EVENTS_PATH, *(route.path for route in routes)]
    assert [path for path in paths if not re.search(rf"`[A-Z]+ {re.escape(path)}`", text)] == []


def test_no_setting_is_named_that_is_gone() -> None:
    """Whatever looks like a setting on a page of ours is one, or a variable of the platform."""
    known = {setting.name for setting in settings_table.TABLE} | {"K_SERVICE", "K_REVISION", "GIT_SHA"}
    pages = ("ordering", "architecture", "http-api", "letters", "logs-and-metrics", "glossary", "limits")
    named = {
        word for name in pages for word in re.findall(r"`([A-Z]+(?:_[A-Z]+)+)(?:=[^`]*)?`", page(f"{name}.md"))
    }
    assert named - known == set()
    assert len(named) > 10


def test_the_answer_of_a_push_is_listed() -> None:
    """Every field of the answer, refusals included, stands in the table."""
    names = {field.encode_name for field in msgspec.structs.fields(Refusal)}
    assert names - listed(page("http-api.md")) == set()
