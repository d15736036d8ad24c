"""Plans with runs whose children are to be linked, and when each plan is to be read.

A plan is read when a part appears that may belong to it, again with growing waits until that part's
end and ``link_wait_seconds`` more, and after the end of each of its runs.

A list may show a run minutes after its end, and a restart forgets what records have named: so parts
may first be observed when nothing is linked to their plan run any more. The plan runs during which
such a part was created are read once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
import structlog

from monitor.model.bounded_memory import BoundedMemory
from monitor.model.due_queue import NEVER, DueQueue
from monitor.model.errors import WorkspaceError
from monitor.model.runs import RunKey, RunKind, RunState
from monitor.model.waits import WakeSignal
from monitor.polling.links.plan_links import UnlinkedPart, part_of
from monitor.polling.links.plans import Plans
from monitor.polling.poll_loop.context import PollContext
from monitor.workspace.payloads import PlanRunRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_PLAN_RUNS_AT_MOST = 1_000
_PARTS_AT_MOST = 10_000
_BASE_WAIT_SECONDS = 2.0
_GIVEN_UP_SECONDS = 86_400.0
_LATE_PARTS_AT_MOST = 1_000
_RECENT_PLAN_RUNS = 200
_READS_AT_MOST = 5  # of plan runs, in one look-up
_REMEMBERED_PLAN_RUNS = 1_000
_STAMP_TOLERANCE = timedelta(seconds=1)  # stamps may be cut to their seconds


@dataclass(slots=True, kw_only=True)
class FollowedPlanRun:
    """A plan run whose children are to be linked."""

    created_at: datetime | None
    ended_at: float | None = None  # monotonic: when we observed the end
    is_named: bool = False  # the record names a child of it


@dataclass(slots=True, kw_only=True)
class FollowedPlan:
    """A plan or snapshot with such plan runs; its record names the children of all of them."""

    flow_ids: frozenset[str] | None  # of its nodes; None: not read yet
    plan_runs: dict[str, FollowedPlanRun] = field(default_factory=dict)
    is_failing: bool = False  # it could not be read last

    def may_contain(self, part: UnlinkedPart) -> bool:
        """True where one of its runs may have started the part."""
        created = [plan_run.created_at for plan_run in self.plan_runs.values()]
        known = [at for at in created if at is not None]
        since = min(known) if known and len(known) == len(created) else None
        return part.may_belong_to(self.flow_ids, since)


class FollowedPlans:
    """Bounded; plans are known by the id that their runs name, which may be a snapshot's."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        # The attempts of a plan are reads in a row that left something open, or that failed.
        self._plans: DueQueue[str, FollowedPlan] = DueQueue(
            context.clock,
            bound=_PLAN_RUNS_AT_MOST,
            base_seconds=_BASE_WAIT_SECONDS,
            cap_seconds=context.settings.reconcile_seconds,
        )
        self._parts: dict[RunKey, UnlinkedPart] = {}
        # Kept with the plans, so that a page of runs costs one look-up for each run.
        self._by_flow: dict[str, list[str]] = {}
        self._without_flows: list[str] = []
        self.wake = self._plans.wake

    def get(self, plan_id: str) -> FollowedPlan | None:
        return self._plans.get(plan_id)

    def due(self, most: int) -> list[str]:
        """Return the plans to be read now, the one that waits longest first."""
        return self._plans.due(most)

    def seconds_until_due(self) -> float | None:
        """Return when the next plan is to be read; None where none is."""
        return self._plans.seconds_until_due()

    def clear(self) -> None:
        self._plans.clear()
        self._parts.clear()
        self._index()

    def add(
        self, plan_run_id: str, *, plan_id: str, flow_ids: Iterable[str] | None, at: datetime | None
    ) -> FollowedPlanRun | None:
        """Follow a plan run that was created ``at``; None where there are too many."""
        plan = self._plans.get(plan_id)
        if plan is not None and plan_run_id in plan.plan_runs:
            return plan.plan_runs[plan_run_id]
        if sum(len(followed.plan_runs) for followed in self._plans.values()) >= _PLAN_RUNS_AT_MOST:
            return None
        if plan is None:
            plan = FollowedPlan(flow_ids=None if flow_ids is None else frozenset(flow_ids))
            self._plans.put(plan_id, plan, after_seconds=NEVER)
            self._index()
        self._end_unseen()
        plan_run = plan.plan_runs[plan_run_id] = FollowedPlanRun(created_at=at)
        return plan_run

    def know_flows(self, plan: FollowedPlan, flow_ids: Iterable[str]) -> bool:
        """Keep the flows of the plan's nodes; True where they were not known."""
        known, plan.flow_ids = plan.flow_ids, frozenset(flow_ids)
        if plan.flow_ids != known:
            self._index()
        return known is None

    def _index(self) -> None:
        self._by_flow = {}
        self._without_flows = []
        for plan_id in self._plans:
            flow_ids = self._plans[plan_id].flow_ids
            if flow_ids is None:
                self._without_flows.append(plan_id)
            for flow_id in flow_ids or ():
                self._by_flow.setdefault(flow_id, []).append(plan_id)

    def _end_unseen(self) -> None:
        """Let go of plan runs whose end no row has shown, as of those that were lost."""
        now, active = self._context.clock.monotonic(), self._context.live_state.active
        for plan_id in self._plans:
            for plan_run_id, plan_run in self._plans[plan_id].plan_runs.items():
                key = self._context.key(RunKind.PLAN_RUN, plan_run_id)
                if plan_run.ended_at is None and key not in active:
                    plan_run.ended_at = now
                    self.read_soon(plan_id)

    def begin_read(self, plan_id: str) -> None:
        """The plan is read now; what `read_soon` requests from here on is another read."""
        self._plans.schedule(plan_id, after_seconds=NEVER)

    def read_soon(self, plan_id: str) -> None:
        """Read the plan as soon as it may be read; nothing where it was dropped meanwhile."""
        plan = self._plans.get(plan_id)
        if plan is None or (plan.is_failing and self._plans.due_at(plan_id) != NEVER):
            return  # what cannot be read waits, whatever appears meanwhile
        if not plan.is_failing:
            self._plans.forgive(plan_id)
        self._plans.schedule(plan_id)

    def notice(self, runs: Iterable[RunState]) -> None:
        """Read the plans soon that may contain these runs, where they are unlinked."""
        now = self._context.clock.monotonic()
        for run in runs:
            part = part_of(run, ended_at=now if run.status.is_terminal else None)
            if part is None or run.historical:
                self._parts.pop(run.key, None)
                continue
            before = self._parts.get(run.key)
            if before is not None and (before.ended_at is None) is (part.ended_at is None):
                continue
            if before is None and len(self._parts) >= _PARTS_AT_MOST:
                continue
            plan_ids = self.around(part)
            if plan_ids:
                self._parts[run.key] = part
            for plan_id in plan_ids:
                self.read_soon(plan_id)

    def is_followed(self, plan_run_id: str) -> bool:
        """True while children of this plan run may still be linked."""
        return any(plan_run_id in plan.plan_runs for plan in self._plans.values())

    def is_noticed(self, key: RunKey) -> bool:
        return key in self._parts

    def link(self, keys: Iterable[RunKey]) -> None:
        """The plan runs of these runs are known now."""
        for key in keys:
            self._parts.pop(key, None)

    def around(self, part: UnlinkedPart | None) -> list[str]:
        """Return the plans whose runs may have started this part."""
        if part is None:
            return []
        plan_ids = [] if part.flow_id is None else self._by_flow.get(part.flow_id, [])
        if part.is_of_a_plan:
            plan_ids = [*plan_ids, *self._without_flows] if part.flow_id else [*self._plans]
        return [plan_id for plan_id in plan_ids if self._plans[plan_id].may_contain(part)]

    def after_read(self, plan_id: str) -> list[str]:
        """Plan the next read; return the plan runs that are complete, which are dropped."""
        plan = self._plans.get(plan_id)
        if plan is None:
            return []
        now, wait = self._context.clock.monotonic(), self._context.settings.link_wait_seconds
        parts_until = max(self._open_parts(plan), default=now)
        if plan.is_failing:
            plan.is_failing = False
            self._plans.forgive(plan_id)
        complete: list[str] = []
        read_until = now
        for plan_run_id, plan_run in plan.plan_runs.items():
            until = NEVER if plan_run.ended_at is None else plan_run.ended_at + wait
            is_shown = plan_run.ended_at is None or plan_run.is_named or not plan.flow_ids
            # After its end the record may lack it still; parts may be of another plan's run.
            until = min(until, parts_until) if is_shown else until
            read_until = max(read_until, until)
            if plan_run.ended_at is not None and until <= now:
                complete.append(plan_run_id)
        for plan_run_id in complete:
            del plan.plan_runs[plan_run_id]
        if not plan.plan_runs:
            self.drop(plan_id)
        elif read_until > now and self._plans.due_at(plan_id) == NEVER:
            self._plans.retry(plan_id, within_seconds=read_until - now)
        return complete

    def _open_parts(self, plan: FollowedPlan) -> list[float]:
        """Return until when each part that the plan may contain is waited for."""
        now, wait = self._context.clock.monotonic(), self._context.settings.link_wait_seconds
        open_until: list[float] = []
        for key, part in list(self._parts.items()):
            if not plan.may_contain(part):
                continue
            ended_at = part.ended_at
            if ended_at is None and key not in self._context.live_state.active:
                ended_at = now
                self._parts[key] = msgspec.structs.replace(part, ended_at=now)
            until = NEVER if ended_at is None else ended_at + wait
            if until <= now:
                del self._parts[key]
            else:
                open_until.append(until)
        return open_until

    def after_failure(self, plan_id: str, reason: str) -> None:
        """Plan the next read of a plan that cannot be read now; after a day it is given up."""
        plan, now = self._plans.get(plan_id), self._context.clock.monotonic()
        if plan is None:
            return
        for plan_run_id, plan_run in list(plan.plan_runs.items()):
            if plan_run.ended_at is not None and now - plan_run.ended_at > _GIVEN_UP_SECONDS:
                log.warning(
                    "linking a plan run's children given up", plan_run=plan_run_id, reason=reason
                )
                del plan.plan_runs[plan_run_id]
        plan.is_failing = True
        self._plans.retry(plan_id)
        if not plan.plan_runs:
            self.drop(plan_id)

    def drop(self, plan_id: str) -> None:
        """Follow the runs of this plan no more."""
        self._plans.remove(plan_id)
        self._index()
        self._parts = {key: part for key, part in self._parts.items() if self.around(part)}


