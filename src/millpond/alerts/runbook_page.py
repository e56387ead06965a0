"""The runbook as a page that Millpond serves: `http/static/runbook.html`, generated from `docs/runbook.md`. Pure.

    python -m millpond.alerts runbook < docs/runbook.md > src/millpond/http/static/runbook.html

The page needs no script, and links to nothing that this server does not serve: a link to another file of the source
tree becomes that file's path. Called by developers only, because it needs a Markdown parser.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

_FOLDER = "docs"
# An address of the dashboard in the text.
_PLACE = re.compile(r"#/[a-z]*")
_PAGE = """\
<!doctype html>
<html lang="en">
<!-- Made from docs/runbook.md. Do not edit it; run
     .venv/bin/python -m millpond.alerts runbook < docs/runbook.md > src/millpond/http/static/runbook.html -->
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>Runbook · Millpond</title>
  <link rel="icon" href="static/logo.svg" type="image/svg+xml">
  <link rel="stylesheet" href="static/app.css">
  <link rel="stylesheet" href="static/runbook.css">
  <script src="static/theme.js"></script>
</head>
<body class="runbook">
<header class="top">
  <a class="brand" href="./"><img src="static/logo.svg" alt="" width="28" height="28"><span>Millpond</span></a>
  <a href="./">Overview</a>
  <div class="standing"><button class="plain" id="theme" type="button">Theme</button></div>
</header>
<main class="page">
<p class="note">Paths such as <code>docs/operating.md</code> are files of Millpond's source tree.</p>
%s</main>
</body>
</html>
"""


def render(markdown: str) -> str:
    """The page."""
    parser = MarkdownIt("commonmark").enable("table")
    parser.add_render_rule("table_open", _open_table)
    parser.add_render_rule("table_close", _close_table)
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("code_inline", _code)
    content: str = parser.renderer.render(list(_prepared(parser.parse(markdown))), parser.options, {})
    return _PAGE % content


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _prepared(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens without comments, each heading with its anchor, and no link out of the page."""
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            token.attrSet("id", slug(following.content))
        if token.children is not None:
            token.children = list(_without_dead_ends(token.children))
        if token.type != "html_block":
            yield token


def _without_dead_ends(tokens: Sequence[Token]) -> Iterator[Token]:
    """Links to other headings stay; those to other files become the file's path in the source tree."""
    path, words = "", ""
    for token in tokens:
        if token.type == "link_open" and not str(token.attrs["href"]).startswith("#"):
            file = str(token.attrs["href"]).partition("#")[0]
            path, words = posixpath.normpath(posixpath.join(_FOLDER, file)), ""
        elif token.type == "link_close" and path:
            yield from (_text_of(" ("), _code_of(path), _text_of(")")) if words else (_code_of(path),)
            path = ""
        elif not path or token.content != posixpath.basename(path):
            words += token.content
            yield token


def _code_of(content: str) -> Token:
    return Token("code_inline", "code", 0, content=content)


def _text_of(content: str) -> Token:
    return Token("text", "", 0, content=content)


# --- how some tokens are written: the renderer calls these with itself first -------------------------------------


def _open_table(*_: Any) -> str:
    return '<div class="scroll" role="region" aria-label="Table" tabindex="0"><table>\n'


def _close_table(*_: Any) -> str:
    return "</table></div>\n"


def _fence(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    return f'<pre class="block" tabindex="0">{html.escape(tokens[place].content)}</pre>\n'


def _code(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    content = tokens[place].content
    code = f"<code>{html.escape(content)}</code>"
    return f'<a href="./{content}">{code}</a>' if _PLACE.fullmatch(content) else code
