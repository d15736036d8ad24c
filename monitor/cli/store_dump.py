"""``store export`` and ``store import``: the store of a configuration into a dump, and back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from monitor import __version__, logs
from monitor.app.consumer_states import WorkspaceStates
from monitor.bus.dump import sqlite_store
from monitor.bus.dump.dump_file import DumpReader
from monitor.bus.dump.dump_records import (
    Counts,
    DumpSource,
    DumpTarget,
    DumpTrailer,
    Shards,
    StoreTable,
)
from monitor.bus.dump.dumping import Import, export_store
from monitor.bus.dump.routing import place_in_database, place_in_dump, place_in_file
from monitor.bus.postgres import refuse_missing_extra
from monitor.bus.settings import StorageSettings, store_path
from monitor.bus.store_identity import store_place
from monitor.cli.progress_bars import terminal_bar
from monitor.cli.settings_files import load
from monitor.cli.tables import print_json
from monitor.config import Configuration
from monitor.model.errors import ConfigurationError


def export(
    config: Path, file: Path, *, workspace: str | None, shard: str | None, as_json: bool
) -> None:
    """Write the store into a dump, and print what it has.

    Raises:
        ConfigurationError: the store has no such workspace or shard.
        BusError: the store cannot be read.
        LocalFileError: the file cannot be written.
    """
    storage = _configuration(config).storage
    trailer = asyncio.run(_export(storage, file, workspace=workspace, shard=shard))
    if as_json:
        print_json(
            {
                "ok": True,
                "store": store_place(storage),
                "file": str(file),
                "file_bytes": file.stat().st_size,
                "sha256": trailer.sha256,
                "shards": trailer.counts,
            }
        )
        return
    _print_counts(trailer.counts)
    sys.stdout.write(f"ok: {file} ({file.stat().st_size:,} bytes, sha256 {trailer.sha256})\n")


def import_dump(config: Path, file: Path, *, as_json: bool) -> None:
    """Load a dump into the store, which is empty, and print what it has then.

    Raises:
        ConfigurationError: the store is not empty, or the dump does not fit.
        BusError: the store is in use, or cannot be written; the dump is of a newer version.
        LocalFileError: the file cannot be read, or is cut off or damaged.
    """
    configuration = _configuration(config)
    counts = asyncio.run(_import(configuration, file))
    store = store_place(configuration.storage)
    if as_json:
        print_json({"ok": True, "file": str(file), "store": store, "shards": counts})
        return
    _print_counts(counts)
    sys.stdout.write(
        f"ok: {store} has all of {file}; start no daemon on the store that was exported any more\n"
    )


def _configuration(config: Path) -> Configuration:
    configuration = load(config)
    # What the stores log of themselves would stand between the results.
    logs.configure(level="warning", secrets=configuration.secrets())
    return configuration


async def _export(
    storage: StorageSettings, file: Path, *, workspace: str | None, shard: str | None
) -> DumpTrailer:
    async with _source(storage) as source:
        shards = await source.shards()
        workspaces = _workspaces(shards)
        for what, name, known in (("workspace", workspace, workspaces), ("shard", shard, shards)):
            if name is not None and name not in known:
                raise ConfigurationError(f"{source.name} has no {what} {name!r}")

        with _bar("exporting", unit="rows", total=await source.count()) as on_progress:
            return await export_store(
                source,
                file,
                place_in_dump(workspace=workspace, shard=shard),
                WorkspaceStates(workspaces),
                version=__version__,
                now=datetime.now(UTC),
                on_progress=on_progress,
            )


async def _import(configuration: Configuration, file: Path) -> Counts:
    reader, storage = DumpReader(file), configuration.storage
    shards = reader.header.shards
    configured = {
        workspace.name: workspace.workspace.shard or workspace.name
        for workspace in configuration.workspaces
    }

    place = place_in_file if storage.postgres is None else place_in_database(shards, configured)
    work = Import(reader, place, WorkspaceStates(_workspaces(shards)))
    with _bar("checking", unit="bytes", total=reader.file_bytes) as on_bytes:
        rows = work.plan(on_bytes)
    with _bar("importing", unit="rows", total=rows) as on_progress:
        return await work.run(_target(storage), on_progress=on_progress)


def _workspaces(shards: Shards) -> set[str]:
    return {name for shard in shards.values() for name in shard.workspaces}


@asynccontextmanager
async def _source(storage: StorageSettings) -> AsyncIterator[DumpSource]:
    if storage.postgres is None:
        async with sqlite_store.open_source(store_path(storage.url)) as file:
            yield file
        return
    refuse_missing_extra()
    from monitor.bus.dump import postgres_store  # noqa: PLC0415 - needs the extra

    async with postgres_store.open_source(storage.postgres, storage.password) as database:
        if waiting := await database.waiting_instructions():
            sys.stderr.write(
                f"warning: {waiting} instructions (silences, track, replay) wait for a daemon and "
                "are not in the dump\n"
            )
        yield database


def _target(storage: StorageSettings) -> AbstractAsyncContextManager[DumpTarget]:
    if storage.postgres is None:
        return sqlite_store.open_target(store_path(storage.url), now=datetime.now(UTC))
    refuse_missing_extra()
    from monitor.bus.dump import postgres_store  # noqa: PLC0415 - needs the extra

    return postgres_store.open_target(storage.postgres, storage.password)


@contextmanager
def _bar(name: str, *, unit: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how far it is."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with terminal_bar(name, unit=unit) as bar:
        yield lambda done: bar(done, total)


def _print_counts(counts: Counts) -> None:
    for shard, rows in sorted(counts.items()):
        listed = ", ".join(f"{rows.get(table, 0):,} {table}" for table in StoreTable)
        sys.stdout.write(f"shard {shard or '(all)'}: {listed}\n")
