"""The fourth step, commit: one durable step of the store, and then the tables in memory."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec.structs import replace

from monitor.alerting.alerting_store import Store
from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.instance import StepWord
from monitor.alerting.alerts.pending_step import (
    ALERT,
    ENDED,
    EndedAlert,
    PendingStep,
    Tables,
    tables_of,
)
from monitor.alerting.engine.suppression import Suppression, changes_suppression, suppression_of
from monitor.bus.contract import Start, Step
from monitor.model.alerts import Alert, AlertState, PastPlace, PastQuery
from monitor.model.clock import Clock
from monitor.model.slices import in_slices, sorted_in_slices

_FIRST = datetime.min.replace(tzinfo=UTC)

_Key = tuple[PastPlace, str]  # where a row stands, and its key in the store
CONSUMER = "alerting"
_TIMEOUT_SECONDS = 10.0
LINGER_SECONDS = 1.0  # the longest that a step which changes no alert waits for the next one


class PastAlerts:
    """Every ended alert by its end and by its fingerprint; changed with each durable step."""

    def __init__(self) -> None:
        self._rows: dict[str, EndedAlert] = {}
        self._order: list[_Key] = []  # the oldest end first
        self._keys: defaultdict[str, set[str]] = defaultdict(set)  # by fingerprint

    async def load(self, rows: Mapping[str, EndedAlert]) -> None:
        """Replace everything. A cancelled call is to be repeated."""
        self._rows, self._order = {}, []
        self._keys.clear()
        order: list[_Key] = []
        async for key, row in in_slices(list(rows.items())):  # up to 10,000, here and below
            self._rows[key] = row
            self._keys[row.alert.fingerprint].add(key)
            order.append((_place(row), key))
        self._order = await sorted_in_slices(order, key=lambda placed: placed)

    def committed(self, changed: Mapping[str, EndedAlert | None]) -> None:
        """Apply the rows that a durable step changed; None for one that was dropped."""
        for key, row in changed.items():
            before = self._rows.pop(key, None)
            if before is not None:
                del self._order[bisect_left(self._order, (_place(before), key))]
                self._keys[before.alert.fingerprint].discard(key)
                if not self._keys[before.alert.fingerprint]:
                    del self._keys[before.alert.fingerprint]
            if row is not None:
                self._rows[key] = row
                self._keys[row.alert.fingerprint].add(key)
                insort(self._order, (_place(row), key))

    def of(self, fingerprint: str) -> tuple[EndedAlert, ...]:
        """Return the ended alerts, also those without notifications; newest last."""
        rows = (self._rows[key] for key in self._keys.get(fingerprint, ()))
        return tuple(sorted(rows, key=lambda row: row.alert.starts_at))

    def all(self) -> tuple[EndedAlert, ...]:
        """Return every ended alert that is still kept, in no order."""
        return tuple(self._rows.values())

    async def find(self, query: PastQuery) -> list[Alert]:
        """Return ended alerts, the newest end first; each is resolved, and has its end.

        One that ended before it had lasted long enough to fire stays ``pending``.
        """
        since = bisect_left(self._order, (PastPlace(query.since or _FIRST, "", _FIRST), ""))
        until = len(self._order)
        if query.before is not None:
            until = bisect_left(self._order, (PastPlace(query.before, "", _FIRST), ""))
        if query.after is not None:
            until = min(until, bisect_left(self._order, (query.after, "")))
        found: list[Alert] = []
        async for _, key in in_slices(self._order[since:until][::-1]):  # up to 10,000
            row = self._rows.get(key)  # dropped meanwhile, as may be
            if row is not None and _fits(row.alert, query):
                found.append(ended_alert(row))
                if len(found) == query.limit:
                    break
        return found


def ended_alert(row: EndedAlert) -> Alert:
    """Return the alert as it ended; the end of one without notifications is by our clock."""
    if row.alert.ends_at is not None:
        return row.alert
    was_pending = row.word is StepWord.ENDED_PENDING
    return replace(
        row.alert,
        ends_at=max(row.at, row.alert.starts_at),
        state=AlertState.PENDING if was_pending else AlertState.RESOLVED,
    )


def place_of(alert: Alert) -> PastPlace:
    """Return where an ended alert stands in the order of its ends."""
    return PastPlace(alert.ends_at or alert.starts_at, alert.fingerprint, alert.starts_at)


def _place(row: EndedAlert) -> PastPlace:
    return place_of(ended_alert(row))


def _fits(alert: Alert, query: PastQuery) -> bool:
    pipeline = alert.pipeline
    return (
        query.workspace in (None, alert.workspace)
        and query.rule in (None, alert.name)
        and query.rule_kind in (None, alert.rule)
        and query.severity in (None, alert.severity)
        and (
            query.pipeline is None
            or (pipeline is not None and query.pipeline == (pipeline.kind, pipeline.id))
        )
        and (query.pipeline_named is None or alert.is_about(query.pipeline_named))
    )


class CommittedState:
    """What the store holds, as of the last step that is known to be durable."""

    def __init__(self, *, bus: Store, clock: Clock) -> None:
        self.position = 0
        self.suppression = Suppression()
        self.firing = FiringRuns()
        self.past = PastAlerts()
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
        async for key, instance in in_slices(tables[ALERT].items()):  # thousands
            self.firing.take(key, instance)
        await self.past.load(tables[ENDED])
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
        self.past.committed(pending.changed[ENDED])
        # Thousands, where an outage begins or ends.
        async for key, instance in in_slices(pending.changed[ALERT].items()):
            self.firing.take(key, instance)
        if is_suppression_new:
            self.suppression = suppression_of(self.begin(), self.firing)
        return True
