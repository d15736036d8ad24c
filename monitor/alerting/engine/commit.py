"""The fourth step, commit: one durable step of the store, and then the tables in memory."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.pending_step import (
    ALERT,
    PendingStep,
    Tables,
    empty_tables,
    tables_of,
)
from monitor.alerting.alerts.suppression import Suppression, changes_suppression, suppression_of
from monitor.alerting.store import Store
from monitor.bus.contract import Start, Step
from monitor.model.clock import Clock
from monitor.model.slices import in_slices

CONSUMER = "alerting"

_TIMEOUT_SECONDS = 10.0
POSITION_SECONDS = 1.0  # between two stores of a position behind which nothing changed


class CommittedState:
    """What the store holds, as of the last step that is known to be durable."""

    def __init__(self, *, bus: Store, clock: Clock) -> None:
        self.position = 0
        self.suppression = Suppression()
        self.firing = FiringRuns()
        self.tables: Tables = empty_tables()
        self._bus = bus
        self._clock = clock
        self._stored_position = 0
        self._stored_at = clock.monotonic()
        self.is_hurried = False  # the position is due at once

    def begin(self) -> PendingStep:
        """Return a step without changes."""
        return PendingStep(self.tables, wall_now=self._clock.now())

    async def load(self) -> None:
        """Replace everything by what the store holds. A cancelled call is to be repeated.

        Raises:
            BusUnavailableError: all is as it was.
        """
        position = await self._bus.subscribe(CONSUMER, start=Start.NEWEST)
        await self.show(await self._bus.consumer_state(CONSUMER))
        self.position = self._stored_position = position

    async def show(self, stored: Mapping[str, bytes]) -> None:
        """Replace the tables by what is stored."""
        tables = await tables_of(stored)
        self.tables = tables
        self.firing.clear()
        async for key, instance in in_slices(tables[ALERT].items()):
            self.firing.take(key, instance)
        self.suppression = suppression_of(self.begin(), self.firing)

    @property
    def is_position_stored(self) -> bool:
        return self.position == self._stored_position

    @property
    def is_position_due(self) -> bool:
        """True where a position, and what waits with it, was not stored for long enough."""
        is_late = self._clock.monotonic() - self._stored_at >= POSITION_SECONDS
        return self.is_hurried or is_late

    async def commit(self, pending: PendingStep, position: int) -> bool:
        """Return once the step and its position are durable; False where no row changed.

        A position behind which nothing changed is stored at a bounded rate. After a cancelled call
        the step may be durable: `load` before the next one.

        Raises:
            BusUnavailableError: the step may be durable; `load` before the next one.
        """
        if not pending.changes and (position == self._stored_position or not self.is_position_due):
            self.position = position
            return False
        step = Step(
            consumer=CONSUMER,
            position=position,
            state=await pending.state(),
            events=tuple(pending.events),
        )
        await self._bus.advance(step, timeout_seconds=_TIMEOUT_SECONDS)
        self.position = self._stored_position = position
        self._stored_at = self._clock.monotonic()
        if not pending.changes:
            return False
        is_suppression_new = changes_suppression(pending)
        pending.apply()
        async for key, instance in in_slices(pending.changed[ALERT].items()):
            self.firing.take(key, instance)
        if is_suppression_new:
            self.suppression = suppression_of(self.begin(), self.firing)
        return True
