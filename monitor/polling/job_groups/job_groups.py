"""Job groups: polls those that were written since, and handles every row of one.

A row is filtered, enriched and observed, and what follows from it is queued.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import MonitorError, TryLaterError
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import Pipeline, RunKind, RunState, Source, Status, status_of
from monitor.model.slices import for_each
from monitor.polling.details.details import Details
from monitor.polling.job_groups.enrichment import Enrichment, RecipeNames
from monitor.polling.links.plan_children import PlanChildren
from monitor.polling.links.plan_links import PlanLinks
from monitor.polling.lists.change_list import ChangeList
from monitor.polling.lists.expected_rows import ExpectedRows
from monitor.polling.lists.refetch_queue import RefetchQueue
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import ChangeInterval, Interval, Poll
from monitor.polling.run_observations import (
    Observed,
    has_ended,
    is_news_of_a_failure,
    job_group_observation,
)
from monitor.workspace.payloads import JobGroupRow, Page, RowHead
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_KIND = RunKind.JOB_GROUP
_READS_AT_ONCE = 4
_PIECE = 50  # observations; each takes about 50 microseconds, and callbacks wait for the commit
CHANGES = "changes"


# Learns about the flow runs of observed job groups, which have been committed.
NoticeJobGroups = Callable[[Sequence[Observed]], Awaitable[None]]


class JobGroups:
    """Handles rows of job groups, from whatever list or read they come."""

    def __init__(
        self,
        context: PollContext,
        *,
        recipes: RecipeNames,
        enrichment: Enrichment,
        details: Details,
        plan_children: PlanChildren,
        links: PlanLinks,
        written: ExpectedRows,
        refetch_queue: RefetchQueue,
        notice_flow_runs: NoticeJobGroups,
    ) -> None:
        self._context = context
        self._recipes = recipes
        self._enrichment = enrichment
        self._details = details
        self._plan_children = plan_children
        self._links = links
        self._written = written
        self._refetch_queue = refetch_queue
        self._notice_flow_runs = notice_flow_runs

    def is_followed(self, row: JobGroupRow) -> bool:
        """False for what is no pipeline's run, such as a sample; None counts as a recipe's run."""
        return row.ran_for is None or row.ran_for in self._context.settings.ranfor

    def is_known(self, head: RowHead) -> bool:
        """True where a row of the list of changes shows what it had shown when it was handled.

        That of an active run still shows that it goes on: see `handle_page`.
        """
        if self._written.check.is_doubted or not self._written.is_handled(head):
            return False
        return self._written.is_over(head) or self._active(head) is not None

    def _active(self, head: RowHead) -> RunState | None:
        active = self._context.live_state.active.get(self._context.key(_KIND, head.id))
        if active is None or active.run.native_status != head.native_status:
            return None
        return active.run

    async def handle_page(self, page: Page[JobGroupRow], source: Source) -> bool:
        """Handle the rows of a page as `handle` does; its known ones confirm active runs."""
        confirmed = [(head, run) for head in page.known if (run := self._active(head)) is not None]
        await self._observe(
            [self._still_active(head, run, source, page.began_at) for head, run in confirmed]
        )
        return await self.handle(page.rows, source, page.began_at)

    async def handle(
        self,
        rows: Sequence[JobGroupRow],
        source: Source,
        requested_at: datetime | None = None,
    ) -> bool:
        """Observe the rows and what they show of flow runs. Durable on return.

        ``requested_at`` is the workspace's time when reading them began.

        Return False where some rows are incomplete and could not be read by id now: they must be
        handled again.
        """
        self._written.saw(rows)
        fresh = [row for row in rows if not self._written.is_over(row)]
        completed = await self._enrichment.complete(self._followed(fresh, source))
        followed = self._followed(completed.rows, source)
        await self._observe_all([self._observation(row, source, requested_at) for row in followed])
        for row in followed:
            is_over = has_ended(row.native_status)
            if is_over or not self._enrichment.is_lacking(row):
                self._written.handled(row, is_over=is_over)
        return not completed.unread

    async def _observe_all(self, observations: Sequence[Observation]) -> None:
        """Observe at once what need not wait, and failures with what came in time."""
        ended = [run.key for run in observations if has_ended(run.native_status)]
        known = await self._context.observer.known(ended) if ended else {}
        prompt: list[Observation] = []
        waiting: list[Observation] = []
        for run in self._links.apply(observations):
            must_wait = self.must_wait(run, known.get(run.key), ahead=len(waiting))
            (waiting if must_wait else prompt).append(run)
        await self._observe(self._details.without_waiting(prompt, known))
        try:
            if waiting:
                await self._observe(await self.complete(waiting))
        finally:
            # After the failures. What the refetch queue holds is read there with its records.
            later = [run for run in prompt if run.key not in self._refetch_queue]
            self._details.request(later, known)

    def must_wait(
        self, observation: Observation, known: RunState | None, *, ahead: int = 0
    ) -> bool:
        """True where `complete` can add to the event of this failure in time; no other end waits.

        ``ahead``: so many other failures wait and are not queued yet.
        """
        if not is_news_of_a_failure(observation, known):
            return False
        (linked,) = self._links.apply((observation,))
        return self._details.must_wait(linked, known, ahead=ahead) or self._plan_children.must_wait(
            linked, known
        )

    async def complete(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations, in their order, with what is known of their plan runs.

        Failures carry the job records and the plan runs that came in time: within
        ``detail_wait_seconds``. What comes later is observed by itself.
        """
        failed = [run for run in observations if status_of(run.native_status) is Status.FAILED]
        known = await self._context.observer.known([run.key for run in failed]) if failed else {}
        linkable = [
            run
            for run in self._links.apply(failed)
            if is_news_of_a_failure(run, known.get(run.key))
            and self._plan_children.must_wait(run, known.get(run.key))
        ]

        async def link() -> None:
            await self._plan_children.link_failed(linkable)

        meanwhile = link if linkable else None
        return self._links.apply(await self._details.complete(observations, meanwhile=meanwhile))

    async def handle_read(
        self, row: JobGroupRow, source: Source, requested_at: datetime | None
    ) -> bool:
        """Observe a row that was read by its id; False where its kind of run is not followed."""
        self._enrichment.remember(row)
        await self.handle((row,), source, requested_at)
        return self.is_followed(row)

    async def read_ended(self, job_group_ids: Sequence[str]) -> None:
        """Read job groups that are likely to have ended, and observe them.

        Those that cannot be read now, and those of a cancelled call, come with the next poll.
        """

        async def read(job_group_id: str) -> None:
            requested_at = self._context.workspace_now()
            try:
                row = await self._context.client.runs.job_group(
                    job_group_id, with_flow=True, priority=Priority.ENDS
                )
                await self.handle_read(row, Source.POLL, requested_at)
            except MonitorError as error:
                log.info("job group not readable", job_group=job_group_id, reason=str(error))

        await for_each(
            job_group_ids, read, at_once=_READS_AT_ONCE, name="reading a part of a plan run"
        )

    async def handle_queued(self, row: JobGroupRow, *, is_last: bool) -> None:
        """Observe a row of the refetch queue with job records and plan run, however long they take.

        ``is_last``: the job records will not be read again.

        Raises:
            WorkspaceError: the job records cannot be read; they may be later.
        """
        self._enrichment.remember(row)
        if not self.is_followed(row):
            self._context.observer.counts.ignore(Source.RECONCILIATION)
            return
        observation = self._observation(row, Source.RECONCILIATION)
        if has_ended(row.native_status):
            observation = await self._details.complete_now(observation, is_last=is_last)
            await self._plan_children.link_failed((observation,))
        await self._observe(self._links.apply((observation,)))

    async def observe_end(self, end: Observation) -> None:
        """Observe an end that no row has shown."""
        await self._observe(self._links.apply((end,)))

    async def _observe(self, observations: Sequence[Observation]) -> None:
        """Observe in pieces: between two of them, callbacks that wait have their turn."""
        for start in range(0, max(1, len(observations)), _PIECE):
            await self._observe_piece(observations[start : start + _PIECE])

    async def _observe_piece(self, observations: Sequence[Observation]) -> None:
        state_entries = self._recipes.unwritten()
        if not observations and not state_entries:
            return
        outcomes = await self._context.observer.observe(observations, state_entries=state_entries)
        self._recipes.written(state_entries)
        observed: list[Observed] = list(zip(observations, outcomes, strict=True))
        undated = [
            observation.key
            for observation, outcome in observed
            if outcome is ObservationOutcome.NEEDS_DETAIL
        ]
        await self._refetch_queue.add(undated)
        for observation, outcome in observed:
            if outcome is ObservationOutcome.CONTRADICTED:
                self._written.forget(observation.key.id)  # what it shows is to be handled again
        await self._notice_flow_runs(observed)
        await self._plan_children.notice(observed)

    def _followed(self, rows: Sequence[JobGroupRow], source: Source) -> list[JobGroupRow]:
        followed = [row for row in rows if self.is_followed(row)]
        for row in rows:
            if not self.is_followed(row):
                self._context.observer.counts.ignore(source)
                self._written.handled(row, is_over=True)
        return followed

    def _still_active(
        self, head: RowHead, run: RunState, source: Source, requested_at: datetime | None
    ) -> Observation:
        """Return what the head of a known row shows, with what is known of its run."""
        flow = run.pipeline
        return Observation(
            key=run.key,
            source=source,
            observed_at=self._context.clock.now(),
            requested_at=requested_at,
            native_status=head.native_status,
            created_at=run.created_at,
            updated_at=head.updated_at,
            # Without its name: another one may be known by now.
            pipeline=None if flow is None else Pipeline(kind=flow.kind, id=flow.id, name=None),
            parents=run.parents,
            trigger=run.trigger,
            ran_for=run.ran_for,
        )

    def _observation(
        self, row: JobGroupRow, source: Source, requested_at: datetime | None = None
    ) -> Observation:
        context = self._context
        return job_group_observation(
            row,
            workspace=context.name,
            source=source,
            observed_at=context.clock.now(),
            requested_at=requested_at,
            page_url=context.page_url,
            flow=self._recipes.flow_of(row),
        )


