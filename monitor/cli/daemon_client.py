"""What commands that ask a running daemon have in common: the request, and rows as a table."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from monitor.cli import durations
from monitor.model.clock import SystemClock
from monitor.model.errors import ConfigurationError

Rows = list[dict[str, Any]]


def ask(asking: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asking)


async def get(config: Path, path: str, query: Mapping[str, str | None]) -> Any:
    from monitor.cli.admin import AdminClient  # noqa: PLC0415 - help must answer fast

    told = {name: str(value) for name, value in query.items() if value is not None}
    async with AdminClient.of(config) as client:
        return await client.get(path, told)


async def post(
    config: Path, path: str, body: Mapping[str, Any], *, timeout_seconds: float = 30.0
) -> Any:
    from monitor.cli.admin import AdminClient  # noqa: PLC0415 - help must answer fast

    told = {key: text for key, text in body.items() if text is not None}
    async with AdminClient.of(config) as client:
        return await client.post(path, told, timeout_seconds=timeout_seconds)


async def delete(config: Path, path: str) -> Any:
    from monitor.cli.admin import AdminClient  # noqa: PLC0415 - help must answer fast

    async with AdminClient.of(config) as client:
        return await client.delete(path)


async def workspace_of(config: Path, workspace: str | None) -> str:
    """Return the workspace that is meant: the only one where none is named.

    Raises:
        ConfigurationError: several are watched and none was named.
    """
    if workspace is not None:
        return workspace
    names = [item["workspace"] for item in (await get(config, "/api/v1/workspaces", {}))["data"]]
    if len(names) != 1:
        raise ConfigurationError(f"-w: several workspaces are watched; name one of {names}")
    return str(names[0])


def show(rows: Rows, columns: tuple[str, ...], *, as_json: bool) -> None:
    """Print rows: a table, or JSON for programs."""
    from monitor.cli.tables import print_json, print_table  # noqa: PLC0415 - help must answer fast

    if as_json:
        print_json(rows)
        return
    print_table(columns, [[cell(row.get(column)) for column in columns] for row in rows])


def cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "-"
    return "-" if value is None else str(value)


def since(told: str) -> datetime:
    """Return from when on: an instant, or a span up to now.

    Raises:
        ConfigurationError: before the daemon is asked, which would say the same.
    """
    span = durations.in_seconds(told)
    if span is None:
        return instant("--since", told, or_else=", or a span as 30d or 2h")
    try:
        return SystemClock().now() - timedelta(seconds=span)
    except OverflowError as exc:
        raise ConfigurationError(f"--since: {told[:40]!r} is before all time") from exc


def instant(option: str, told: str, *, or_else: str = "") -> datetime:
    """Return the instant that an option names; raises as `since` does."""
    shown = f"{option}: {told[:40]!r}"
    try:
        at = datetime.fromisoformat(told)
    except ValueError as exc:
        hint = f"is not an ISO 8601 instant; write one as 2026-11-21T10:00:00Z{or_else}"
        raise ConfigurationError(f"{shown} {hint}") from exc
    if at.tzinfo is None:
        raise ConfigurationError(f"{shown} names no time zone; add Z or an offset")
    return at
