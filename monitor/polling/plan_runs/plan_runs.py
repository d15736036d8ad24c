"""Polls plan runs: listed by their last writes, with the times that they report themselves.

One that is observed without its plan is labelled later: see `UnlabelledPlanRuns`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.contract import StateEntry, decode_entries
from monitor.catalogue.capabilities import Capability
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.due_queue import DueQueue
from monitor.model.errors import (
    MonitorError,
    TryLaterError,
    UnauthorizedError,
    WorkspaceError,
)
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import Pipeline, RunKind, Source, Status, status_of
from monitor.polling.links.plan_children import PlanChildren
from monitor.polling.links.plans import PLAN_RUNS, Plans
from monitor.polling.lists.change_list import ChangeList
from monitor.polling.lists.expected_rows import ExpectedRows
from monitor.polling.lists.refetch_queue import RefetchQueue
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import ChangeInterval, Interval, Poll, when_due
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.polling.reasons import ReadJobGroups, Reasons
from monitor.polling.run_observations import has_ended, plan_run_observation
from monitor.workspace.payloads import Page, PlanRunRow, RowHead
from monitor.workspace.priority import Priority

log = structlog.get_logger()

UNLABELLED = "unlabelled_plan_run"  # topic of their state entries
_AT_MOST = 1_000
_READS_PER_POLL = 20
_BASE_WAIT_SECONDS = 30.0
_LONGEST_WAIT_SECONDS = 86_400.0
_REMEMBERED_ROWS = 4_096
_PIECE = 50  # observations; callbacks wait for the commit of one piece


class _Shown(Struct, frozen=True, kw_only=True, gc=False):
    """What a plan run's row shows of its plan."""

    plan_id: str | None
    created_at: datetime | None


_DECODER = msgspec.json.Decoder(_Shown)


class UnlabelledPlanRuns:
    """Plan runs that were observed without their plan: it is looked up until it is known.

    Durable, so that a restart loses none. Waits grow, and a run is dropped when the store has
    forgotten it. Bounded; above the bound a plan run keeps no pipeline.
    """

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
            self._waiting.put(run_id, shown, attempts=1, is_durable=True)

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
        self._waiting.put(
            row.id, shown, after_seconds=_BASE_WAIT_SECONDS, attempts=1, is_durable=True
        )

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