# Confirms flow runs by a whole list of changes; takes when it was requested, our time and theirs.
ConfirmFlowRuns = Callable[[datetime, datetime], None]


class Changes:
    """Polls the job groups that were written since the watermark less the overlap."""

    def __init__(
        self,
        context: PollContext,
        *,
        job_groups: JobGroups,
        confirm_flow_runs: ConfirmFlowRuns,
        written: ExpectedRows,
        refetch_queue: RefetchQueue,
    ) -> None:
        self._context = context
        self._job_groups = job_groups
        self._confirm_flow_runs = confirm_flow_runs
        self._written = written
        self.list: ChangeList[JobGroupRow] = ChangeList(
            context, CHANGES, RunKind.JOB_GROUP, written=written, refetch_queue=refetch_queue
        )
        self.watermark = self.list.watermark

    def declared(self, change_interval: ChangeInterval) -> tuple[Poll, ...]:
        return (
            Poll(
                name=CHANGES,
                priority=Priority.CHANGES,
                timing=Interval(seconds=change_interval.seconds, wake=change_interval.job_groups),
                run=self.poll,
                run_woken=self.poll_newest,
                needs=Capability.LIST_CHANGES,
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
        _require(await self.list.read(self._request, self._job_groups.handle_page, self._read))
        asked_at = self._context.our_time(asked)
        self._context.live_state.confirm(
            self._context.name, RunKind.JOB_GROUP, asked_at, complete_at=theirs
        )
        self._confirm_flow_runs(asked_at, theirs)

    async def poll_newest(self) -> None:
        """Handle what was written since the newest change known: the news of a callback.

        It shows nothing of what may appear later, so nothing counts as confirmed by it.

        Raises:
            TryLaterError: as `poll`.
        """
        _require(
            await self.list.read_newest(self._request, self._job_groups.handle_page, self._read)
        )

    def _request(self, since: datetime) -> AsyncIterator[Page[JobGroupRow]]:
        return self._context.client.runs.job_library(
            updated_since=since,
            is_known=self._job_groups.is_known,
            newest_first=self.list.is_first,
            priority=Priority.CHANGES,
        )

    async def _read(self, job_group_id: str) -> None:
        """Read one job group that the list lacks, and observe it."""
        requested_at = self._context.workspace_now()
        row = await self._context.client.runs.job_group(
            job_group_id, with_flow=True, priority=Priority.CHANGES
        )
        await self._job_groups.handle_read(row, Source.POLL, requested_at)


def _require(is_complete: bool) -> None:  # noqa: FBT001 - what a list of changes returns
    if not is_complete:
        raise TryLaterError("some job groups could not be read by their ids yet")
