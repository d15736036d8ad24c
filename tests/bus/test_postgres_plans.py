"""Every statement finds its rows by an index, however large the tables are."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

import pytest

from monitor.bus.postgres import bus
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.sessions import set_up
from monitor.bus.postgres.reading import shard_opening, status, stored_runs, stored_shard
from monitor.bus.postgres.writing import (
    arrivals,
    consumers,
    first_entries,
    inbox_bounds,
    pruning,
    statements,
    store_entries,
    transactions,
    unanswered,
)
from tests.bus.postgres_backend import connect, new_database
from tests.postgres_server import PostgresServer

_MODULES = (
    *(
        arrivals,
        bus,
        consumers,
        first_entries,
        inbox_bounds,
        shard_opening,
        pruning,
        status,
        stored_runs,
    ),
    *(store_entries, stored_shard, transactions, unanswered),
)
_PARTS = tuple(part for part in vars(statements).values() if isinstance(part, statements.Part))
_STATEMENT = re.compile(r"(SELECT|WITH|UPDATE|DELETE|INSERT) ")
_SCANS = {"Index Scan", "Index Only Scan", "Bitmap Index Scan"}


def constants_of(module: ModuleType) -> Iterator[tuple[str, str]]:
    for name, value in vars(module).items():
        values = value.values() if isinstance(value, dict) else (value,)
        for statement in values:
            if isinstance(statement, str) and name.isupper() and _STATEMENT.match(statement):
                yield f"{module.__name__.rsplit('.', maxsplit=1)[-1]}.{name}", statement


def all_statements() -> dict[str, str]:
    found = {name: text for module in _MODULES for name, text in constants_of(module)}
    found["fenced"] = statements.fenced(_PARTS)
    found["unfenced arrivals"] = statements.unfenced_arrivals()
    return found


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes_of(part)


async def plan_of(connection: Connection, statement: str) -> dict[str, Any]:
    """Return the plan that serves for any values."""
    count = max((int(number) for number in re.findall(r"\$(\d+)", statement)), default=0)
    await connection.execute(f"PREPARE explained AS {statement}")
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    explained = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE explained{values}")
    await connection.execute("DEALLOCATE explained")
    plan: dict[str, Any] = json.loads(explained)[0]["Plan"]
    return plan


@pytest.fixture
async def connection(postgres: PostgresServer) -> AsyncIterator[Connection]:
    made = await connect(postgres.url(await new_database(postgres)))
    await set_up(made, is_reader=False)
    yield made
    await made.close()


async def test_no_statement_reads_a_whole_table_or_index(connection: Connection) -> None:
    """Where a table is read, a condition of an index leads to the rows."""
    scanning: list[str] = []
    for name, statement in all_statements().items():
        for node in nodes_of(await plan_of(connection, statement)):
            kind = node["Node Type"]
            if kind == "Seq Scan" or (kind in _SCANS and "Index Cond" not in node):
                scanning += [f"{name}: {kind} on {node.get('Relation Name')}"]

    assert len(all_statements()) > 40
    assert scanning == []
