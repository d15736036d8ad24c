"""The database of a batch, as it is deleted under a daemon and replaced by its copy."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from monitor.bus.postgres.connections.connection_failures import SERVER_ERRORS
from tests.postgres_server import PostgresServer
from tests.worlds.store_harm import StoreDatabase


async def test_a_database_is_replaced_by_its_copy(postgres: PostgresServer, tmp_path: Path) -> None:
    """It is copied and deleted while it is in use; the copy lacks what came later."""
    store = StoreDatabase(postgres.url(), "harmed", tmp_path / "copy")
    user = await asyncpg.connect(store.url, ssl=False)
    await user.execute("CREATE TABLE fact (number int); INSERT INTO fact VALUES (1)")
    store.back_up()
    await user.execute("INSERT INTO fact VALUES (2)")

    store.delete()
    with pytest.raises(SERVER_ERRORS):
        await user.execute("INSERT INTO fact VALUES (3)")
    store.restore()

    assert await postgres.value("SELECT array_agg(number) FROM fact", database="harmed") == [1]
    store.delete()