class PlanRuns:
    """Polls plan runs and maps each to its plan."""

    def __init__(
        self,
        context: PollContext,
        *,
        plans: Plans,
        plan_children: PlanChildren,
        reasons: Reasons,
        read_job_groups: ReadJobGroups,
        unlabelled: UnlabelledPlanRuns,
        written: ExpectedRows,
        refetch_queue: RefetchQueue,
    ) -> None:
        self._context = context
        self._plans = plans
        self._plan_children = plan_children
        self._reasons = reasons
        self._read_job_groups = read_job_groups
        self._unlabelled = unlabelled
        self._written = written
        self.list: ChangeList[PlanRunRow] = ChangeList(
            context, PLAN_RUNS, RunKind.PLAN_RUN, written=written, refetch_queue=refetch_queue
        )
        self.watermark = self.list.watermark
        self._tries: BoundedMemory[str, int] = BoundedMemory(_REMEMBERED_ROWS)

    def declared(self, change_interval: ChangeInterval) -> tuple[Poll, ...]:
        return (
            Poll(
                name=PLAN_RUNS,
                priority=Priority.CHANGES,
                timing=Interval(
                    seconds=change_interval.seconds_of_plan_runs, wake=change_interval.plan_runs
                ),
                run=self.poll,
                run_woken=self.poll_newest,
                needs=Capability.LIST_PLAN_RUNS,
                forget=self._written.check.forget,
            ),
        )

    async def poll(self) -> None:
        """Handle every page; the watermark moves when all of them are committed, not before.

        Raises:
            TryLaterError: some rows could not be handled yet, or the list lacks some that must be
                in it; all others are handled.
        """
        asked, theirs = self._context.clock.monotonic(), self._context.workspace_now()
        _require(await self.list.read(self._request, self.handle_page, self._read))
        self._context.live_state.confirm(
            self._context.name,
            RunKind.PLAN_RUN,
            self._context.our_time(asked),
            complete_at=theirs,
        )

    async def poll_newest(self) -> None:
        """Handle what was written since the newest change known; see `Changes.poll_newest`.

        Raises:
            TryLaterError: as `poll`.
        """
        _require(await self.list.read_newest(self._request, self.handle_page, self._read))

    def _request(self, since: datetime) -> AsyncIterator[Page[PlanRunRow]]:
        return self._context.client.runs.plan_runs(
            updated_since=since,
            is_known=self.is_known,
            newest_first=self.list.is_first,
            priority=Priority.CHANGES,
        )

    async def _read(self, plan_run_id: str) -> None:
        """Read one plan run that the list lacks, and observe it."""
        requested_at = self._context.workspace_now()
        row = await self._context.client.runs.plan_run(plan_run_id, priority=Priority.CHANGES)
        await self.handle((row,), Source.POLL, requested_at)

    def is_known(self, head: RowHead) -> bool:
        """True where a row of the list of changes shows an end that was handled."""
        return not self._written.check.is_doubted and self._written.is_over(head)

    async def handle_page(self, page: Page[PlanRunRow], source: Source) -> bool:
        """Handle the rows of a page as `handle` does."""
        return await self.handle(page.rows, source, page.began_at)

    async def handle(
        self,
        rows: Sequence[PlanRunRow],
        source: Source,
        requested_at: datetime | None = None,
    ) -> bool:
        """Observe the rows; False where some lack their plan for now and must be handled again.

        ``requested_at`` is the workspace's time when reading them began.
        """
        self._written.saw(rows)
        # Failures wait for their reasons, and nothing waits for them.
        prompt: list[tuple[PlanRunRow, Observation]] = []
        failed: list[tuple[PlanRunRow, Observation]] = []
        fresh = [row for row in rows if not self._written.is_over(row)]
        for row in fresh:
            observation = await self._try_to_read(row, source, requested_at)
            if observation is not None:
                has_failed = status_of(row.native_status) is Status.FAILED
                (failed if has_failed else prompt).append((row, observation))
        for part in (prompt, failed):
            for start in range(0, len(part), _PIECE):
                await self._observe(part[start : start + _PIECE])
        return len(prompt) + len(failed) == len(fresh)

    async def _observe(self, rows: Sequence[tuple[PlanRunRow, Observation]]) -> None:
        if not rows:
            return
        observations = await self._reasons.complete(
            [observation for _, observation in rows],
            [row for row, _ in rows],
            read_job_groups=self._read_job_groups,
        )
        outcomes = await self._context.observer.observe(observations)
        for (row, _), run, outcome in zip(rows, observations, outcomes, strict=True):
            await self._after(row, run, outcome)
        self._reasons.observed(observations, outcomes)

    async def _after(self, row: PlanRunRow, run: Observation, outcome: ObservationOutcome) -> None:
        if outcome is ObservationOutcome.NO_ROOM:
            return
        is_old = outcome is ObservationOutcome.HISTORICAL
        if not is_old or status_of(row.native_status) is Status.FAILED:
            # Of an old one, too, the parts show why it failed.
            await self._plan_children.follow(row, outcome)
        if not is_old:
            if run.pipeline is None:
                await self._unlabelled.add(row)
            else:
                self._unlabelled.retry(row.plan_id)
        is_believed = outcome is not ObservationOutcome.CONTRADICTED
        self._written.handled(row, is_over=has_ended(row.native_status) and is_believed)

    async def _try_to_read(
        self, row: PlanRunRow, source: Source, requested_at: datetime | None
    ) -> Observation | None:
        try:
            row = await self._whole(row)
            plan = await self._plans.plan_of(row)
        except (TryLaterError, UnauthorizedError) as error:
            tries = (self._tries.get(row.id) or 0) + is_about_the_object(error)
            self._tries.put(row.id, tries)
            if tries < self._context.settings.attempts:
                log.debug("plan of a plan run not readable yet", plan_run=row.id, reason=str(error))
                return None
            plan = None
        return plan_run_observation(
            row,
            workspace=self._context.name,
            source=source,
            observed_at=self._context.clock.now(),
            requested_at=requested_at,
            plan=plan,
        )

    async def _whole(self, row: PlanRunRow) -> PlanRunRow:
        """Return the row with its end; a list may show the status before the time of it."""
        if not has_ended(row.native_status) or row.finished_at is not None:
            return row
        key = self._context.key(RunKind.PLAN_RUN, row.id)
        known = await self._context.observer.known((key,))
        if key in known and known[key].status.is_terminal:
            return row
        try:
            return await self._context.client.runs.plan_run(row.id, priority=Priority.ENDS)
        except (TryLaterError, UnauthorizedError):
            raise
        except WorkspaceError as error:
            log.info("plan run not readable", plan_run=row.id, reason=str(error))
            return row


def _require(is_complete: bool) -> None:  # noqa: FBT001 - what a list of changes returns
    if not is_complete:
        raise TryLaterError("the plans of some plan runs could not be read yet")
