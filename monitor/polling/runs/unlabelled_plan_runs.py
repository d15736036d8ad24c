"""Plan runs that were observed without their plan: it is looked up until it is known.

Durable, so that a restart loses none. The waits grow up to a day, and a run is dropped when the
store has forgotten it: what never becomes readable costs next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.contract import StateEntry, decode_entries
from monitor.model.errors import MonitorError, TryLaterError, UnauthorizedError
from monitor.model.observations import Observation
from monitor.model.runs import Pipeline, RunKind, Source
from monitor.model.waits import backoff_seconds
from monitor.polling.context import PollContext
from monitor.polling.poll_loop.failed_reads import is_about_the_object
from monitor.polling.poll_loop.poll import Poll, WhenDue
from monitor.polling.poll_loop.wake_signal import WakeSignal
from monitor.polling.runs.plans import Plans
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


@dataclass(slots=True)
class _Unlabelled:
    shown: _Shown
    due_at: float  # monotonic
    tries: int = 0


_DECODER = msgspec.json.Decoder(_Shown)


class UnlabelledPlanRuns:
    """Bounded; above the bound a plan run keeps no pipeline."""

    def __init__(self, context: PollContext, *, plans: Plans) -> None:
        self._context = context
        self._plans = plans
        self._waiting: dict[str, _Unlabelled] = {}
        self.wake = WakeSignal(context.clock)

    def declared(self) -> tuple[Poll, ...]:
        timing = WhenDue(seconds_until_due=self.seconds_until_due, wake=self.wake)
        return (
            Poll(
                name="unlabelled_plan_runs", priority=Priority.NAMES, timing=timing, run=self.poll
            ),
        )

    async def load(self) -> None:
        """Read back what was left by an earlier run of the monitor."""
        stored = await self._context.bus.state_entries(self._context.name, UNLABELLED)
        for run_id, shown in decode_entries(stored, _DECODER, topic=UNLABELLED).items():
            self._waiting[run_id] = _Unlabelled(shown, self._context.clock.monotonic())

    def seconds_until_due(self) -> float | None:
        """Return when `poll` has something to do; None where nothing is waited for."""
        due_at = min((run.due_at for run in self._waiting.values()), default=None)
        return None if due_at is None else max(0.0, due_at - self._context.clock.monotonic())

    async def add(self, row: PlanRunRow) -> None:
        """Look up the plan of this run, which was observed without it. Durable on return."""
        if row.id in self._waiting:
            return
        if len(self._waiting) >= _AT_MOST:
            log.warning("plan run stays without its plan", plan_run=row.id, waiting=_AT_MOST)
            return
        shown = _Shown(plan_id=row.plan_id, created_at=row.created_at)
        state_entry = self._state_entry(row.id, msgspec.json.encode(shown))
        await self._context.observer.observe((), state_entries=(state_entry,))
        now = self._context.clock.monotonic()
        self._waiting[row.id] = _Unlabelled(shown, now + _BASE_WAIT_SECONDS)
        self.wake.set()

    def retry(self, plan_id: str | None) -> None:
        """The plan of this id is known now: label all its runs soon."""
        for run in self._waiting.values():
            if plan_id is not None and run.shown.plan_id == plan_id:
                run.due_at = self._context.clock.monotonic()
                self.wake.set()

    async def poll(self) -> bool:
        """Look up the plans of runs that are due; False where there was none.

        Raises:
            MonitorError: the workspace cannot be read now, or the last of the failures.
        """
        now = self._context.clock.monotonic()
        due = sorted(
            (run.due_at, run_id) for run_id, run in self._waiting.items() if run.due_at <= now
        )[:_READS_PER_POLL]
        failure: MonitorError | None = None
        refused: set[str | None] = set()  # one read of a plan is enough for all its runs
        for _, run_id in due:
            run = self._waiting[run_id]
            try:
                plan = await self._plans.plan_of(
                    _row(run_id, run.shown), read_again=run.shown.plan_id not in refused
                )
            except (TryLaterError, UnauthorizedError) as error:
                self._put_back(run)
                failure = error
                if not is_about_the_object(error):
                    break
                continue
            if plan is None:
                refused.add(run.shown.plan_id)
            await self._label(run_id, run, plan)
        if failure is not None:
            raise failure
        return bool(due)

    async def _label(self, run_id: str, run: _Unlabelled, plan: Pipeline | None) -> None:
        key = self._context.key(RunKind.PLAN_RUN, run_id)
        state = (await self._context.observer.known((key,))).get(key)
        if state is not None and state.pipeline is None and plan is None:
            self._put_back(run)
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
        del self._waiting[run_id]
        if observations:
            self.retry(run.shown.plan_id)

    def _put_back(self, run: _Unlabelled) -> None:
        run.tries += 1
        run.due_at = self._context.clock.monotonic() + backoff_seconds(
            run.tries + 1, base_seconds=_BASE_WAIT_SECONDS, cap_seconds=_LONGEST_WAIT_SECONDS
        )

    def _state_entry(self, run_id: str, value: bytes | None) -> StateEntry:
        return self._context.state_entry(UNLABELLED, run_id, value)


def _row(run_id: str, shown: _Shown) -> PlanRunRow:
    return PlanRunRow(
        id=run_id, native_status=None, plan_id=shown.plan_id, created_at=shown.created_at
    )
