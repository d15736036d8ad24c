"""Examines the store that a configuration names, and reports what is wrong with it."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from monitor.bus.settings import store_path
from monitor.bus.sqlite.soundness import FoundDamage, damaged
from monitor.bus.sqlite.store_check import StoreCheck
from monitor.cli.settings_files import load
from monitor.cli.tables import print_json, print_table
from monitor.model.errors import ConfigurationError


def check(config: Path, *, as_json: bool) -> None:
    """Print what is wrong with the store, or one line that nothing is.

    Raises:
        ConfigurationError: it is no file.
        BusSchemaError: it is damaged.
        BusUnavailableError: it could not be checked.
    """
    storage = load(config).storage
    if storage.postgres is not None:
        raise ConfigurationError(
            "store check reads a file; run doctor, and pg_amcheck of the server, for a database"
        )
    examination = StoreCheck(store_path(storage.url))
    found = _examine(examination)
    if as_json:
        _print_json(examination, found)
    elif found:
        print_table(("part", "problem"), found)
    else:
        held = f", held by {examination.holder}" if examination.holder else ""
        sys.stdout.write(
            f"ok: {examination.store} ({examination.store_bytes:,} bytes{held}): every page, event "
            "and row is sound\n"
        )
    if found:
        raise damaged(examination.store, f"{len(found)} problems found")


def _examine(examination: StoreCheck) -> list[FoundDamage]:
    # In a thread, because one call of SQLite may take minutes and no signal is handled within it.
    with ThreadPoolExecutor(max_workers=1) as thread:
        running = thread.submit(examination.run, _show_part)
        try:
            return running.result()
        except BaseException:
            examination.stop()
            raise


def _show_part(part: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"checking {part} ...\n")


def _print_json(examination: StoreCheck, found: list[FoundDamage]) -> None:
    print_json(
        {
            "ok": not found,
            "store": str(examination.store),
            "store_bytes": examination.store_bytes,
            "held_by": examination.holder,
            "problems": [damage._asdict() for damage in found],
        }
    )
