"""Reads why flow runs and plan runs failed, and when flow runs ended, from their parts.

A failure waits for its parts' job records and links at most ``detail_wait_seconds``, and only where
the budget lets them be read by then; no other end waits. What becomes known later is observed by
itself, with `Source.DETAIL`, until nothing more can come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
import structlog

from monitor.model.due_queue import DueQueue
from monitor.model.ends import run_end
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import (
    EndBasis,
    FailedPart,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
    status_of,
)
from monitor.model.waits import happens_within
from monitor.polling.details.details import Details
from monitor.polling.links.plan_children import PlanChildren
from monitor.polling.links.plan_links import PlanLinks
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll, when_due
from monitor.polling.run_observations import has_ended
from monitor.tracking.status_decision import changes_end
from monitor.workspace.payloads import PlanRunRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_WAITING_AT_MOST = 10_000
_PICKED_UP_RUNS = 2_000  # of each kind
_TRIES_PER_POLL = 100
_BASE_WAIT_SECONDS = 1.0
_GIVEN_UP_SECONDS = 86_400.0
_READ_AT_MOST = 8  # parts of one plan run that failed before their own ends were observed
_KINDS = (RunKind.FLOW_RUN, RunKind.PLAN_RUN)
# Of a job group and the flow run around it, which fail at the same time, the first is the reason.
_SIZES = {RunKind.JOB_GROUP: 0, RunKind.FLOW_RUN: 1, RunKind.PLAN_RUN: 2}


ReadJobGroups = Callable[[Sequence[str]], Awaitable[None]]


@dataclass(slots=True)
class _OpenEnd:
    """An observed end that may become better known."""

    since: float  # monotonic
    is_doubted: bool = False  # a part of it has ended since, or otherwise than was known


class Reasons:
    """Adds to the ends of flow runs and plan runs what their parts show. Reads nothing itself."""

    def __init__(
        self,
        context: PollContext,
        *,
        details: Details,
        plan_children: PlanChildren,
        links: PlanLinks,
    ) -> None:
        self._context = context
        self._details = details
        self._plan_children = plan_children
        self._links = links
        self._open: DueQueue[RunKey, _OpenEnd] = DueQueue(
            context.clock,
            bound=_WAITING_AT_MOST,
            base_seconds=_BASE_WAIT_SECONDS,
            cap_seconds=context.settings.reconcile_seconds,
        )

    def declared(self) -> tuple[Poll, ...]:
        timing = when_due(self._open)
        return (
            Poll(name="reasons", priority=Priority.FAILED_DETAILS, timing=timing, run=self.poll),
        )

    async def load(self) -> None:
        """Resume the incompletely known ends of the last day."""
        for kind in _KINDS:
            runs = await self._context.bus.recent_runs(
                workspaces=[self._context.name], kind=kind, limit=_PICKED_UP_RUNS
            )
            for run in runs:
                is_open = run.status.is_terminal and not _is_explained_wholly(run)
                if is_open and self._is_recent(run):
                    self._wait_for(run.key, after_seconds=0.0)

    def seconds_until_due(self) -> float | None:
        """Return when `poll` has something to do; None where nothing is waited for."""
        return self._open.seconds_until_due()

    async def complete(
        self,
        observations: Sequence[Observation],
        rows: Sequence[PlanRunRow] = (),
        *,
        read_job_groups: ReadJobGroups | None = None,
    ) -> list[Observation]:
        """Return the observations, in their order, ends with what the parts show by then.

        ``rows`` are those of observed plan runs, ``read_job_groups`` reads parts that may have
        ended before them. Returns after at most ``detail_wait_seconds``.
        """
        observed = self._links.apply(observations)
        ended = [run.key for run in observed if has_ended(run.native_status)]
        known = await self._context.observer.known(ended) if ended else {}
        fresh = [
            run
            for run in observed
            if run.key in ended
            # A flow run is read again only where its parts may show another end or reason.
            and (run.key.kind is RunKind.FLOW_RUN or not _is_reported(known.get(run.key), run))
            and not self._is_old(run)
        ]
        failed = [run for run in fresh if status_of(run.native_status) is Status.FAILED]
        can_read = not self._context.is_unproven() and self._context.can_read_in_time(
            Priority.FAILED_DETAILS
        )
        if failed and can_read:
            keys = {run.key.id for run in failed if run.key.kind is RunKind.PLAN_RUN}
            await happens_within(
                self._know_parts(failed, [row for row in rows if row.id in keys], read_job_groups),
                clock=self._context.clock,
                seconds=self._context.settings.detail_wait_seconds,
                name="waiting for the reasons of failures",
            )
        fresh_keys = {run.key for run in fresh}
        return [
            await self._with_parts(run, known.get(run.key)) if run.key in fresh_keys else run
            for run in self._links.apply(observed)
        ]

    def observed(
        self, observations: Sequence[Observation], outcomes: Sequence[ObservationOutcome]
    ) -> None:
        """Look again later at the ends among these, as long as more of them may become known."""
        self.doubt_ends_around(zip(observations, outcomes, strict=True))
        for observation, outcome in zip(observations, outcomes, strict=True):
            is_open = has_ended(observation.native_status) and not observation.is_detail_final
            has_failed = status_of(observation.native_status) is Status.FAILED
            if is_open and (has_failed or outcome is not ObservationOutcome.HISTORICAL):
                self._wait_for(observation.key, after_seconds=_BASE_WAIT_SECONDS)

    def retry_ends_of(self, parts: Iterable[RunState]) -> None:
        """Observe the ends of what these are parts of soon: more of them has become known."""
        for part in parts:
            for kind, run_id in (
                (RunKind.FLOW_RUN, part.parents.flow_run),
                (RunKind.PLAN_RUN, part.parents.plan_run),
            ):
                if run_id is not None and (key := self._context.key(kind, run_id)) in self._open:
                    self._open.schedule(key)

    def doubt_ends_around(self, observed: Iterable[tuple[Observation, ObservationOutcome]]) -> None:
        """Look again at the ends of plan runs with a part that ended, or otherwise than before."""
        for part, outcome in observed:
            plan_run = part.parents.plan_run
            is_news = outcome is ObservationOutcome.CHANGED and has_ended(part.native_status)
            if plan_run is not None and is_news:
                key = self._context.key(RunKind.PLAN_RUN, plan_run)
                self._wait_for(key, after_seconds=_BASE_WAIT_SECONDS)
                if key in self._open:
                    self._open[key].is_doubted = True

    async def poll(self) -> bool:
        """Observe what has become known of ends since. Always return False: it sends no request.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        now = self._context.clock.monotonic()
        chosen = self._open.due(_TRIES_PER_POLL)
        states = await self._context.observer.known(chosen)
        for key in chosen:
            state, end = states.get(key), self._open[key]
            is_known = state is not None and _is_explained_wholly(state) and not end.is_doubted
            if state is None or not state.status.is_terminal or is_known:
                self._open.remove(key)
                continue
            is_over = now - end.since >= _GIVEN_UP_SECONDS
            if await self._observe_again(state, is_over=is_over):
                self._open.remove(key)
            else:
                self._open.retry(key)
        return False

    def may_learn_more(self, end: RunState) -> bool:
        """True where the end is looked at again until all is known of it, or for a day."""
        return not end.historical and self._is_recent(end)

    def _is_recent(self, end: RunState) -> bool:
        oldest = self._context.clock.now() - timedelta(seconds=_GIVEN_UP_SECONDS)
        return end.confirmed_at >= oldest

    async def conclude(self, end: RunState) -> None:
        """Observe what is known of a linked end as the last of it, once its parts are explained.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        parts = await self._context.bus.children(end.key)
        if all(map(_is_explained_wholly, failed_parts(parts))):
            await self._observe_again(end, is_over=True)

    async def _observe_again(self, state: RunState, *, is_over: bool) -> bool:
        """Observe what is known now; True where that was the last of it."""
        bare = Observation(
            key=state.key,
            source=Source.DETAIL,
            observed_at=self._context.clock.now(),
            is_detail_final=is_over,
        )
        observation = await self._with_parts(bare, state)
        is_new = (
            observation.is_detail_final
            or (observation.error or state.error) != state.error
            or observation.failed_part != state.failed_part
            or (observation.finished_at or state.finished_at) != state.finished_at
        )
        if is_new:
            await self._context.observer.observe((observation,))
        return observation.is_detail_final

    async def _know_parts(
        self,
        failed: Sequence[Observation],
        rows: Sequence[PlanRunRow],
        read_job_groups: ReadJobGroups | None,
    ) -> None:
        await self._plan_children.link_ended(rows)
        await self._plan_children.link_failed(
            [run for run in failed if run.key.kind is RunKind.FLOW_RUN]
        )
        for run in failed:
            parts = await self._context.bus.children(run.key)
            if read_job_groups is not None and not failed_parts(parts):
                # Plan runs and job groups are listed apart: the plan run's end may be seen first.
                active = [part.key for part in parts if not part.status.is_terminal]
                groups = [key.id for key in active if key.kind is RunKind.JOB_GROUP]
                await read_job_groups(groups[:_READ_AT_MOST])
                parts = await self._context.bus.children(run.key)
            await self._details.finish([part.key for part in failed_parts(parts)])

    async def _with_parts(self, end: Observation, state: RunState | None) -> Observation:
        """Return the end with its reason, the time that its parts show, and whether that is all."""
        parts = await self._context.bus.children(end.key)
        end = msgspec.structs.replace(end, are_parts_known=True)
        status = status_of(end.native_status) or (state.status if state is not None else None)
        failed = failed_parts(parts) if status is Status.FAILED else []
        hidden = hidden_failures(end.key.kind, parts) if status is Status.SUCCEEDED else []
        if failed:
            reason = as_reason(failed[0])
            end = msgspec.structs.replace(end, error=reason.error, failed_part=reason)
        elif hidden:
            end = msgspec.structs.replace(end, failed_part=as_reason(hidden[0]))
        if end.key.kind is RunKind.PLAN_RUN:
            is_reported = end.finished_at or (state is not None and state.finished_at)
            is_known = bool(is_reported) and (status is not Status.FAILED or _is_explained(failed))
            return msgspec.structs.replace(end, is_detail_final=end.is_detail_final or is_known)
        finished_at = latest_end(parts)
        return msgspec.structs.replace(
            end,
            finished_at=finished_at,
            finished_by=None if finished_at is None else EndBasis.DERIVED,
            approximate=(*end.approximate, *(() if finished_at is None else ("finished_at",))),
            is_detail_final=end.is_detail_final or all(map(_is_explained_wholly, parts)),
        )

    def _is_old(self, end: Observation) -> bool:
        since, ended_at = self._context.followed_since(), end.finished_at or end.updated_at
        return since is not None and ended_at is not None and ended_at < since

    def _wait_for(self, key: RunKey, *, after_seconds: float) -> None:
        if key not in self._open:
            end = _OpenEnd(since=self._context.clock.monotonic())
            self._open.put(key, end, after_seconds=after_seconds, attempts=1)


def _is_reported(known: RunState | None, observation: Observation) -> bool:
    return known is not None and known.status.is_terminal and not changes_end(known, observation)


def _is_explained(failed: Sequence[RunState]) -> bool:
    # Without a failed part: a list that lags may bring it to light hours later.
    return bool(failed) and all(map(_is_explained_wholly, failed))


def _is_explained_wholly(run: RunState) -> bool:
    """True where nothing more will become known. Of an old failure the reason still may."""
    is_unread = run.historical and run.status is Status.FAILED and not run.detailed
    return is_final(run) and not is_unread


def failed_parts(parts: Iterable[RunState]) -> list[RunState]:
    """Return the parts that failed, the one that ended first at the front."""
    failed = [
        (end.at, _SIZES[part.key.kind], part.key.id, part)
        for part in parts
        if part.status is Status.FAILED and (end := run_end(part)) is not None
    ]
    return [part for *_, part in sorted(failed, key=lambda ended: ended[:3])]


def hidden_failures(run: RunKind, parts: Sequence[RunState]) -> list[RunState]:
    """Return the parts that failed inside a run that succeeded, in the order of their ends.

    A job group whose recipe has succeeded later was repeated, and hides nothing. Of a plan these
    are the flow runs in which a part failed: plans may go on after a failure by intention.
    """
    if run is RunKind.PLAN_RUN:
        return [part for part in parts if hides_failure(part)]
    return [part for part in failed_parts(parts) if not _is_repeated(part, parts)]


def hides_failure(run: RunState) -> bool:
    """True where a run is reported as succeeded although a part of it failed."""
    return run.status is Status.SUCCEEDED and run.failed_part is not None


def _is_repeated(failed: RunState, parts: Sequence[RunState]) -> bool:
    end = run_end(failed)
    return any(
        part.status is Status.SUCCEEDED
        and part.recipe is not None
        and failed.recipe is not None
        and part.recipe.id == failed.recipe.id
        and end is not None
        and (other := run_end(part)) is not None
        and other.order > end.order
        for part in parts
    )


def as_reason(part: RunState) -> FailedPart:
    """Return the failed part as the reason of what it is a part of."""
    if part.failed_part is not None:
        return part.failed_part
    named = part.recipe if part.recipe is not None and part.recipe.name else part.pipeline
    return FailedPart(
        key=part.key,
        name=named.name if named is not None else None,
        error=part.error,
        failed_at=part.finished_at,
    )


def is_final(part: RunState) -> bool:
    """True where nothing more of the part will become known."""
    return part.status.is_terminal and (
        part.detailed or part.historical or part.status is Status.LOST
    )


def latest_end(parts: Sequence[RunState]) -> datetime | None:
    """Return when the last part ended; None where one shows no end, which may be the last one."""
    ends = [part.finished_at for part in parts]
    known = [at for at in ends if at is not None]
    return max(known) if known and len(known) == len(ends) else None
