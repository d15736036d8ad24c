"""What a configuration may say of shards that the store knows, and what the cluster shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from monitor.bus.postgres.connections.migrations import newest_schema
from monitor.bus.postgres.leases.cluster import cluster_status
from monitor.bus.postgres.leases.definitions import LOCK
from monitor.bus.shards import ShardDefinition, WorkspaceIdentity
from monitor.model.errors import ConfigurationError
from tests.app.eventually import eventually
from tests.bus.postgres_members import (
    LEASE_SECONDS,
    LeaseCluster,
    Member,
    lease_cluster,
)


@pytest.fixture
async def cluster(empty_database: str) -> AsyncIterator[LeaseCluster]:
    async with lease_cluster(empty_database) as cluster:
        yield cluster


def defined(shard: str, *workspaces: str, host: str = "example") -> ShardDefinition:
    return ShardDefinition(
        name=shard,
        workspaces=tuple(
            WorkspaceIdentity(name=name, url=f"https://{name}.{host}") for name in workspaces
        ),
        digest="d",
    )


async def refusals(member: Member, *definitions: ShardDefinition) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        await member.leases.define(definitions)
    return refused.value.problems


async def test_a_workspace_stays_in_the_shard_in_which_it_was_first_stored(
    cluster: LeaseCluster,
) -> None:
    """Another shard is refused with the way to move it, and nothing of it is stored."""
    north = await cluster.join("north", "sales", "stock")
    problems = await refusals(north, defined("group", "sales", "stock"), defined("new", "new"))

    assert [problem.partition(":")[0] for problem in problems] == [
        "workspaces.sales.shard",
        "workspaces.stock.shard",
    ]
    assert "import it into an empty database" in problems[0]
    assert set(await cluster.holders()) == {"sales", "stock"}


async def test_one_name_for_two_workspaces_is_refused_while_the_other_daemon_lives(
    cluster: LeaseCluster,
) -> None:
    """The message names both URLs and the daemon; once it is gone the URL has changed."""
    north = await cluster.join("north", "sales")
    south = Member(cluster.url, "south")
    cluster.members.append(south)
    await south.heartbeat.register()
    (problem,) = await refusals(south, defined("sales", "sales", host="elsewhere"))

    assert "https://sales.example under this name" in problem
    assert "daemon north on" in problem
    assert "https://sales.elsewhere" in problem
    await north.leave()
    cluster.members.remove(north)
    await south.leases.define([defined("sales", "sales", host="elsewhere")])
    url = await cluster.connection.fetchval("SELECT url FROM workspace")
    assert url == "https://sales.elsewhere"


async def test_of_two_daemons_that_start_together_one_is_refused(cluster: LeaseCluster) -> None:
    """However their statements meet, two URLs never stand under one name."""
    for number in range(5):
        members = [Member(cluster.url, f"{name}-{number}") for name in ("north", "south")]
        cluster.members += members
        for member in members:
            await member.heartbeat.register()
        results = await asyncio.gather(
            *(
                member.leases.define([defined(f"s-{number}", f"s-{number}", host=member.name)])
                for member in members
            ),
            return_exceptions=True,
        )
        assert [type(result) for result in results if result] == [ConfigurationError]


async def test_a_daemon_changes_its_own_url(cluster: LeaseCluster) -> None:
    """No other daemon follows the workspace, so a new address of it is no conflict."""
    north = await cluster.join("north", "sales")
    await north.leases.define([defined("sales", "sales", host="moved")])

    url = await cluster.connection.fetchval("SELECT url FROM workspace")
    assert url == "https://sales.moved"


async def test_a_shard_may_gain_and_lose_workspaces(cluster: LeaseCluster) -> None:
    """A new one joins the group; one that is configured no more stays stored where it was."""
    north = await cluster.join("north", "sales")
    await north.leases.define([defined("sales", "sales", "stock")])
    await north.leases.define([defined("sales", "stock")])
    rows = await cluster.connection.fetch("SELECT name FROM workspace ORDER BY name")

    assert [row["name"] for row in rows] == ["sales", "stock"]


async def test_the_cluster_shows_who_holds_what(cluster: LeaseCluster) -> None:
    """Daemons dead and alive, shards with how they came to their holder, by the server's clock."""
    north, south = await cluster.join("north"), await cluster.join("south")
    await cluster.calm_down()
    own = set(north.hosted)
    north.kill()
    await cluster.expire(north)
    await south.cycle()
    await south.obey()
    status = await cluster_status(cluster.connection, this="south", lease_seconds=LEASE_SECONDS)

    assert (status.this, status.schema) == ("south", newest_schema())
    daemons = {daemon.id: daemon for daemon in status.daemons}
    assert (daemons["north"].is_alive, daemons["north"].shards) == (False, 0)
    assert (daemons["south"].is_alive, daemons["south"].shards) == (True, len(status.shards))
    assert daemons["south"].renewed_at < status.at < daemons["south"].expires_at
    for shard in status.shards:
        assert shard.workspaces == (shard.name,)
        assert shard.holder == "south"
        assert (shard.last_change == "taken over") == (shard.name in own)
        assert shard.held_since is not None
        assert (shard.backlog, shard.inbox) == (0, 0)


async def test_a_thousand_shards_cost_an_idle_daemon_few_queries(cluster: LeaseCluster) -> None:
    """A cycle is a renewal and two reads, however many shards there are."""
    north = await cluster.join("north", *(f"w-{number}" for number in range(1_000)))
    await north.cycle()
    await north.obey()
    assert len(north.publishing()) == 1_000
    exchanges = 0
    run = north.heartbeat.run

    async def count(exchange: object) -> object:
        nonlocal exchanges
        exchanges += 1
        return await run(exchange)  # type: ignore[arg-type]  # as it was called

    north.heartbeat.run = count  # type: ignore[method-assign, assignment]  # counts, and passes on
    await north.cycle()

    # At four cycles a lease of nine seconds: 1.3 a second.
    assert exchanges == 3


async def test_a_daemon_that_stands_still_while_it_defines_ends_no_start(
    cluster: LeaseCluster,
) -> None:
    """Its lock is waited for, also longer than a single exchange may take."""
    north = await cluster.join("north", "sales")
    north.heartbeat.renew_seconds = 1.0  # an exchange may take as long
    async with cluster.connection.transaction():
        await cluster.connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        defining = asyncio.create_task(north.leases.define([defined("stock", "stock")]))
        await eventually(lambda: north.heartbeat.away_since is not None, why="no time-out")
    await north.clock.advance(LEASE_SECONDS / 2)
    await defining

    assert north.leases.definitions.keys() == {"stock"}
