"""What the commands that call a running daemon share: requests, and pages of rows."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple

from monitor.cli import lazy
from monitor.cli.options import DaemonOptions
from monitor.model.errors import MonitorError

Rows = list[dict[str, Any]]
Query = Mapping[str, str | int | None]

_PAGE = 1_000  # the most rows of one answer


def run_request(request: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(request)


async def get(daemon: DaemonOptions, path: str, query: Query | None = None) -> Any:
    async with lazy.admin.AdminClient(lazy.daemon_address.daemon_address(daemon)) as client:
        return await client.get(path, given(query or {}))


async def post(
    daemon: DaemonOptions, path: str, body: Mapping[str, Any], *, timeout_seconds: float = 30.0
) -> Any:
    wanted = {key: value for key, value in body.items() if value is not None}
    async with lazy.admin.AdminClient(lazy.daemon_address.daemon_address(daemon)) as client:
        return await client.post(path, wanted, timeout_seconds=timeout_seconds)


async def delete(daemon: DaemonOptions, path: str) -> Any:
    async with lazy.admin.AdminClient(lazy.daemon_address.daemon_address(daemon)) as client:
        return await client.delete(path)


def given(query: Query) -> dict[str, str]:
    """Return the parameters that have a value."""
    return {name: str(value) for name, value in query.items() if value is not None}


def rows_of(answer: Any) -> Rows:
    """Return the rows of an answer.

    Raises:
        MonitorError: it has none, so no dataprep-monitor has sent it.
    """
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise stranger()
    return rows


def stranger() -> MonitorError:
    """Return the error that an answer has another shape than a dataprep-monitor's."""
    return MonitorError(
        "the answer is not that of a dataprep-monitor: is the address or URL right?"
    )


def list_rows(daemon: DaemonOptions, path: str, query: Query | None = None) -> Rows:
    """Return the rows of a list that comes whole."""
    return rows_of(run_request(get(daemon, path, query)))


class Listing(NamedTuple):
    """The first rows of a list. ``total`` is None where only ``has_more`` is known."""

    rows: Rows
    has_more: bool
    total: int | None


async def first_rows(
    daemon: DaemonOptions, path: str, query: Query, *, limit: int, page: int = _PAGE
) -> Listing:
    """Return the first rows of a list that comes in pages of at most ``page``; 0: all rows."""
    rows: Rows = []
    wanted = given(query)
    async with lazy.admin.AdminClient(lazy.daemon_address.daemon_address(daemon)) as client:
        while True:
            size = min(limit - len(rows), page) if limit else page
            answer = await client.get(path, {**wanted, "limit": str(size)})
            rows += rows_of(answer)
            cursor, total = answer.get("next"), answer.get("total")
            if limit and len(rows) >= limit:
                has_more = cursor is not None or len(rows) > limit
                return Listing(rows[:limit], has_more, total)
            if not isinstance(cursor, str):
                return Listing(rows, has_more=False, total=total)
            wanted["cursor"] = cursor


def list_first(
    daemon: DaemonOptions, path: str, query: Query, *, limit: int, page: int = _PAGE
) -> Listing:
    return run_request(first_rows(daemon, path, query, limit=limit, page=page))  # type: ignore[no-any-return] # of asyncio
