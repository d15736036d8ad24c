"""A shard that was carried into a database, or moved there, goes on by the contract of the bus."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.bus.contract import Change, EventBus, Received, Retention, Step
from monitor.bus.shards import CLUSTER
from monitor.bus.transfer.tables import StoreTable
from monitor.model.alerts import BRIDGE
from monitor.model.errors import BusLostError
from monitor.model.events import RunEvent
from tests.bus.examples import NOW, SOON, at, callback
from tests.bus.postgres_backend import TestDaemon
from tests.bus.test_workspace_move import move
from tests.bus.transfer_scenes import (
    ALL_EVENTS,
    fill,
    in_database,
    in_file,
    run_event,
    to_database,
    to_file,
)

SHARDS = {"beta": "small", "gamma": "small"}
SHARD_OF = {"acme": "acme", **SHARDS, BRIDGE: CLUSTER}


def of(shard: str) -> list[str]:
    return [event.id for event in ALL_EVENTS if SHARD_OF[event.workspace] == shard]


async def unread(bus: EventBus, consumer: str) -> list[str]:
    """Return what the consumer has still to read, and advance it behind that."""
    position = next(
        status.position for status in (await bus.status()).consumers if status.consumer == consumer
    )
    batch = await bus.read(consumer, after=position, limit=1_000)
    assert batch.gap is None
    if batch.events:
        step = Step(consumer=consumer, position=batch.events[-1].position)
        await bus.advance(step, timeout_seconds=SOON)
    return [recorded.event.id for recorded in batch.events]


async def assert_goes_on(bus: EventBus, ids: Sequence[str], event: RunEvent) -> None:
    """Commit what is stored already and one new event; only the new one is added, at the end."""
    newest = (await bus.status()).newest_position
    known = [recorded.event for recorded in await bus.events(after=0, limit=1_000)]
    assert [event.id for event in known] == list(ids)
    await bus.commit(Change(events=(*known, event), runs=(event.run,)), timeout_seconds=SOON)
    added = await bus.events(after=newest, limit=10)
    assert [(recorded.position, recorded.event.id) for recorded in added] == [
        (newest + 1, event.id)
    ]


async def test_a_log_goes_on_after_a_transfer(tmp_path: Path, empty_database: str) -> None:
    """No event is stored twice, none is skipped by a consumer, and a callback is known again."""
    await fill(tmp_path / "state.db")
    await to_database(tmp_path / "state.db", empty_database, SHARDS)
    async with TestDaemon(empty_database) as daemon:
        for shard, number, read in (("acme", 300, 4), ("small", 301, 6)):
            bus, event = await daemon.open(shard), run_event(number)
            await assert_goes_on(bus, of(shard), event)
            assert await unread(bus, "mqtt") == [*of(shard)[read:], event.id]
            for consumer in ("metrics", "alerting"):
                assert await unread(bus, consumer) == [event.id]
            assert (await bus.runs([event.run.key]))[event.run.key] == event.run
        # One was processed, one waits: neither is taken again.
        for name, number in (("acme", 1), ("beta", 2)):
            again = callback(number, workspace=name)
            received = await bus.receive(again, inbox_bound=10, timeout_seconds=SOON)
            assert received is Received.DUPLICATE
        [waiting] = (await bus.inbox("beta", limit=10)).callbacks
        assert waiting.fingerprint == callback(2).fingerprint


async def test_a_log_goes_on_after_moves(tmp_path: Path, empty_database: str) -> None:
    """The shard that lost a workspace and the one that got it both read on, and forget in order."""
    await fill(tmp_path / "state.db")
    await to_database(tmp_path / "state.db", empty_database, SHARDS)
    await move(empty_database, "beta", "acme")
    beta = [event.id for event in ALL_EVENTS if event.workspace == "beta"]
    async with TestDaemon(empty_database) as daemon:
        acme, small = await daemon.open("acme"), await daemon.open("small")
        await assert_goes_on(acme, [*of("acme"), *beta], run_event(300))
        gamma = [name for name in of("small") if name not in beta]
        await assert_goes_on(small, gamma, run_event(302))
        assert await unread(acme, "alerting") == [run_event(300).id]
        assert await unread(small, "mqtt") == [*gamma[3:], run_event(302).id]
        retention = Retention(events_seconds=60.0)
        for bus in (acme, small):
            await unread(bus, "mqtt")
            for consumer in ("metrics", "alerting"):
                await unread(bus, consumer)
            pruned = await bus.prune(retention, now=NOW + timedelta(seconds=90))
            assert pruned.events > 0
            left = [recorded.event for recorded in await bus.events(after=0, limit=1_000)]
            assert all(event.recorded_at >= at(30) for event in left[-1:])


async def test_who_held_a_shard_before_a_move_writes_nothing(
    tmp_path: Path, empty_database: str
) -> None:
    """A daemon that was stopped for so long that it counts as gone has lost both shards."""
    await fill(tmp_path / "state.db")
    await to_database(tmp_path / "state.db", empty_database, SHARDS)
    async with TestDaemon(empty_database) as daemon:
        shards = [await daemon.open("acme"), await daemon.open("small")]
        await move(empty_database, "beta", "acme")
        for bus, number in zip(shards, (300, 301), strict=True):
            with pytest.raises(BusLostError):
                await bus.commit(Change(events=(run_event(number),)), timeout_seconds=SOON)


async def test_a_log_that_has_forgotten_goes_on(tmp_path: Path, empty_database: str) -> None:
    """Events that retention took before are no gap, and a dead letter of one of them stays."""
    await fill(tmp_path / "state.db")
    await to_database(tmp_path / "state.db", empty_database)
    async with TestDaemon(empty_database) as daemon:
        bus = await daemon.open("beta")
        await unread(bus, "mqtt")
        await bus.prune(Retention(events_seconds=60.0), now=NOW + timedelta(seconds=80))
        first = (await bus.status()).oldest_position
        assert first > 3
        await bus.close()
    for name in ("acme", "gamma"):
        await move(empty_database, name, "beta")
    logs = (await in_database(empty_database))[StoreTable.EVENT]
    newest = max(row[0] for _, row in logs)
    await to_file(empty_database, tmp_path / "back.db")
    stored = await in_file(tmp_path / "back.db")
    [(_, (_, position, _))] = stored[StoreTable.DEAD_LETTER]
    positions = [row[0] for _, row in stored[StoreTable.EVENT]]
    # A position of its own, in front of every event, and after all that were used before.
    assert positions[0] == position + 1
    assert position == newest + 1
    assert min(row[1] for _, row in stored[StoreTable.CONSUMER]) >= position
