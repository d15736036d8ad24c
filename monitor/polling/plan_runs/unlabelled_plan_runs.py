"""Plan runs that were observed without their plan: it is looked up until it is known.

Durable, so that a restart loses none. The waits grow up to a day, and a run is dropped when the
store has forgotten it: what never becomes readable costs next to nothing.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.contract import StateEntry, decode_entries
from monitor.model.due_queue import DueQueue
from monitor.model.errors import MonitorError, TryLaterError, UnauthorizedError
from monitor.model.observations import Observation
from monitor.model.runs import Pipeline, RunKind, Source
from monitor.polling.links.plans import Plans
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll, when_due
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.workspace.payloads import PlanRunRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

UNLABELLED = "unlabelled_plan_run"  # topic of their state entries

_AT_MOST = 1_000
_READS_PER_POLL = 20
_BASE_WAIT_SECONDS = 30.0
_LONGEST_WAIT_SECONDS = 86_400.0


class _Shown(Struct, frozen=True, kw_only=True, gc=False):
    """What a plan run's row shows of its plan."""

    plan_id: str | None
    created_at: datetime | None


_DECODER = msgspec.json.Decoder(_Shown)


class UnlabelledPlanRuns:
    """Bounded; above the bound a plan run keeps no pipeline."""

    def __init__(self, context: PollContext, *, plans: Plans) -> None:
        self._context = context
        self._plans = plans
        self._waiting: DueQueue[str, _Shown] = DueQueue(
            context.clock,
            bound=_AT_MOST,
            base_seconds=_BASE_WAIT_SECONDS,
            cap_seconds=_LONGEST_WAIT_SECONDS,
        )

    def declared(self) -> tuple[Poll, ...]:
        return (
            Poll(
                name="unlabelled_plan_runs",
                priority=Priority.NAMES,
                timing=when_due(self._waiting),
                run=self.poll,
            ),
        )

    async def load(self) -> None:
        """Read back what was left by an earlier run of the monitor."""
        stored = await self._context.bus.state_entries(self._context.name, UNLABELLED)
        for run_id, shown in decode_entries(stored, _DECODER, topic=UNLABELLED).items():
            self._waiting.put(run_id, shown, attempts=1)

    def seconds_until_due(self) -> float | None:
        """Return when `poll` has something to do; None where nothing is waited for."""
        return self._waiting.seconds_until_due()

    async def add(self, row: PlanRunRow) -> None:
        """Look up the plan of this run, which was observed without it. Durable on return."""
        if row.id in self._waiting:
            return
        if not self._waiting.has_room():
            log.warning("plan run stays without its plan", plan_run=row.id, waiting=_AT_MOST)
            return
        shown = _Shown(plan_id=row.plan_id, created_at=row.created_at)
        state_entry = self._state_entry(row.id, msgspec.json.encode(shown))
        await self._context.observer.observe((), state_entries=(state_entry,))
        # It was tried when it was observed.
        self._waiting.put(row.id, shown, after_seconds=_BASE_WAIT_SECONDS, attempts=1)

    def retry(self, plan_id: str | None) -> None:
        """The plan of this id is known now: label all its runs soon."""
        for run_id in self._waiting:
            shown = self._waiting.get(run_id)
            if plan_id is not None and shown is not None and shown.plan_id == plan_id:
                self._waiting.schedule(run_id)

    async def poll(self) -> bool:
        """Look up the plans of runs that are due; False where there was none.

        Raises:
            MonitorError: the workspace cannot be read now, or the last of the failures.
        """
        due = self._waiting.due(_READS_PER_POLL)
        failure: MonitorError | None = None
        refused: set[str | None] = set()  # one read of a plan is enough for all its runs
        for run_id in due:
            shown = self._waiting[run_id]
            try:
                plan = await self._plans.plan_of(
                    _row(run_id, shown), read_again=shown.plan_id not in refused
                )
            except (TryLaterError, UnauthorizedError) as error:
                self._waiting.retry(run_id)
                failure = error
                if not is_about_the_object(error):
                    break
                continue
            if plan is None:
                refused.add(shown.plan_id)
            await self._label(run_id, shown, plan)
        if failure is not None:
            raise failure
        return bool(due)

    async def _label(self, run_id: str, shown: _Shown, plan: Pipeline | None) -> None:
        key = self._context.key(RunKind.PLAN_RUN, run_id)
        state = (await self._context.observer.known((key,))).get(key)
        if state is not None and state.pipeline is None and plan is None:
            self._waiting.retry(run_id)
            return
        observations = []
        if state is not None and state.pipeline is None:
            log.info("plan run labelled", run=str(key), plan=plan.id if plan is not None else None)
            observations = [
                Observation(
                    key=key,
                    source=Source.POLL,
                    observed_at=self._context.clock.now(),
                    pipeline=plan,
                )
            ]
        await self._context.observer.observe(
            observations, state_entries=(self._state_entry(run_id, None),)
        )
        self._waiting.remove(run_id)
        if observations:
            self.retry(shown.plan_id)

    def _state_entry(self, run_id: str, value: bytes | None) -> StateEntry:
        return self._context.state_entry(UNLABELLED, run_id, value)


def _row(run_id: str, shown: _Shown) -> PlanRunRow:
    return PlanRunRow(
        id=run_id, native_status=None, plan_id=shown.plan_id, created_at=shown.created_at
    )
