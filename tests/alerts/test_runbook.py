"""The runbook, and the page made of it: every alert, no other, and no threshold that is not in the data."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click

from millpond.alerts import runbook_page
from millpond.alerts.definitions import load
from millpond.alerts.table import render
from millpond.cli.root import COMMANDS, cli
from millpond.http.pages import FOLDER, RUNBOOK
from tests.alerts.tools import ROOT, unreadable
from tests.common.server import Server

PAGE = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
ALERTS = load()
PARTS = dict(re.findall(r"^### (\S+)\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_alert_has_its_heading_and_every_heading_its_alert() -> None:
    """The heading is the id, so that the link in an alert leads there."""
    assert list(PARTS) == [alert.id for alert in ALERTS.alerts]
    for alert in ALERTS.alerts:
        assert alert.runbook == f"runbook#{alert.id}"


def test_the_served_page_is_the_generators_output() -> None:
    """A developer who changes the runbook makes its page again, with the command that the page names."""
    command = [sys.executable, "-m", "millpond.alerts", "runbook"]
    made = subprocess.run(command, input=PAGE.encode(), capture_output=True, check=True, timeout=60).stdout.decode()
    page = (FOLDER / RUNBOOK).read_text(encoding="utf-8")
    assert page == made, "run: .venv/bin/python -m millpond.alerts runbook < docs/runbook.md > .../runbook.html"
    assert "-m millpond.alerts runbook < docs/runbook.md > src/millpond/http/static/runbook.html" in page


def test_the_link_of_every_alert_leads_to_a_heading_of_the_served_page(server: Server) -> None:
    """A server serves the page without a token, and every alert's id is the anchor of exactly one heading."""
    for alert in ALERTS.alerts:
        path, _, anchor = alert.runbook.partition("#")
        answer = server.http.get(f"/{path}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert len(re.findall(rf'<h\d id="{anchor}">', answer.text)) == 1, alert.id


def test_no_link_of_the_page_is_a_dead_end(server: Server) -> None:
    """Each link leads to a heading of the page or to a view of the dashboard; other files are named, not linked."""
    page = (FOLDER / RUNBOOK).read_text(encoding="utf-8")
    anchors = set(re.findall(r'id="([^"]+)"', page))
    links = set(re.findall(r'href="([^"]+)"', page))
    assert {link[1:] for link in links if link.startswith("#")} <= anchors
    assert {link for link in links if link.startswith("./")} == {"./", "./#/", "./#/letters", "./#/event"}
    for link in links - {link for link in links if link.startswith(("#", "./"))}:
        assert server.http.get(f"/{link}").status_code == 200, link
    for path in re.findall(r"<code>((?:docs|src|infra)/[^<]+)</code>", page):
        assert (ROOT / path).is_file(), path


def test_what_markdown_becomes() -> None:
    """Text stays text, a link to another file becomes its path, a table and a block of code scroll in their box."""
    page = runbook_page.render(
        "### A `b`\n\n<!-- note -->\n\n<b>x</b> [docs](a.md#b) [c.py](../src/c.py) [of *it*](a.md) "
        "[A](#a-b) `#/event`\n\n"
        '```sh\na < "b"\n```\n\n| a |\n|---|\n| b |\n'
    )
    assert '<h3 id="a-b">A <code>b</code></h3>' in page
    assert "note --" not in page
    assert "docs (<code>docs/a.md</code>) <code>src/c.py</code> of <em>it</em> (<code>docs/a.md</code>)" in page
    assert '<a href="#a-b">A</a> <a href="./#/event"><code>#/event</code></a>' in page
    assert '<pre class="block" tabindex="0">a &lt; &quot;b&quot;\n</pre>' in page
    assert '<div class="scroll" role="region" aria-label="Table" tabindex="0"><table>' in page
    assert "</table></div>" in page


def test_every_part_says_what_it_means_where_to_look_what_to_do_and_when_it_ends() -> None:
    """In that order."""
    for name, text in PARTS.items():
        assert re.findall(r"^\*\*(\w+)[.*]", text, re.MULTILINE) == ["Means", "Look", "Do", "Ends"], name


def test_the_table_is_the_one_the_data_makes() -> None:
    """As the command prints it, once."""
    command = [sys.executable, "-m", "millpond.alerts", "table"]
    made = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode()
    assert made == render(ALERTS)
    assert PAGE.count(f"\n\n{made}\n") == 1


def test_no_threshold_is_quoted_anywhere_else() -> None:
    """It would be forgotten when the data changes."""
    prose = PAGE.replace(render(ALERTS), "")
    assert re.findall(r"\d+(?:\.\d+)? ?%|(?:over|above|at least|more than) \d+", prose) == []


def test_every_query_is_promql(tmp_path: Path) -> None:
    """As promtool reads it, one to a line."""
    queries = [line for block in fenced("promql") for line in block.splitlines()]
    assert len(queries) > 10
    assert unreadable(queries, tmp_path) == ""


def test_every_command_exists() -> None:
    """With its options."""
    lines = [line for block in fenced("sh") for line in block.splitlines() if line.startswith("millpond ")]
    used = {
        " ".join(words) for words in (re.findall(r"^millpond ([a-z]+)(?: ([a-z]+))?", line)[0] for line in lines)
    }
    assert {"dlq list", "dlq replay", "tail ", "doctor ", "why "} <= used
    for line in lines:
        command = cli.get_command(click.Context(cli), line.split()[1])
        assert command is not None, line
        if isinstance(command, click.Group):
            command = command.commands[line.split()[2]]
        options = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", line)) <= options, line
    assert set(re.findall(r"`millpond ([a-z]+)", PAGE)) <= set(COMMANDS)