class LateParts:
    """Bounded; a plan run is read for late parts at most once in ``reconcile_seconds``."""

    def __init__(self, context: PollContext, *, plans: Plans, wake: WakeSignal) -> None:
        self._context = context
        self._plans = plans
        self._wake = wake
        self._parts: dict[RunKey, UnlinkedPart] = {}
        self._read_at: BoundedMemory[str, float] = BoundedMemory(_REMEMBERED_PLAN_RUNS)  # monotonic

    def add(self, key: RunKey, part: UnlinkedPart) -> None:
        """Look the part up soon; where there are too many, it stays without its plan run."""
        if len(self._parts) < _LATE_PARTS_AT_MOST:
            self._parts[key] = part
            self._wake.set()

    def seconds_until_due(self) -> float | None:
        """Return when they are to be looked up: at once, None without any."""
        return 0.0 if self._parts else None

    def take_due(self) -> list[UnlinkedPart]:
        """Return the parts and forget them; each is looked up once."""
        parts, self._parts = list(self._parts.values()), {}
        return parts

    async def plan_runs_of(self, parts: Iterable[UnlinkedPart]) -> list[PlanRunRow]:
        """Read the ended plan runs that may have started these parts, as far as can be read."""
        runs = await self._context.bus.recent_runs(
            workspaces=[self._context.name], kind=RunKind.PLAN_RUN, limit=_RECENT_PLAN_RUNS
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
