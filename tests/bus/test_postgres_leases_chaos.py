"""What happens to clusters, in an order that a seed decides: one holder at most, at any time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.bus.postgres_members import (
    LEASE_SECONDS,
    NAMES,
    LeaseCluster,
    LeaseOnly,
    Member,
    lease_cluster,
)


@pytest.fixture
async def cluster(empty_database: str) -> AsyncIterator[LeaseCluster]:
    async with lease_cluster(empty_database) as cluster:
        yield cluster


class Chaos:
    """Does to a cluster what happens to clusters, in an order that a seed decides."""

    def __init__(self, cluster: LeaseCluster, seed: int) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)  # noqa: S311 - reproducible
        self.names = iter(range(1_000))
        self.epochs: dict[str, int] = {}
        self.former: list[tuple[Member, LeaseOnly]] = []

    async def come(self) -> None:
        if len(self.cluster.members) < 3:
            digest = self.random.choice(("d", "d", "other"))
            await self.cluster.join(f"daemon-{next(self.names)}", digest=digest)

    async def die(self) -> None:
        if len(self.cluster.members) > 1:
            member = self.cluster.members.pop(self._any_index())
            self.former += [(member, bus) for bus in member.hosted.values()]
            member.kill()
            if self.random.random() < 0.7:  # else its lease is as good as alive
                await self.cluster.expire(member)

    async def stop_for_long(self) -> None:
        await self.cluster.expire(self._any())

    async def be_late(self) -> None:
        self._any().boottime += LEASE_SECONDS * 2 / 3

    async def cycle(self) -> None:
        await self._any().cycle()

    async def cycle_together(self) -> None:
        await asyncio.gather(
            *(member.cycle() for member in self.cluster.members),
            *(member.obey() for member in self.cluster.members),
        )

    async def obey(self) -> None:
        await self._any().obey()

    async def drain(self) -> None:
        if len(self.cluster.members) > 1:
            member = self.cluster.members.pop(self._any_index())
            await member.leases.drain()
            await member.leave()

    async def step(self) -> None:
        actions: list[Callable[[], Awaitable[None]]] = [
            *(
                self.cycle,
                self.cycle,
                self.cycle_together,
                self.cycle_together,
                self.obey,
                self.obey,
                self.obey,
            ),
            *(self.come, self.die, self.stop_for_long, self.be_late, self.drain),
        ]
        await self.random.choice(actions)()

    async def check(self) -> None:
        publishing = [shard for member in self.cluster.members for shard in member.publishing()]
        assert len(publishing) == len(set(publishing)), "two daemons publish one shard"
        epochs = await self.cluster.epochs()
        assert all(epochs[name] >= epoch for name, epoch in self.epochs.items())
        self.epochs = epochs
        holders = await self.cluster.holders()
        for member in self.cluster.members:
            for shard in member.publishing():
                assert holders[shard] == member.name
                assert epochs[shard] == member.hosted[shard].lease.epoch

    def _any_index(self) -> int:
        return self.random.randrange(len(self.cluster.members))

    def _any(self) -> Member:
        return self.cluster.members[self._any_index()]


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 20))]
)
async def test_at_any_time_one_daemon_at_most_has_a_shard(cluster: LeaseCluster, seed: int) -> None:
    """Daemons come, die, are stopped, renew late and drain in any order; then all is in order."""
    chaos = Chaos(cluster, seed)
    await chaos.come()
    for _ in range(100):
        await chaos.step()
        await chaos.check()
    await cluster.calm_down()
    await cluster.pass_lease(*cluster.members)
    for _ in range(2):  # one that was away itself leaves the absent the time of a lease
        await cluster.calm_down()
    await chaos.check()
    publishing = [shard for member in cluster.members for shard in member.publishing()]
    assert sorted(publishing) == sorted(NAMES)
    grants = [grant for member in cluster.members for grant in member.epochs]
    assert len(grants) == len(set(grants)), "an epoch was granted twice"
    for member, bus in chaos.former:
        assert not await member.write(bus)
