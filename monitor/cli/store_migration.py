"""``store migrate``: everything of one store into another one, which no daemon runs on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from monitor import logs
from monitor.app.store_routing import OneShard, SameShards, ShardsOfWorkspaces
from monitor.bus.postgres import refuse_missing_extra
from monitor.bus.postgres_address import is_postgres, postgres_address
from monitor.bus.settings import store_path
from monitor.bus.transfer.sqlite_side import SqliteSource, SqliteTarget
from monitor.bus.transfer.store_transfer import StoreTransfer
from monitor.bus.transfer.sums import Sums
from monitor.bus.transfer.tables import StoreTable, TransferRouting, TransferSource, TransferTarget
from monitor.cli.progress_bars import terminal_bar
from monitor.cli.settings_files import load
from monitor.cli.tables import print_json
from monitor.config import Configuration
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret

if TYPE_CHECKING:
    from monitor.bus.postgres_address import PostgresAddress


def migrate(config: Path, urls: list[str], *, as_json: bool) -> None:
    """Carry the store of the first URL into the second, and print what has arrived.

    Raises:
        ConfigurationError: a URL cannot be used, or the target holds something.
        BusError: a store is in use, damaged or away.
    """
    source, target = urls
    configuration = load(config)
    # What the stores log of themselves would stand between the results.
    logs.configure(level="warning", secrets=configuration.secrets())
    if not (is_postgres(source) or is_postgres(target)):
        raise ConfigurationError("two files: stop the daemon and copy the file instead")
    sums = asyncio.run(_migrated(configuration, source, target))
    _print_report(sums, source, target, as_json=as_json)


async def _migrated(configuration: Configuration, source_url: str, target_url: str) -> Sums:
    async with (
        _source(configuration, source_url) as source,
        _target(configuration, target_url) as target,
    ):
        routing = await _routing(configuration, source, source_url, target_url)
        counts = {table: await source.count(table) for table in StoreTable}
        with _progress(sum(counts.values())) as on_progress:
            return await StoreTransfer(source, target, routing, on_progress=on_progress).run()


async def _routing(
    configuration: Configuration, source: TransferSource, source_url: str, target_url: str
) -> TransferRouting:
    if not is_postgres(target_url):
        return OneShard()
    if is_postgres(source_url):
        return SameShards()
    configured = {
        workspace.name: workspace.workspace.shard or workspace.name
        for workspace in configuration.workspaces
    }
    [end] = (await source.shards()).values()
    if not end.workspaces:
        raise ConfigurationError(f"{source.name} holds nothing yet; begin with an empty database")
    return ShardsOfWorkspaces(end.workspaces, configured)


@asynccontextmanager
async def _source(configuration: Configuration, url: str) -> AsyncIterator[TransferSource]:
    if is_postgres(url):
        address, password = _database(configuration, url)
        from monitor.bus.transfer.postgres_side import (  # noqa: PLC0415 - needs the extra
            PostgresSource,
        )

        database = await PostgresSource.open(address, password)
        try:
            yield database
        finally:
            await database.close()
    else:
        file = SqliteSource(store_path(url), now=datetime.now(UTC))
        try:
            yield file
        finally:
            file.close()


@asynccontextmanager
async def _target(configuration: Configuration, url: str) -> AsyncIterator[TransferTarget]:
    if is_postgres(url):
        address, password = _database(configuration, url)
        from monitor.bus.transfer.postgres_side import (  # noqa: PLC0415 - needs the extra
            PostgresTarget,
        )

        database = await PostgresTarget.open(address, password)
        try:
            yield database
        finally:
            await database.close()
    else:
        file = SqliteTarget(store_path(url), now=datetime.now(UTC))
        try:
            yield file
        finally:
            file.close()


def _database(configuration: Configuration, url: str) -> tuple[PostgresAddress, Secret | None]:
    """Return where a database is; the password is that of the configuration, if it is its own."""
    refuse_missing_extra()
    try:
        address = postgres_address(url)
    except ConfigurationError as exc:
        raise ConfigurationError(
            [f"the URL of the database {hint}" for hint in exc.problems]
        ) from exc
    is_own = configuration.storage.url == url
    return address, configuration.storage.password if is_own else None


@contextmanager
def _progress(rows: int) -> Iterator[Callable[[str, int], None]]:
    """Show on a terminal how far it is: each row is copied, and then read again."""
    if not sys.stderr.isatty():
        yield lambda _part, _rows: None
        return
    done: dict[str, int] = {}
    with terminal_bar("copying", unit="rows") as bar:

        def on_progress(part: str, passed: int) -> None:
            done[part] = passed
            bar(sum(done.values()), 2 * rows)

        yield on_progress


def _print_report(sums: Sums, source: str, target: str, *, as_json: bool) -> None:
    counts = sums.counts()
    if as_json:
        print_json({"ok": True, "from": source, "to": target, "shards": counts})
        return
    for shard, rows in counts.items():
        listed = ", ".join(f"{rows.get(table, 0):,} {table}" for table in StoreTable)
        sys.stdout.write(f"shard {shard or '(all)'}: {listed}\n")
    sys.stdout.write(
        "ok: counts and checksums are equal; put the new URL into storage.url, and start no "
        "daemon on the former store any more\n"
    )
