"""What the commands that call a running daemon share: requests, and rows as a table."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from monitor.cli import lazy
from monitor.cli.tables import print_json, print_table

Rows = list[dict[str, Any]]


def run_request(request: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(request)


async def get(config: Path, path: str, query: Mapping[str, str | None]) -> Any:
    given = {name: str(value) for name, value in query.items() if value is not None}
    async with lazy.admin.AdminClient.of(config) as client:
        return await client.get(path, given)


async def post(
    config: Path, path: str, body: Mapping[str, Any], *, timeout_seconds: float = 30.0
) -> Any:
    given = {key: value for key, value in body.items() if value is not None}
    async with lazy.admin.AdminClient.of(config) as client:
        return await client.post(path, given, timeout_seconds=timeout_seconds)


async def delete(config: Path, path: str) -> Any:
    async with lazy.admin.AdminClient.of(config) as client:
        return await client.delete(path)


def show(rows: Rows, columns: tuple[str, ...], *, as_json: bool) -> None:
    """Print rows: a table, or JSON for programs."""
    if as_json:
        print_json(rows)
        return
    print_table(columns, [[cell(row.get(column)) for column in columns] for row in rows])


def cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(part) for part in value) or "-"
    return "-" if value is None else str(value)
