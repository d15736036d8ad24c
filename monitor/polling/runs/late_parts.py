"""Parts of plan runs that were first observed when nothing was linked to the plan run any more.

A list may show a run minutes after its end, and a restart forgets what records have named. The plan
runs during which such a part was created are read once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

import structlog

from monitor.model.due_queue import DueQueue
from monitor.model.errors import WorkspaceError
from monitor.model.runs import RunKey, RunKind, RunState
from monitor.model.waits import WakeSignal
from monitor.polling.context import PollContext
from monitor.polling.poll_loop.bounded_memory import BoundedMemory
from monitor.polling.runs.plans import Plans
from monitor.polling.runs.unlinked_parts import UnlinkedPart
from monitor.workspace.payloads import PlanRunRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_AT_MOST = 1_000
_RECENT_PLAN_RUNS = 200
_READS_AT_MOST = 5  # of plan runs, in one look-up
_REMEMBERED = 1_000
_STAMP_TOLERANCE = timedelta(seconds=1)  # stamps may be cut to their seconds


class LateParts:
    """Bounded; a plan run is read for late parts at most once in ``reconcile_seconds``."""

    def __init__(self, context: PollContext, *, plans: Plans, wake: WakeSignal) -> None:
        self._context = context
        self._plans = plans
        self._parts: DueQueue[RunKey, UnlinkedPart] = DueQueue(
            context.clock, bound=_AT_MOST, wake=wake
        )
        self._read_at: BoundedMemory[str, float] = BoundedMemory(_REMEMBERED)  # monotonic

    def add(self, key: RunKey, part: UnlinkedPart) -> None:
        """Look the part up soon; where there are too many, it stays without its plan run."""
        self._parts.put(key, part)

    def seconds_until_due(self) -> float | None:
        """Return when they are to be looked up: at once, None without any."""
        return self._parts.seconds_until_due()

    def take_due(self) -> list[UnlinkedPart]:
        """Return the parts and forget them; each is looked up once."""
        parts = self._parts.values()
        self._parts.clear()
        return parts

    async def plan_runs_of(self, parts: Iterable[UnlinkedPart]) -> list[PlanRunRow]:
        """Read the ended plan runs that may have started these parts, as far as can be read."""
        runs = await self._context.bus.recent_runs(
            workspace=self._context.name, kind=RunKind.PLAN_RUN, limit=_RECENT_PLAN_RUNS
        )
        wanted = list(parts)
        chosen = [run for run in runs if self._is_worth_reading(run, wanted)]
        rows: list[PlanRunRow] = []
        for run in chosen[:_READS_AT_MOST]:
            self._read_at.put(run.key.id, self._context.clock.monotonic())
            try:
                row = await self._context.client.runs.plan_run(run.key.id, priority=Priority.LINKS)
            except WorkspaceError as error:
                log.info("plan run not readable", plan_run=run.key.id, reason=str(error))
                continue
            rows.append(row)
        return rows

    def _is_worth_reading(self, run: RunState, parts: Sequence[UnlinkedPart]) -> bool:
        read_at, now = self._read_at.get(run.key.id), self._context.clock.monotonic()
        if read_at is not None and now - read_at < self._context.settings.reconcile_seconds:
            return False
        return run.status.is_terminal and any(self._may_contain(run, part) for part in parts)

    def _may_contain(self, run: RunState, part: UnlinkedPart) -> bool:
        created_at, ended_at = run.created_at, run.finished_at or run.updated_at
        if part.created_at is None or created_at is None or part.created_at < created_at:
            return False
        if ended_at is not None and part.created_at > ended_at + _STAMP_TOLERANCE:
            return False
        return run.pipeline is None or self._plans.may_run(run.pipeline.id, part.flow_id)
