"""Links the runs that a plan run has started to it, while it runs and for a while after its end.

Only the full record of a plan, or of a snapshot of it, names what a plan run has started; it may be
filled late. `FollowedPlans` says when it is read. One read serves all runs of the plan. What it
names is remembered, so a part that is observed later is linked from its first observation on.

The poll reads what is due. A poll that observes a failure reads at once and waits for that, for a
bounded time. A plan is read by one task at a time; the others wait for that read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence

import msgspec
import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.errors import BusError, MonitorError, TryLaterError, UnauthorizedError
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import RunKey, RunKind, RunState, Source, Status, status_of
from monitor.model.slices import for_each
from monitor.model.waits import WakeSignal
from monitor.polling.links.followed_plans import FollowedPlan, FollowedPlans, LateParts
from monitor.polling.links.plan_links import PlanLinks, UnlinkedPart, linked_to, part_of
from monitor.polling.links.plans import Plans
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll, WhenDue, wait_after_links
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.polling.run_observations import has_ended
from monitor.workspace.payloads import PlanChild, PlanFull, PlanRunRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_REMEMBERED = 10_000
_RECENT_RUNS = 200  # searched for parts when a plan run is first observed
_READS_AT_ONCE = 4
_READS_PER_POLL = 10
_BURST_SECONDS = 30.0  # how far immediate reads may run ahead of their share of the budget


class PlanChildren:
    """Follows plan runs from their first observation until all that they started is linked."""

    def __init__(self, context: PollContext, *, plans: Plans, links: PlanLinks) -> None:
        self._context = context
        self._plans = plans
        self.unknown_plan_run = WakeSignal(context.clock)  # set when a part of one appears
        self._links = links
        self._followed = FollowedPlans(context)
        self._being_read: dict[str, asyncio.Event] = {}
        self._complete: BoundedMemory[str, bool] = BoundedMemory(_REMEMBERED)  # plan runs
        # Plans that are not shown to us, with the monotonic time of that answer.
        self._refused: BoundedMemory[str, float] = BoundedMemory(_REMEMBERED)
        self._paced_until = 0.0  # monotonic
        self._late_parts = LateParts(context, plans=plans, wake=self._followed.wake)

    def declared(self) -> tuple[Poll, ...]:
        timing = WhenDue(seconds_until_due=self.seconds_until_due, wake=self._followed.wake)
        return (Poll(name="plan_children", priority=Priority.LINKS, timing=timing, run=self.poll),)

    def seconds_until_due(self) -> float | None:
        """Return when `poll` has something to do; None where nothing is waited for."""
        waits = self._late_parts.seconds_until_due(), self._followed.seconds_until_due()
        wait = min((wait for wait in waits if wait is not None), default=None)
        if wait is None:
            return None
        return max(wait, self._paced_until - self._context.clock.monotonic())

    async def poll(self) -> bool:
        """Link the children of plans that are due, as far as the API names them.

        A plan that cannot be read is retried with growing waits, for a day, and holds up no other.
        Return False where nothing was due.

        Raises:
            MonitorError: the workspace cannot be read now, or the last of those that failed; the
                children of all others are linked.
        """
        if not self._can_read():
            self._followed.clear()
        await self._follow_again(self._late_parts.take_due())
        due = self._followed.due(_READS_PER_POLL)
        failure: MonitorError | None = None
        for plan_id in due:
            error = await self._try_to_read(plan_id)
            if error is not None and not is_about_the_object(error):
                raise error
            failure = error or failure
        self._spend_share(len(due))
        if failure is not None:
            raise failure
        return bool(due)

    async def follow(self, row: PlanRunRow, outcome: ObservationOutcome) -> None:
        """Link what this plan run has started and will start; it was observed with that outcome."""
        is_over = has_ended(row.native_status)
        is_known_end = is_over and outcome is not ObservationOutcome.CHANGED
        if is_known_end and not self._followed.is_followed(row.id):
            # An old plan run that is observed again costs no read.
            key = self._context.key(RunKind.PLAN_RUN, row.id)
            if await self._context.bus.children(key):
                return
        await self._follow(row, is_over=is_over)

    def must_wait(self, failure: Observation, known: RunState | None) -> bool:
        """True where `link_failed` can name the run's plan run in time for its event."""
        parts = _unlinked_parts(failure, known)
        if not any(self._followed.around(part) or self._is_late(part) for part in parts):
            return False
        is_paced = self._paced_until - self._context.clock.monotonic() >= _BURST_SECONDS
        return not is_paced and self._context.can_read_in_time(Priority.LINKS)

    def is_followed(self, plan_run_id: str) -> bool:
        """True while children of this plan run may still be linked."""
        return self._followed.is_followed(plan_run_id)

    async def is_linked(self, plan_run_id: str) -> bool:
        """True where all is linked that the workspace names of an old plan run.

        Where a restart forgot that, the plan run is read and followed again.

        Raises:
            MonitorError: it cannot be read now.
        """
        if self._complete.get(plan_run_id) is not None or not self._can_read():
            return True
        if self._followed.is_followed(plan_run_id):
            return False
        read = self._context.client.runs.plan_run
        try:
            row = await read(plan_run_id, priority=Priority.INVENTORY)
        except MonitorError as error:
            if not is_about_the_object(error):
                raise
            log.info("old plan run not readable", plan_run=plan_run_id, reason=str(error))
            self._complete.put(plan_run_id, value=True)
            return True
        await self._follow(row, is_over=True)
        return row.plan_id is None or self._refused.get(row.plan_id) is not None

    async def link_ended(self, rows: Sequence[PlanRunRow]) -> None:
        """Read at once what these plan runs have started, which have just ended.

        A cancelled call leaves the rest to the poll.
        """
        for row in rows:
            await self._follow(row, is_over=True)
        await self._read_now({row.plan_id for row in rows if row.plan_id is not None})

    async def link_failed(self, observations: Sequence[Observation]) -> None:
        """Read at once which plan runs have started these runs, where one is likely to have.

        A cancelled call leaves the rest to the poll.
        """
        failed = [
            observation
            for observation in self._links.apply(observations)
            if status_of(observation.native_status) is Status.FAILED
            and observation.parents.plan_run is None
        ]
        known = await self._context.observer.known([run.key for run in failed]) if failed else {}
        parts = [part for run in failed for part in _unlinked_parts(run, known.get(run.key))]
        await self._follow_again([part for part in parts if self._is_late(part)])
        await self._read_now({plan_id for part in parts for plan_id in self._followed.around(part)})

    async def notice(self, observed: Iterable[tuple[Observation, ObservationOutcome]]) -> None:
        """Look up the plan runs of observed runs, which have been committed."""
        keys: list[RunKey] = []
        for observation, outcome in observed:
            part = part_of(observation, ended_at=None)
            is_old = outcome is ObservationOutcome.HISTORICAL
            if part and part.is_of_a_plan and not is_old and not self._followed.around(part):
                self.unknown_plan_run.set()
            if self._followed.is_noticed(observation.key) or self._followed.around(part):
                keys.append(observation.key)
            elif part is not None and self._is_late(part) and has_ended(observation.native_status):
                self._late_parts.add(observation.key, part)
        if keys:
            self._followed.notice((await self._context.observer.known(keys)).values())

    def _is_late(self, part: UnlinkedPart) -> bool:
        if not part.is_of_a_plan or not self._context.can(Capability.LIST_PLAN_RUNS):
            return False
        return self._can_read() and not self._followed.around(part)

    async def _follow_again(self, parts: Sequence[UnlinkedPart]) -> None:
        """Follow again the ended plan runs that may have started these parts, observed late."""
        if not parts:
            return
        for row in await self._late_parts.plan_runs_of(parts):
            self._complete.forget(row.id)
            await self._follow(row, is_over=True)

    def _can_read(self) -> bool:
        # The list of plan runs may be refused meanwhile: what it has shown is linked all the same.
        return self._context.can(Capability.MAP_PLAN_SNAPSHOTS)

    async def _follow(self, row: PlanRunRow, *, is_over: bool) -> None:
        if row.plan_id is None or not self._can_read() or self._complete.get(row.id) is not None:
            return
        refused_at, now = self._refused.get(row.plan_id), self._context.clock.monotonic()
        if refused_at is not None and now - refused_at < self._context.settings.reconcile_seconds:
            return
        before = self._followed.get(row.plan_id)
        is_new = before is None or row.id not in before.plan_runs
        plan_run = self._followed.add(
            row.id,
            plan_id=row.plan_id,
            flow_ids=self._plans.flows_of(row.plan_id),
            at=row.created_at,
        )
        plan = self._followed.get(row.plan_id)
        if plan_run is None or plan is None:
            return
        if is_over and plan_run.ended_at is None:
            plan_run.ended_at = now
            self._followed.read_soon(row.plan_id)
        elif is_new and plan.flow_ids is None:
            self._followed.read_soon(row.plan_id)
        elif is_new:
            await self._search_parts()

    async def _search_parts(self) -> None:
        """Notice parts that were observed before their plan run, as all are after a restart."""
        recent = await self._context.bus.recent_runs(
            workspaces=[self._context.name], kind=RunKind.JOB_GROUP, limit=_RECENT_RUNS
        )
        active = self._context.live_state.active
        keys = self._context.active_keys(RunKind.JOB_GROUP)
        self._followed.notice([*recent, *(active[key].run for key in keys)])

    async def _read_now(self, plan_ids: Iterable[str]) -> None:
        """Read these plans, as far as a burst is allowed; the poll reads the others."""
        allowed: list[str] = []
        for plan_id in sorted(plan_ids)[:_READS_PER_POLL]:
            if self._paced_until - self._context.clock.monotonic() >= _BURST_SECONDS:
                break
            self._spend_share(1)
            allowed.append(plan_id)
        await for_each(
            allowed, self._try_to_read, at_once=_READS_AT_ONCE, name="reading a plan's children"
        )

    def _spend_share(self, reads: int) -> None:
        """Let later reads wait until these fit into their share of the budget."""
        per_minute = self._context.client.settings.requests_per_minute
        began_at = max(self._paced_until, self._context.clock.monotonic())
        self._paced_until = began_at + wait_after_links(per_minute, reads=reads)

    async def _try_to_read(self, plan_id: str) -> MonitorError | None:
        """Read a plan and link what it names, or wait for the task that does; return a failure.

        A cancelled read is made again by the poll.
        """
        if (being_read := self._being_read.get(plan_id)) is not None:
            await being_read.wait()
            return None
        plan = self._followed.get(plan_id)
        if plan is None:
            return None
        self._being_read[plan_id] = asyncio.Event()
        self._followed.begin_read(plan_id)
        try:
            full = await self._read(plan_id)
            await self._plans.learn(plan_id, full)
            await self._link(plan, full)
            for plan_run_id in self._followed.after_read(plan_id):
                self._complete.put(plan_run_id, value=True)
        except (TryLaterError, UnauthorizedError, BusError) as error:
            self._followed.after_failure(plan_id, str(error))
            return error
        except MonitorError as error:
            log.info("plan's children not readable", plan=plan_id, reason=str(error))
            self._refused.put(plan_id, self._context.clock.monotonic())
            self._followed.drop(plan_id)
        except asyncio.CancelledError:
            self._followed.read_soon(plan_id)
            raise
        finally:
            self._being_read.pop(plan_id).set()
        return None

    async def _read(self, plan_id: str) -> PlanFull:
        read = self._context.client.pipelines.plan_full
        full = await read(plan_id, priority=Priority.LINKS)
        if full.children or full.is_snapshot or not full.snapshot_ids:
            return full
        # The run names the plan itself; what its runs did stands in the snapshots.
        newest = max(full.snapshot_ids, key=lambda snapshot_id: (len(snapshot_id), snapshot_id))
        return await read(newest, priority=Priority.LINKS)

    async def _link(self, plan: FollowedPlan, full: PlanFull) -> None:
        are_flows_new = self._followed.know_flows(plan, full.flow_ids)
        parents: dict[RunKey, str] = {}
        for child in full.children:
            if (plan_run := plan.plan_runs.get(child.plan_run_id)) is not None:
                plan_run.is_named = True
                parents[self._child_key(child)] = child.plan_run_id
        known = await self._with_inner_runs(parents)
        for key, plan_run_id in parents.items():
            self._links.put(key, plan_run_id)
        self._followed.link(parents)
        await self._observe_work(set(parents.values()))
        # Only runs that are known already: a child that is not followed must not appear this way.
        unlinked = [key for key, state in known.items() if state.parents.plan_run is None]
        if unlinked:
            await self._context.observer.observe(
                [linked_to(_unchanged(known[key]), parents[key]) for key in unlinked]
            )
        if are_flows_new:
            await self._search_parts()

    async def _observe_work(self, plan_run_ids: Collection[str]) -> None:
        """Let plan runs that seem to wait have begun: the record names what they have started."""
        active = self._context.live_state.active
        keys = [self._context.key(RunKind.PLAN_RUN, run_id) for run_id in sorted(plan_run_ids)]
        waiting = [
            active[key].run
            for key in keys
            if key in active and active[key].run.status is Status.PENDING
        ]
        if waiting:
            await self._context.observer.observe(
                [msgspec.structs.replace(_unchanged(run), has_children=True) for run in waiting]
            )

    async def _with_inner_runs(self, parents: dict[RunKey, str]) -> dict[RunKey, RunState]:
        """Add the known runs around and inside the named ones; return all that are known."""
        known = await self._context.observer.known(list(parents))
        for key, state in known.items():
            if state.parents.plan_run is not None:
                continue
            if key.kind is RunKind.FLOW_RUN:
                for group in await self._context.bus.children(key):
                    parents.setdefault(group.key, parents[key])
            elif (flow_run := state.parents.flow_run) is not None:
                # The flow run between a plan run and a job group belongs to the plan run as well.
                parents.setdefault(self._context.key(RunKind.FLOW_RUN, flow_run), parents[key])
        missing = [key for key in parents if key not in known]
        return {**known, **await self._context.observer.known(missing)} if missing else known

    def _child_key(self, child: PlanChild) -> RunKey:
        if child.job_group_id is not None:
            return self._context.key(RunKind.JOB_GROUP, child.job_group_id)
        return self._context.key(RunKind.FLOW_RUN, child.flow_run_id or "")


def _unlinked_parts(run: Observation, known: RunState | None) -> list[UnlinkedPart]:
    """Return what both show of a run that may be a part of a plan run not known yet."""
    if known is not None and (known.parents.plan_run is not None or known.historical):
        return []
    shown = (part_of(state, ended_at=None) for state in (run, known) if state is not None)
    return [part for part in shown if part is not None]


def _unchanged(run: RunState) -> Observation:
    # The record names the run and shows nothing of its status: what is known grows no fresher.
    return Observation(key=run.key, source=Source.POLL, observed_at=run.confirmed_at)
