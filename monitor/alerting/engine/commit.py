"""The fourth step, commit: one durable step of the store, and then the tables in memory."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.alerting.alerting_store import Store
from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.pending_step import (
    ALERT,
    PendingStep,
    Tables,
    tables_of,
)
from monitor.alerting.alerts.suppression import Suppression, changes_suppression, suppression_of
from monitor.bus.contract import Start, Step
from monitor.model.clock import Clock
from monitor.model.slices import in_slices

CONSUMER = "alerting"

_TIMEOUT_SECONDS = 10.0
LINGER_SECONDS = 1.0  # the longest that a step which changes no alert waits for the next one


class CommittedState:
    """What the store holds, as of the last step that is known to be durable."""

    def __init__(self, *, bus: Store, clock: Clock) -> None:
        self.position = 0
        self.suppression = Suppression()
        self.firing = FiringRuns()
        self.tables: Tables = Tables()
        self._bus = bus
        self._clock = clock
        self._stored_position = 0
        self._stored_at = clock.monotonic()
        self._lingering: PendingStep | None = None

    def begin(self) -> PendingStep:
        """Return the step that lingers, else one without changes."""
        pending = self._lingering or PendingStep(self.tables, wall_now=self._clock.now())
        pending.wall_now = self._clock.now()
        return pending

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
        self.tables, self._lingering = tables, None
        self.firing.clear()
        async for key, instance in in_slices(tables[ALERT].items()):
            self.firing.take(key, instance)
        self.suppression = suppression_of(self.begin(), self.firing)

    @property
    def is_position_stored(self) -> bool:
        return self.position == self._stored_position

    def linger(self, pending: PendingStep, position: int) -> bool:
        """Let the next step hold this one as well; False where it is to be committed now.

        A step that changes an alert never lingers, and no other one does for long. After a crash
        its events are read again, and change the same.
        """
        may_linger = self._clock.monotonic() - self._stored_at < LINGER_SECONDS
        if not may_linger or pending.changes_alerts:
            return False
        self.position, self._lingering = position, pending
        return True

    async def commit(self, pending: PendingStep, position: int) -> bool:
        """Return once the step and its position are durable; False where no row changed.

        After a cancelled call the step may be durable: `load` before the next one.

        Raises:
            BusUnavailableError: the step may be durable; `load` before the next one.
        """
        self._lingering = None
        if not pending.changes and position == self._stored_position:
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
