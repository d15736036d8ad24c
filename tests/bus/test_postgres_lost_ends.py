"""A fail-over to a standby that lags: the log goes back, is noticed, and repeats no sequence."""

from __future__ import annotations

import pytest

from monitor.bus.contract import EventBus
from monitor.outputs.cloudevents import message_of
from tests.app.eventually import eventually
from tests.bus.examples import SOON, events
from tests.bus.postgres_members import shards
from tests.bus.postgres_stores import StoreHost
from tests.postgres_server import PostgresServer

_NEWEST = "SELECT max(newest_position) FROM shard"


async def sequences(bus: EventBus) -> dict[str, str]:
    """Return the run of each event by the sequence of its message."""
    return {
        message_of(read.event, position=read.position, epoch=read.epoch).sequence: read.event.id
        for read in await bus.events(after=0, limit=100)
    }


async def fail_over(primary: PostgresServer, standby: PostgresServer) -> None:
    """Let an asynchronous standby that was out of reach for a while take the primary's place."""
    await primary.kill()
    await standby.start()
    await standby.promote()


@pytest.mark.parametrize("lost", [0, 3])
async def test_a_log_that_went_back_goes_on_in_a_new_epoch(lost: int) -> None:
    """What was acknowledged is gone: that is reported, and no sequence comes with two contents."""
    async with PostgresServer() as primary:
        standby = await primary.create_standby("late")
        try:
            await standby.start()
            hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
            url = f"postgresql://postgres@{hosts}/postgres?sslmode=disable"
            host = await StoreHost.open(url, "north", lease_seconds=2.0)
            try:
                await host.store.define(shards("sales"))
                await host.has("sales")
                before = host.buses["sales"]
                await before.commit(events(1, 2, 3), timeout_seconds=SOON)

                async def has_all() -> bool:
                    return bool(await standby.value(_NEWEST) == 3)

                await eventually(has_all, why="nothing is replicated")
                await standby.stop()
                if lost:
                    await before.commit(events(4, 5, 6), timeout_seconds=SOON)
                published = await sequences(before)
                await fail_over(primary, standby)
                host.stopped_seconds += 2.0  # also where it was quick, the deadline has passed
                await host.until(lambda: host.buses.get("sales") not in (None, before))
                after = host.buses["sales"]
                await after.commit(events(7, 8), timeout_seconds=SOON)

                found = (await after.status()).lost_end
                assert (found.count if found is not None else 0) == lost
                now = await sequences(after)
                assert list(now) == sorted(now)
                assert {at: now[at] for at in now.keys() & published.keys()} == {
                    at: published[at] for at in list(published)[:3]
                }
                assert max(published) < max(now)
                # So it is for whoever opens the shard next, and reads it from the tables.
                await host.store.release("sales")
                await host.until(lambda: host.buses["sales"] is not after)
                again = host.buses["sales"]
                await again.commit(events(9), timeout_seconds=SOON)
                assert dict(list((await sequences(again)).items())[:-1]) == now
                assert (await again.status()).lost_end is None
            finally:
                await host.close()
        finally:
            standby.discard()
