"""The row of this daemon: registered, renewed, and the connection that does nothing but leases."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TypeVar
from uuid import uuid4

import structlog

from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.connection_failures import bus_errors
from monitor.bus.postgres.connections.connector import PostgresConnector
from monitor.bus.postgres.connections.migrations import newest_schema
from monitor.bus.postgres.leases import lease_table
from monitor.bus.postgres.leases.lease import RENEWALS, LeaseDeadline
from monitor.bus.postgres.leases.lease_table import Myself, Namesake
from monitor.bus.postgres.leases.observed_heartbeats import ObservedHeartbeats
from monitor.bus.postgres.leases.process_identity import is_surely_gone, this_process
from monitor.bus.postgres.postgres_metrics import LeaseMetrics
from monitor.model.clock import Clock
from monitor.model.errors import BusLockedError, BusUnavailableError

T = TypeVar("T")

log = structlog.get_logger()


class Heartbeat:
    """Renews the lease of this daemon. Belongs to the event loop."""

    def __init__(
        self,
        connector: PostgresConnector,
        *,
        daemon_id: str,
        version: str,
        url: str | None,
        deadline: LeaseDeadline,
        clock: Clock,
        metrics: LeaseMetrics,
    ) -> None:
        self.deadline = deadline
        self.renew_seconds = connector.lease_seconds / RENEWALS
        self.away_since: datetime | None = None  # None: the last exchange was answered
        self._connector = connector
        self._clock = clock
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()  # a connection carries one exchange at a time
        self._renewals = metrics.renewals
        self.myself = Myself(
            id=daemon_id,
            incarnation=uuid4(),
            host=socket.gethostname(),
            process=this_process(),
            process_id=os.getpid(),
            version=version,
            schema=newest_schema(),
            url=url,
            lease_seconds=connector.lease_seconds,
        )

    async def run(self, exchange: Callable[[Connection], Awaitable[T]]) -> T:
        """Return what ``exchange`` returns, on the connection of leases.

        Raises:
            BusUnavailableError: the server did not answer; whether it did anything is unknown.
        """
        async with self._turn:
            try:
                if self._connection is None:
                    self._connection = await self._connector.connect(
                        purpose="leases", statement_seconds=max(1.0, self.renew_seconds)
                    )
                with bus_errors():
                    # Short, so that a server that hangs leaves time for the next one.
                    async with asyncio.timeout(max(1.0, self.renew_seconds)):
                        answer = await exchange(self._connection)
            except (BusUnavailableError, asyncio.CancelledError):
                self.disconnect()
                raise
        self.away_since = None
        return answer

    async def run_patiently(self, exchange: Callable[[Connection], Awaitable[T]]) -> T:
        """As `run`, again and again while a lease lasts: others may hold a lock that it needs."""
        end = self._clock.monotonic() + self.myself.lease_seconds
        while True:
            try:
                return await self.run(exchange)
            except BusUnavailableError:
                if self._clock.monotonic() >= end:
                    raise
                await self._clock.sleep(self.renew_seconds / 4)

    async def register(self) -> None:
        """Store the row of this daemon.

        A predecessor of the same id that has died is waited for until its lease expires, or not at
        all where it was a process of this machine.

        Raises:
            BusLockedError: another daemon uses the id, and is alive.
            BusUnavailableError: the server did not answer.
        """
        seen, first = ObservedHeartbeats(self._clock), None
        while True:
            other = await self.run(self._namesake)
            left = 0.0
            if other is not None and not is_surely_gone(other.process):
                left = seen.seconds_left(self.myself.id, other.renewal)
            if left <= 0 and await self._try_register(other):
                return
            if other is None:
                continue
            first = first or other.renewal.identity
            if other.renewal.identity != first:
                raise BusLockedError(
                    f"storage.daemon: another daemon, process {other.process_id} on {other.host}, "
                    f"uses the name {self.myself.id}; give each daemon of the database its own"
                )
            log.info("former daemon not expired yet", daemon=other.process_id, host=other.host)
            await self._clock.sleep(max(0.05, min(self.renew_seconds / 2, left + 0.05)))

    async def _namesake(self, connection: Connection) -> Namesake | None:
        return await lease_table.namesake(connection, self.myself.id)

    async def _try_register(self, other: Namesake | None) -> bool:
        instead_of = None if other is None else other.renewal
        sent_at = self.deadline.boottime()
        is_registered = await self.run(
            lambda connection: lease_table.register(
                connection, self.myself, {}, instead_of=instead_of
            )
        )
        if is_registered:
            self.deadline.renewed(sent_at)
        return is_registered

    async def renew(self) -> bool:
        """Move the deadline; False where others have declared this daemon gone.

        Raises:
            BusUnavailableError: the server did not answer.
        """
        sent_at = self.deadline.boottime()
        try:
            is_renewed = await self.run(
                lambda connection: lease_table.renew(connection, self.myself)
            )
        except BusUnavailableError:
            self._renewals.labels("failed").inc()
            raise
        self._renewals.labels("renewed" if is_renewed else "gone").inc()
        if is_renewed:
            self.deadline.renewed(sent_at)
        return is_renewed

    def start_over(self) -> None:
        """Be another incarnation, because the former one is gone to the others."""
        self.deadline.revoke()
        self.myself = self.myself._replace(incarnation=uuid4())

    async def publish(self, digests: Mapping[str, str]) -> None:
        await self.run(lambda connection: lease_table.publish(connection, self.myself, digests))

    async def depart(self) -> None:
        """Release every shard of this daemon in the store, where it can be reached."""
        self.deadline.revoke()
        try:
            await self.run(lambda connection: lease_table.depart(connection, self.myself))
        except BusUnavailableError as exc:
            log.warning("shards not released", reason=str(exc))

    def disconnect(self) -> None:
        """Drop the connection; the next exchange makes a new one."""
        if self.away_since is None:
            self.away_since = self._clock.now()
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
