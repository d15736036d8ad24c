"""Takes free shards, and opens what their host needs. Called by one cycle at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import structlog

from monitor.bus.postgres.grants import Grants
from monitor.bus.postgres.leases import lease_table
from monitor.bus.postgres.leases.given_up import GivenUpShards
from monitor.bus.postgres.leases.heartbeat import Heartbeat
from monitor.bus.postgres.leases.lease import Lease
from monitor.bus.postgres.leases.lease_decisions import TAKEN_OVER, Claim
from monitor.bus.postgres.postgres_metrics import LeaseMetrics
from monitor.model.clock import Clock
from monitor.model.errors import BusError, BusUnavailableError

if TYPE_CHECKING:
    from monitor.bus.postgres.bus import PostgresBus

OpenBuses: TypeAlias = "Callable[[Sequence[Lease]], Awaitable[Sequence[PostgresBus]]]"

log = structlog.get_logger()


class Claiming:
    """Claims shards, many in one statement, and grants those that it got."""

    def __init__(
        self,
        heartbeat: Heartbeat,
        *,
        grants: Grants,
        given_up: GivenUpShards,
        open_buses: OpenBuses,
        on_loss: Callable[[Lease, str], None],
        clock: Clock,
        metrics: LeaseMetrics,
    ) -> None:
        self._heartbeat = heartbeat
        self._grants = grants
        self._given_up = given_up
        self._open_buses = open_buses
        self._on_loss = on_loss
        self._clock = clock
        self._takeovers = metrics.takeovers

    async def claim(self, digests: Mapping[Claim, str]) -> bool:
        """Claim shards, each with the digest of its configuration here; False if some are left.

        Another daemon was quicker, or a transaction has the row locked, such as one of a daemon
        that has died in it.

        Raises:
            BusUnavailableError: the server did not answer; the next cycle finds out what is ours.
        """
        epochs = await self._heartbeat.run(
            lambda connection: lease_table.claim(connection, self._heartbeat.myself, digests)
        )
        claimed = [claim for claim in digests if claim.lease.number in epochs]
        if claimed:
            await self._grant([self._lease(claim, epochs) for claim in claimed])
            taken_over = sum(claim.last_change == TAKEN_OVER for claim in claimed)
            self._takeovers.inc(taken_over)
            log.info(
                "shards claimed",
                shards=len(claimed),
                taken_over=taken_over,
                first=claimed[0].lease.name,
            )
        return len(claimed) == len(digests)

    def _lease(self, claim: Claim, epochs: Mapping[int, int]) -> Lease:
        return Lease(
            shard=claim.lease.name,
            number=claim.lease.number,
            holder=self._heartbeat.myself.id,
            epoch=epochs[claim.lease.number],
            deadline=self._heartbeat.deadline,
            on_loss=self._on_loss,
        )

    async def _grant(self, leases: Sequence[Lease]) -> None:
        """Open the buses of shards that were claimed, and grant them."""
        try:
            buses = await self._open_buses(leases)
        except BusUnavailableError:
            raise  # the rows stay this daemon's, and the next cycle claims them again
        except BusError as exc:
            await self._grant_singly(leases, exc)
            return
        now = self._clock.monotonic()
        for lease, bus in zip(leases, buses, strict=True):
            self._grants.grant(lease, bus, at=now)

    async def _grant_singly(self, leases: Sequence[Lease], cause: BusError) -> None:
        """Open one bus after the other, because one of them is damaged."""
        if len(leases) > 1:
            for lease in leases:
                await self._grant([lease])
            return
        seconds = self._given_up.add(leases[0].shard, held_seconds=0.0)
        log.error(
            "shard cannot be opened",
            shard=leases[0].shard,
            error=str(cause),
            again_in_seconds=seconds,
        )
