"""The `millpond` command: one module for each command, listed in `root`.

Owns arguments, output and exit codes. Commands that write use the running server, or take the store's lock if none
runs (`backend`). Every error becomes an exit code and at most one line, never a traceback. Modules are imported
only when their command is run: `millpond --help` loads none of them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

import click

from millpond.cli import exit_codes
from millpond.cli.escape import clean
from millpond.cli.output import print_error
from millpond.cli.root import cli
from millpond.core.errors import MillpondError
from millpond.plugins import search_working_directory


def main() -> None:
    search_working_directory()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # If a terminal cannot show a character, its escape is printed, and the command does not fail.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        _refuse_undecodable(arguments)
        code = cli.main(list(arguments), prog_name="millpond", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return exit_codes.INTERRUPTED
    except click.ClickException as error:
        return _show(error)
    except exit_codes.ReaderGone:
        return _end_for_closed_output()
    except MillpondError as error:
        print_error(str(error))
        return exit_codes.code_of(error)
    return code if isinstance(code, int) else exit_codes.OK


def _refuse_undecodable(arguments: Sequence[str]) -> None:
    try:
        "".join(arguments).encode()
    except UnicodeEncodeError:
        raise click.UsageError("the arguments must be UTF-8 text") from None


def _show(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return error.exit_code
    where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else ""
    hint = f" (see {where} --help)" if where else ""
    text = clean(error.format_message()).rstrip(".")
    print_error(f"{text}{hint}")
    return error.exit_code


def _end_for_closed_output() -> int:
    """`millpond ls … | head`: end without a message. The redirect avoids an error when the interpreter flushes."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exit_codes.BROKEN_PIPE
