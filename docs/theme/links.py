"""A hook of mkdocs: fits links of the repository to the site, so that every page also works where the code is read.

Pages outside docs/ (PAGES) become pages of the site. A link to any other file of the repository becomes its text
with the file's path as a tooltip, since the site does not say where the repository is. A link to nothing is a
warning, and `mkdocs build --strict` fails. mkdocs calls the functions `on_…`.
"""

from __future__ import annotations

import html
import posixpath
import re
from functools import partial
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
# What stands outside docs/, and its name on the site.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "measuring.md",
    "examples/README.md": "examples.md",
    "proof/README.md": "proof.md",
}
# The README is what index.md is on a code host.
_NAMES = {**PAGES, "README.md": "index.md"}
_SOURCES = {name: path for path, name in PAGES.items()}
_FENCED = re.compile(r"^( *)(```|~~~).*?^ *\2[^\n]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]`]|`[^`]*`)*)\]\(([^()\s]+)\)|`[^`]*`")
_log = get_plugin_logger("links")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand outside docs/."""
    for path, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - as called
    """Rewrite the links outside code blocks."""
    name = page.file.src_uri
    rewrite = partial(_rewritten, _SOURCES.get(name, f"docs/{name}"))
    parts, at = [], 0
    for fence in _FENCED.finditer(markdown):
        parts += [_LINK.sub(rewrite, markdown[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, _LINK.sub(rewrite, markdown[at:])])


def _rewritten(source: str, found: re.Match[str]) -> str:
    """One link of the file `source`, or code that is left as it is."""
    text, link = found[1], found[2]
    if link is None or link.startswith("#") or re.match(r"[a-z]+:", link):
        return found[0]
    path, hash_sign, anchor = link.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if target in _NAMES:
        return f"[{text}]({_NAMES[target]}{hash_sign}{anchor})"
    if target.startswith("docs/"):
        return f"[{text}]({target.removeprefix('docs/')}{hash_sign}{anchor})"
    if not (ROOT / target).exists():
        _log.warning("%s links to %s, which does not exist", source, link)
    return f'<span class="in-repository" title="In the repository: {html.escape(target)}">{text}</span>'
