"""Decides, again and again, which shards this daemon holds.

One task runs cycles: renew the heartbeat, read who is alive, declare others gone, claim, release.
Another one watches the local deadline, so that no exchange with a server that hangs delays the loss
of all shards. Both belong to the event loop, as do the calls of the host; whatever changes a row is
a statement that names holder and epoch, so that a decision from an old view changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import structlog

from monitor.bus.postgres.claiming import Claiming, OpenBuses
from monitor.bus.postgres.grants import Grant, Grants
from monitor.bus.postgres.leases import lease_table
from monitor.bus.postgres.leases.definitions import DefinedShard, store_definitions
from monitor.bus.postgres.leases.given_up import GivenUpShards
from monitor.bus.postgres.leases.heartbeat import Heartbeat
from monitor.bus.postgres.leases.lease import Lease
from monitor.bus.postgres.leases.lease_decisions import (
    Claim,
    Forfeit,
    LeaseView,
    LivingDaemon,
    ReleaseUnused,
    ShardLease,
)
from monitor.bus.postgres.leases.lease_table import Neighbour
from monitor.bus.postgres.leases.observed_heartbeats import ObservedHeartbeats
from monitor.bus.postgres.leases.releases import ShardReleases
from monitor.bus.postgres.postgres_metrics import LeaseMetrics
from monitor.bus.shards import ShardDefinition
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError
from monitor.model.slices import in_slices, pieces_of
from monitor.model.waits import happens_within

log = structlog.get_logger()

_LOCKED_RETRY_SECONDS = 0.3  # a shard whose row a dying transaction has locked
_CYCLE_GAP_SECONDS = 0.1  # between the beginnings of two cycles
_WATCH_SECONDS = 1.0  # a suspended machine stops the loop's timers, and not the deadline
_FORGET_SECONDS = 3_600.0


class LeaseManager:
    """Follows the leases of the cluster for one daemon."""

    def __init__(
        self,
        heartbeat: Heartbeat,
        *,
        open_buses: OpenBuses,
        on_change: Callable[[], None],
        clock: Clock,
        metrics: LeaseMetrics,
    ) -> None:
        """Call ``on_change`` when other daemons may have something to claim."""
        self.grants = Grants()
        self.definitions: dict[str, DefinedShard] = {}
        self._heartbeat = heartbeat
        self._on_change = on_change
        self._clock = clock
        self._known: dict[str, Neighbour] = {}
        self._seen = ObservedHeartbeats(clock)
        self._judged: object = None  # what the last cycle has compared its grants with
        self._given_up = GivenUpShards(clock)
        self._published: dict[str, str] = {}
        self._is_defined = False
        self._is_draining = False
        self._renewed_at = -1e9  # on the monotonic clock, as what follows
        self._back_at = -1e9  # when a renewal came too late
        self._forgotten_at = -1e9
        self._next_in = 0.0  # seconds until the next cycle, at most
        self._wake = asyncio.Event()
        self._releases = ShardReleases(heartbeat, on_release=on_change)
        self._claiming = Claiming(
            heartbeat,
            grants=self.grants,
            given_up=self._given_up,
            open_buses=open_buses,
            on_loss=self.lost,
            clock=clock,
            metrics=metrics,
        )
        metrics.shards_held.set_function(lambda: len(self.grants))

    # --- what the host asks for ---

    async def define(self, definitions: Sequence[ShardDefinition]) -> None:
        """Store what the configuration says; raises as `ShardStore.define` does."""
        digests = self._digests({item.name: item.digest for item in definitions})
        before = self.definitions
        self.definitions = await self._heartbeat.run_patiently(
            lambda connection: store_definitions(
                connection, self._heartbeat.myself, definitions, digests
            )
        )
        self._published = digests
        self._is_defined = True
        for grant in self.grants.all():
            defined = self.definitions.get(grant.lease.shard)
            if defined is not None and defined != before.get(grant.lease.shard):
                await self._change_digest(grant.lease, defined.digest)
        self.wake()
        self._on_change()

    async def _change_digest(self, lease: Lease, digest: str) -> None:
        await self._heartbeat.run(
            lambda connection: lease_table.change_digest(
                connection, self._heartbeat.myself, lease.number, lease.epoch, digest
            )
        )

    async def release(self, shard: str) -> None:
        """End a grant; its row is named free where it still is this daemon's."""
        grant = self.grants.take(shard)
        if grant is not None:
            await self._end(grant, "released")

    async def give_up(self, shard: str, cause: BaseException) -> None:
        """End a grant, and claim the shard again only after a wait that grows to a cap."""
        grant = self.grants.take(shard)
        if grant is None:
            return
        now = self._clock.monotonic()
        if not grant.lease.is_lost:
            seconds = self._given_up.add(shard, held_seconds=now - grant.granted_at)
            log.error("shard given up", shard=shard, error=str(cause), again_in_seconds=seconds)
        await self._end(grant, f"given up: {cause}")

    async def _end(self, grant: Grant, reason: str) -> None:
        lease = grant.lease
        was_lost = lease.is_lost
        try:
            try:
                await grant.bus.close()
            finally:
                # Whatever the bus still had to do is over: from here on it may write nothing.
                lease.lose(reason)
            if not was_lost:
                with contextlib.suppress(BusUnavailableError):  # a later cycle sees it unused
                    # First others must not count on this daemon any more, or none claims it.
                    if lease.shard in self._given_up:
                        await self._publish()
                    await self._releases.release(lease.number, lease.epoch)
        finally:
            self.grants.ended(grant)
            self.wake()

    async def drain(self) -> None:
        """Claim nothing any more, and let the others know."""
        self._is_draining = True
        self.wake()
        with contextlib.suppress(BusUnavailableError):  # a later cycle does it
            await self._publish()

    def wake(self) -> None:
        """Begin a cycle now: something has changed, here or in another daemon."""
        self._wake.set()

    def lost(self, lease: Lease, reason: str) -> None:
        """Learn that a bus has found out that its lease is lost."""
        grant = self.grants.of(lease.shard)
        if self.grants.lose(lease, reason) and grant is not None:
            log.warning("shard lost", shard=lease.shard, epoch=lease.epoch, reason=reason)
            grant.bus.lose(reason)
            self.wake()

    def _lose_all(self, reason: str) -> None:
        for grant in self.grants.all():
            grant.lease.lose(reason)

    async def close(self) -> None:
        """End every grant, and leave the cluster; the tasks have ended."""
        self._is_draining = True
        grants = self.grants.take_all()
        # Together: where the server is away each waits for the time-out of a write.
        await asyncio.gather(*(grant.bus.close() for grant in grants))
        for grant in grants:
            grant.lease.lose("closed")
        await self._heartbeat.depart()
        self._on_change()

    # --- the tasks ---

    async def watch_deadline(self) -> None:
        """Lose all shards as soon as the local deadline has passed, whatever the server does."""
        deadline = self._heartbeat.deadline
        while True:
            if len(self.grants) and deadline.has_passed():
                self._lose_all("the lease was not renewed in time")
            left = deadline.seconds_left() or _WATCH_SECONDS
            await self._clock.sleep(min(left, _WATCH_SECONDS))

    async def run(self) -> None:
        """Run cycles until cancelled.

        Raises:
            BusLockedError: another daemon has taken over the id of this one.
        """
        is_failing = False
        while True:
            self._wake.clear()
            began_at = self._clock.monotonic()
            try:
                await self.cycle()
            except BusUnavailableError as exc:
                # Others take over if it lasts.
                self._next_in = min(self._heartbeat.renew_seconds / 4, 1.0)
                if not is_failing:
                    log.warning("leases not renewed", reason=str(exc))
                is_failing = True
            else:
                is_failing = False
            await happens_within(
                self._wake.wait(),
                clock=self._clock,
                seconds=self._next_in,
                name="next lease cycle",
            )
            # Many shards that are handed over, or many daemons that start, wake it often.
            await self._clock.sleep(began_at + _CYCLE_GAP_SECONDS - self._clock.monotonic())

    async def cycle(self) -> None:
        """Do once all that there is to do about leases.

        Raises:
            BusUnavailableError: the server did not answer; what was done is done.
        """
        is_defined = self._is_defined  # a configuration that comes meanwhile is for the next one
        await self._renew_if_due()
        await self._publish()
        self._next_in = self._heartbeat.renew_seconds
        daemons = await self._living()
        view = LeaseView(
            me=self._heartbeat.myself.id,
            incarnation=self._heartbeat.myself.incarnation,
            daemons=daemons,
        )
        await self._act(view, daemons)
        await self._reassign(view)
        await self._forget_gone()
        self._shorten_wait()
        for grant in self.grants.take_undelivered():
            await grant.bus.close()
        if is_defined:
            self.grants.first_cycle_ended()

    async def _renew_if_due(self) -> None:
        now = self._clock.monotonic()
        # Woken often, as while many shards are handed over, it does not renew each time.
        if now - self._renewed_at < self._heartbeat.renew_seconds / 2 and not (
            self._heartbeat.deadline.has_passed()
        ):
            return
        was_late = self._heartbeat.deadline.has_passed()
        if not await self._heartbeat.renew():
            log.warning("lease expired", daemon=self._heartbeat.myself.id)
            self._lose_all("other daemons have declared this one gone")
            self._heartbeat.start_over()
            self._published = {}
            await self._heartbeat.register()
        elif was_late:
            self._lose_all("the lease was renewed too late")
        if was_late:
            self._back_at = now
        self._renewed_at = now

    async def _publish(self) -> None:
        digests = self._digests({name: item.digest for name, item in self.definitions.items()})
        if digests != self._published:
            await self._heartbeat.publish(digests)
            self._published = digests
            self._on_change()

    def _digests(self, defined: Mapping[str, str]) -> dict[str, str]:
        """Return what this daemon would hold at present."""
        if self._is_draining:
            return {}
        return {shard: digest for shard, digest in defined.items() if shard not in self._given_up}

    async def _living(self) -> list[LivingDaemon]:
        """Return the daemons that are alive; declare the others gone.

        After a failover of the database all leases have expired. The first daemon that is back
        leaves the others the time of one, or it would get all shards only to hand them over again.
        """
        is_grace_period = self._renewed_at < self._back_at + self._heartbeat.myself.lease_seconds
        run = self._heartbeat.run
        known = self._known.values()
        self._known = await run(lambda connection: lease_table.neighbours(connection, known))
        self._seen.keep_only(self._known)
        living: list[LivingDaemon] = []
        for neighbour in list(self._known.values()):
            daemon = neighbour.daemon
            left = self._seen.seconds_left(daemon.id, neighbour.renewal)
            is_other = daemon.id != self._heartbeat.myself.id
            if left > 0 or not is_other or is_grace_period:
                living.append(daemon)
                if is_other and not is_grace_period:  # be there when it expires
                    self._next_in = min(self._next_in, max(left, 0.0) + 0.05)
            elif await self._declare_gone(neighbour):
                log.warning("daemon gone", daemon=daemon.id)
                del self._known[daemon.id]
            else:
                living.append(daemon)  # it has renewed in between
        return living

    async def _declare_gone(self, neighbour: Neighbour) -> bool:
        return await self._heartbeat.run(
            lambda connection: lease_table.declare_gone(
                connection, neighbour.daemon.id, neighbour.renewal
            )
        )

    # --- one cycle ---

    async def _act(self, view: LeaseView, daemons: Sequence[LivingDaemon]) -> None:
        leases = await self._heartbeat.run(
            lambda connection: lease_table.open_leases(
                connection,
                self._heartbeat.myself,
                defined=[defined.number for defined in self.definitions.values()],
                alive=daemons,
                hosted=[grant.lease.number for grant in self.grants.all()],
            )
        )
        claims: list[tuple[Claim, str]] = []  # with the digest of this time
        # A cluster may have thousands of shards, here and below.
        async for lease in in_slices(leases):
            grant = self.grants.of(lease.name)
            action = view.action(lease, hosted_epoch=None if grant is None else grant.lease.epoch)
            if isinstance(action, Forfeit) and grant is not None:
                grant.lease.lose("another daemon has the shard")
            elif isinstance(action, ReleaseUnused) and not self.grants.is_closing(lease.name):
                await self._releases.release(lease.number, lease.epoch)
            elif isinstance(action, Claim) and self._may_claim(lease):
                claims.append((action, self.definitions[lease.name].digest))
        for piece in pieces_of(claims):
            if not await self._while_renewing(self._claiming.claim(dict(piece))):
                self._next_in = min(self._next_in, _LOCKED_RETRY_SECONDS)
        if any(claim.lease.holder is not None for claim, _ in claims):
            self._on_change()  # its former holder may live, and rely on its own deadline

    async def _while_renewing(self, claim: Coroutine[Any, Any, bool]) -> bool:
        """Return what a claim returns. What it opens is read, and reads may wait for others."""
        claiming = asyncio.create_task(claim, name="claim of shards")
        try:
            while not await happens_within(
                asyncio.wait((claiming,)),
                clock=self._clock,
                seconds=self._heartbeat.renew_seconds,
                name="renewal during a claim",
            ):
                await self._renew_if_due()
            return claiming.result()
        finally:
            claiming.cancel()
            await asyncio.gather(claiming, return_exceptions=True)

    def _may_claim(self, lease: ShardLease) -> bool:
        return (
            lease.name in self.definitions
            and not self._is_draining
            and lease.name not in self._given_up
            and not self.grants.is_ending(lease.name)
        )

    async def _reassign(self, view: LeaseView) -> None:
        """Let the host know of shards that another daemon is to have."""
        versions = {
            (neighbour.daemon.id, neighbour.daemon.incarnation, neighbour.version)
            for neighbour in self._known.values()
        }
        judged = (versions, self.definitions)
        if judged == self._judged or self._is_draining:
            return
        async for grant in in_slices(self.grants.all()):
            shard = grant.lease.shard
            successor = view.successor(shard) if shard in self.definitions else ""
            if successor is not None:
                self.grants.reassign(shard, successor)
        self._judged = judged

    async def _forget_gone(self) -> None:
        if self._renewed_at - self._forgotten_at > _FORGET_SECONDS:
            await self._heartbeat.run(lease_table.forget_gone)
            self._forgotten_at = self._renewed_at

    def _shorten_wait(self) -> None:
        waits = self._given_up.seconds_to_next()
        if waits is not None:
            self._next_in = min(self._next_in, waits)
