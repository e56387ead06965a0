"""The folder that `millpond new` makes: which names it takes, and the text of each file.

Owns the templates beside it, which are data of the package, so that they are in the wheel. Never writes a file and
never reads a setting. Called by `cli.new`.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from importlib.resources import files
from typing import NamedTuple

from millpond.core.collections import OWN
from millpond.core.errors import MillpondError

NAME_CHARS_MAX = 40
_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_-]{{0,{NAME_CHARS_MAX - 1}}}")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
# Template → file. Their names differ: tools that look at our tree must not take templates for files of its own.
_FILES = {
    "view.txt": "{{module}}.py",
    "test.txt": "test_{{module}}.py",
    "events.txt": "events.jsonl",
    "readme.txt": "README.md",
    "dockerfile.txt": "Dockerfile",
    "dockerignore.txt": ".dockerignore",
    "gitignore.txt": ".gitignore",
}


class NameRefused(MillpondError):
    """No folder can be made under this name; the text says why, and what to do."""


class Project(NamedTuple):
    """The names that follow from the one that was given: `web-shop` → web_shop, WebShop, web-shop-events."""

    name: str

    @property
    def module(self) -> str:
        """The view's module, and the collection of its documents."""
        return self.name.replace("-", "_").lower()

    @property
    def class_name(self) -> str:
        return "".join(part.capitalize() for part in self.module.split("_"))

    @property
    def slug(self) -> str:
        """As names of images and topics are written."""
        return self.module.replace("_", "-").strip("-")

    @property
    def topic(self) -> str:
        return f"{self.slug}-events"

    def files(self) -> dict[str, str]:
        """File name → content."""
        folder = files(__name__) / "templates"
        return {
            self._filled(name): self._filled((folder / template).read_text(encoding="utf-8"))
            for template, name in _FILES.items()
        }

    def _filled(self, text: str) -> str:
        values = {
            "name": self.name,
            "module": self.module,
            "class": self.class_name,
            "slug": self.slug,
            "topic": self.topic,
        }
        return _PLACEHOLDER.sub(lambda found: values[found[1]], text)


def new_project(name: str, search_path: Iterable[str]) -> Project:
    """Raises NameRefused. `search_path`: where Python finds installed modules, without the working directory."""
    if _NAME.fullmatch(name) is None:
        raise NameRefused(
            f"{name!r:.80} cannot name a folder and a Python module: use letters, digits, - and _, beginning with "
            f"a letter, at most {NAME_CHARS_MAX}, for example web-shop"
        )
    project = Project(name)
    if keyword.iskeyword(project.module) or keyword.iskeyword(project.class_name):
        raise NameRefused(f"{project.module} is a word of Python itself, so no view can have it: {_other(name)}")
    if _is_taken(project.module, list(search_path)):
        text = f"{project.module} is a module of Python or of an installed package, which a second one would hide"
        raise NameRefused(f"{text}: {_other(name)}")
    if project.module in OWN:
        raise NameRefused(f"{project.module} is a collection of Millpond's own: {_other(name)}")
    if project.topic.startswith("goog"):
        raise NameRefused(f"Pub/Sub has no topics that begin with goog, as {project.topic} does: {_other(name)}")
    return project


def _other(name: str) -> str:
    return f"take another name, for example my-{name.lower()}"


def _is_taken(module: str, search_path: list[str]) -> bool:
    """Whether `import MODULE` finds another module, or pytest loads the file as its own."""
    if module in sys.stdlib_module_names or module == "conftest":
        return True
    return PathFinder.find_spec(module, search_path) is not None
