"""`millpond backup`: copies the embedded store into a file, with or without a running server."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click

from millpond.cli import exit_codes
from millpond.cli.escape import clean
from millpond.cli.options import example, json_option, load_settings, store_option
from millpond.cli.output import print_facts, print_json, print_line, print_note, progress
from millpond.cli.store import refuse_memory, refuse_missing
from millpond.settings import FIRESTORE, Settings
from millpond.stores.sqlite.backup import Copied, CopyFailed, copy_store
from millpond.stores.sqlite.file import amount


@click.command(
    epilog=example("millpond backup millpond-2026-01-08.db", "STORE=sqlite:millpond-2026-01-08.db millpond verify")
)
@click.argument("file", type=click.Path(path_type=Path))
@store_option
@json_option
def backup(file: Path, *, as_json: bool) -> None:
    """Copy the embedded store into a file, also while it serves.

    The copy has the state at the start of the command: everything acknowledged before is in it. It is checked and
    synced before it gets its name, and is a store like any other: STORE=sqlite:FILE serves it. An existing FILE is
    never overwritten. Exits with 1 if the copy failed; then no file is left behind.
    """
    settings = load_settings()
    store = _embedded(settings)
    try:
        with _ended_cleanly():
            copied = _copy(store, file)
    except CopyFailed as error:
        raise exit_codes.NegativeAnswer(str(error)) from None
    if as_json:
        print_json(
            {
                "file": str(file),
                "store": settings.store,
                "bytes": copied.bytes,
                "documents": copied.documents,
                "receipts": copied.receipts,
                "events": copied.events,
                "schema": copied.schema,
                "seconds": round(copied.seconds, 3),
            }
        )
        return
    print_line(f"Copied {clean(str(store))} to {clean(str(file))} in {copied.seconds:.2f} s, and checked it.")
    print_facts(
        [
            ("size", amount(copied.bytes)),
            ("documents", f"{copied.documents:,}"),
            ("receipts", f"{copied.receipts:,}"),
            ("log entries", f"{copied.events:,}"),
        ],
        indent="  ",
    )
    print_note(f"Check it against its event log: STORE=sqlite:{file} millpond verify")
    print_note(f"Serve it: STORE=sqlite:{file} millpond serve")


def _embedded(settings: Settings) -> Path:
    refuse_memory(settings)
    if settings.store == FIRESTORE:
        raise exit_codes.WrongUsage(
            "STORE=firestore is copied by the service itself: "
            f"gcloud firestore export gs://BUCKET --project={settings.gcp_project} "
            f"--database='{settings.firestore_database}'"
        )
    refuse_missing(settings.store_path)
    assert settings.store_path is not None  # noqa: S101 - the parser knows three kinds of store
    return settings.store_path


def _copy(store: Path, file: Path) -> Copied:
    total = store.stat().st_size
    with progress("Copying", total) as advance:
        shown = 0

        def on_pages(done: int, pages: int) -> None:
            # Shown in bytes: users know the store's size, not its number of pages.
            nonlocal shown
            now = total * done // max(pages, 1)
            advance(now - shown)
            shown = now

        return copy_store(store, file, on_pages)


@contextlib.contextmanager
def _ended_cleanly() -> Iterator[None]:
    """Clean up on SIGTERM, which would end Python without it, and keep its usual exit code."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
