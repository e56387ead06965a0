"""`millpond new`: makes the folder of a view of your own, from the templates of `scaffold`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from millpond.cli.exit_codes import WrongUsage
from millpond.cli.options import example, json_option
from millpond.cli.output import print_json, print_line
from millpond.scaffold import Project, new_project


@click.command(epilog=example("millpond new web-shop"))
@click.argument("name")
@json_option
def new(name: str, *, as_json: bool) -> None:
    """Make a folder with a view, sample events, a test and a Dockerfile.

    The folder has the name NAME; it must not exist, or be empty. The view is complete, and its tests pass:
    change its fields to yours.
    """
    working_directory = os.getcwd()  # noqa: PTH109 - sys.path holds text
    project = new_project(name, [path for path in sys.path if path not in {"", working_directory}])
    files = project.files()
    _write(Path(name), files)
    if as_json:
        print_json({"folder": name, "module": project.module, "topic": project.topic, "files": list(files)})
    else:
        _show(project, list(files))


def _write(folder: Path, files: dict[str, str]) -> None:
    try:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise WrongUsage(f"{folder} exists and is no folder: take another name, or move it away")
        if folder.is_dir() and any(folder.iterdir()):
            raise WrongUsage(f"the folder {folder} is not empty: take another name, or empty it")
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise WrongUsage(f"{folder} cannot be written: {error.strerror}") from None


def _show(project: Project, files: list[str]) -> None:
    print_line(f"Made {project.name} with {', '.join(files)}. Next:")
    print_line()
    print_line(f"  cd {project.name}")
    print_line("  pip install pytest && pytest")
    print_line(f"  millpond test {project.module} --events events.jsonl")
    print_line(f"  export VIEWS={project.module} BUILT_IN_VIEWS=none")
    print_line("  millpond serve")
    print_line()
    print_line("and, while it serves, in another terminal in that folder:")
    print_line()
    print_line(f"  export VIEWS={project.module} BUILT_IN_VIEWS=none")
    print_line("  millpond ingest events.jsonl")
    print_line(f"  millpond get {project.module}/o-1")
    print_line()
    print_line("README.md says how to correct the bad sample, build an image and deploy it.")
