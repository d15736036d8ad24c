"""What the daemon that watches the cluster finds wrong with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.app.hosted.cluster_watch import ClusterWatch
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import ClusterStatus, DaemonRecord, ShardRecord
from monitor.bus.sqlite.sole_shard import SqliteStore
from tests.clocks import ManualClock

# The server's clock is an hour ahead of ours.
AHEAD = timedelta(hours=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    """A store that no test reads."""
    opened = await SqliteStore.open(
        StorageSettings(url=f"sqlite://{tmp_path}/state.db"),
        clock=clock,
        registry=CollectorRegistry(),
    )
    yield opened
    await opened.close()


@pytest.fixture
def watch(store: SqliteStore, clock: ManualClock) -> ClusterWatch:
    """A watch over the configured shards ``sales`` and ``orders``."""
    return ClusterWatch(store, configured=lambda: {"sales", "orders"}, clock=clock)


def daemon(name: str, *, at: datetime, expired_seconds: float = -9.0) -> DaemonRecord:
    expires_at = at - timedelta(seconds=expired_seconds)
    return DaemonRecord(
        id=name,
        host=f"{name}.example.com",
        process_id=1,
        version="1",
        url=None,
        started_at=at,
        renewed_at=expires_at - timedelta(seconds=9),
        expires_at=expires_at,
        is_alive=expired_seconds < 0,
        shards=1,
    )


def shard(name: str, holder: str | None) -> ShardRecord:
    return ShardRecord(
        name=name,
        workspaces=(name,),
        holder=holder,
        epoch=1,
        held_since=None,
        newest_position=0,
        backlog=0,
        inbox=0,
        last_change="claimed",
    )


def status(at: datetime, daemons: tuple[DaemonRecord, ...], *shards: ShardRecord) -> ClusterStatus:
    return ClusterStatus(
        this="south", at=at, schema=1, lease_seconds=9.0, daemons=daemons, shards=shards
    )


@pytest.mark.parametrize("days", [-40, 40])
def test_a_daemon_is_gone_since_now_where_the_servers_clock_was_set(
    watch: ClusterWatch, clock: ManualClock, days: int
) -> None:
    """By an age of 40 days, or of less than nothing, an alert would have begun at that time."""
    at = clock.now()
    gone = daemon("north", at=at, expired_seconds=20)
    watch.read(status(at + timedelta(days=days), (gone,)))
    assert watch.troubles is not None
    assert watch.troubles[0].since == clock.now()


def test_a_daemon_that_vanished_is_gone_since_its_lease_ended(
    watch: ClusterWatch, clock: ManualClock
) -> None:
    """By the age on the server's clock; one that ended in order has left no record."""
    assert watch.troubles is None  # not read yet
    at = clock.now() + AHEAD
    daemons = (daemon("north", at=at, expired_seconds=20), daemon("south", at=at))
    watch.read(status(at, daemons, shard("sales", "south"), shard("orders", "south")))
    assert watch.troubles is not None
    [trouble] = watch.troubles
    assert (trouble.part, trouble.since) == (
        "daemon:north",
        clock.now() - timedelta(seconds=20),
    )
    assert "north.example.com" in trouble.reason
    watch.read(status(at, daemons[1:], shard("sales", "south"), shard("orders", "south")))
    assert watch.troubles == ()


def test_a_shard_without_a_living_holder_is_unheld_until_it_has_one(
    watch: ClusterWatch, clock: ManualClock
) -> None:
    """Since it was first seen so; what no configuration names any more needs no holder."""
    at = clock.now()
    south = (daemon("south", at=at),)
    unheld = (shard("sales", None), shard("orders", "north"), shard("former", None))
    watch.read(status(at, south, *unheld))
    clock.set_wall(at + timedelta(seconds=30))
    watch.read(status(clock.now(), south, *unheld))
    assert watch.troubles is not None
    assert [(trouble.part, trouble.since) for trouble in watch.troubles] == [
        ("shard:sales", at),
        ("shard:orders", at),
    ]
    watch.read(status(clock.now(), south, shard("sales", "south"), unheld[1]))
    assert [trouble.part for trouble in watch.troubles] == ["shard:orders"]


def test_the_configuration_is_asked_once_for_all_shards(
    store: SqliteStore, clock: ManualClock
) -> None:
    """However many shards the cluster has: its answer names all of them."""
    asked: list[int] = []

    def configured() -> set[str]:
        asked.append(1)
        return {f"shard-{number}" for number in range(50)}

    watch = ClusterWatch(store, configured=configured, clock=clock)
    south = (daemon("south", at=clock.now()),)
    shards = [shard(name, None) for name in configured()]
    asked.clear()
    watch.read(status(clock.now(), south, *shards))

    assert len(watch.troubles or ()) == 50
    assert len(asked) == 1
