"""Reads of a flow run whose known job groups are over: as few as leave no doubt of its end.

Of those that ended before we followed, first the newest one of each flow, which shows how the flow
is; then all others, the newest first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, RunState, Source, Trigger, status_of
from monitor.polling.flow_runs.derived_ends import UsualParts, summed_up
from monitor.polling.flow_runs.tracked_flow_runs import TrackedFlowRun, Urgency
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.run_observations import has_ended
from monitor.workspace.payloads import JobGroupRow
from monitor.workspace.priority import Priority

_AT_MOST = 1_000  # more are left out until these are read
_NEWEST_AT_ONCE = 12  # then those that were noticed meanwhile have their turn
_OTHERS_AT_ONCE = 4
_UNKNOWN = datetime.fromtimestamp(0, UTC)
_STATUS_READS = 2  # that show a run unfinished before its job groups are read, to wait for them


class OldFlowRun(Struct, frozen=True, kw_only=True, gc=False):
    """What the job groups of a flow run show of it."""

    created_at: datetime
    flow_id: str | None


class OldFlowRuns:
    """Bounded. ``left_out``: when the newest of those was created for which there was no room."""

    def __init__(self) -> None:
        self._unread: dict[str, OldFlowRun] = {}
        self._read_flows: set[str | None] = set()
        self.left_out: datetime | None = None

    def __len__(self) -> int:
        return len(self._unread)

    def has_room(self, groups: Sequence[Observation]) -> bool:
        """True where one more may wait; else the flow run of these job groups is left out."""
        if len(self._unread) < _AT_MOST:
            return True
        created_at = _shown_by(groups).created_at
        self.left_out = max(created_at, self.left_out or created_at)
        return False

    def put(self, flow_run_id: str, groups: Sequence[Observation]) -> None:
        """Keep what these job groups show of a flow run; without any it is not old."""
        if not groups:
            self.forget(flow_run_id)
            return
        shown, known = _shown_by(groups), self._unread.get(flow_run_id)
        if known is None or shown.created_at > known.created_at:
            self._unread[flow_run_id] = shown

    def forget(self, flow_run_id: str) -> None:
        """The flow run was read, was given up, or is not old."""
        run = self._unread.pop(flow_run_id, None)
        if run is not None:
            self._read_flows.add(run.flow_id)

    def newest_of_flows(self) -> frozenset[str]:
        """Return the newest unread flow run of each flow without one that was read."""
        newest: dict[str | None, tuple[datetime, str]] = {}
        for flow_run_id, run in self._unread.items():
            place = run.created_at, flow_run_id
            newest[run.flow_id] = max(place, newest.get(run.flow_id, place))
        unread = (newest[flow_id][1] for flow_id in newest.keys() - self._read_flows)
        return frozenset(unread)

    def in_order(self, flow_run_ids: Iterable[str]) -> list[str]:
        """Return those of them that are to be read next, the most valuable first.

        Those that wait for room in the request budget are never among those that do not.
        """
        ids = list(flow_run_ids)
        newest = self.newest_of_flows().intersection(ids)

        def rank(flow_run_id: str) -> tuple[float, str]:
            run = self._unread.get(flow_run_id)
            return -run.created_at.timestamp() if run is not None else 0.0, flow_run_id

        chosen = sorted(newest or ids, key=rank)
        return chosen[: _NEWEST_AT_ONCE if newest else _OTHERS_AT_ONCE]

    def priority_of(self, flow_run_id: str) -> Priority:
        """Return for what a read of it counts: until the newest is known, its flow is unknown."""
        is_needed = flow_run_id in self.newest_of_flows()
        return Priority.ENDS if is_needed else Priority.INVENTORY

    def newest_unread(self) -> datetime | None:
        """Return when the newest unread one was created; None where all were read."""
        return max((run.created_at for run in self._unread.values()), default=None)


def _shown_by(groups: Sequence[Observation]) -> OldFlowRun:
    created = [group.created_at for group in groups if group.created_at is not None]
    flows = [group.pipeline.id for group in groups if group.pipeline is not None]
    return OldFlowRun(
        created_at=min(created, default=_UNKNOWN), flow_id=flows[0] if flows else None
    )


HandleJobGroups = Callable[[Sequence[JobGroupRow], Source], Awaitable[bool]]


class FlowRunReading(Struct, frozen=True, kw_only=True):
    """What a flow run shows of itself. ``is_over``: its status, and none of its job groups is open.

    ``unfinished`` are job groups of its own list, empty where that was not read. ``parts`` are all
    that are known now. ``is_listed`` False: its own list is to be read when there is room.
    """

    status: str
    is_over: bool
    unfinished: tuple[JobGroupRow, ...]
    parts: tuple[RunState, ...]
    is_listed: bool = True


class FlowRunReader:
    """Reads one flow run: its status, and its record or job groups where these are needed."""

    def __init__(self, context: PollContext, *, usual: UsualParts, old: OldFlowRuns) -> None:
        self._context = context
        self._usual = usual
        self._old = old

    async def read(
        self, key: RunKey, tracked: TrackedFlowRun, handle_job_groups: HandleJobGroups
    ) -> FlowRunReading:
        """Read what is needed; a record that was read is kept in ``tracked``.

        Raises:
            WorkspaceError: it could not be read.
        """
        runs, priority = self._context.client.runs, tracked.urgency.priority
        if tracked.is_old:
            priority = self._old.priority_of(key.id)
        if tracked.row is None and await self._needs_record(key):
            tracked.row = await runs.flow_run(key.id, priority=priority)
        status = await runs.flow_run_status(key.id, priority=priority)
        parts = await self._context.bus.children(key)
        if not has_ended(status):
            self._usual.learn_unfinished(parts)
        can_wait = self._can_wait(tracked, parts, status)
        if can_wait or self._is_enough(tracked, parts, status):
            return FlowRunReading(
                status=status,
                is_over=has_ended(status),
                unfinished=(),
                parts=tuple(parts),
                is_listed=not can_wait,
            )
        page = await runs.flow_run_job_groups(key.id, priority=priority)
        rows = [_of_flow_run(row, key.id) for row in page.rows]
        # Its job groups come first, so that they end before what they are part of.
        are_handled = await handle_job_groups(rows, Source.POLL)
        unfinished = tuple(row for row in rows if not has_ended(row.native_status))
        return FlowRunReading(
            status=status,
            is_over=has_ended(status) and are_handled and not unfinished,
            unfinished=unfinished,
            parts=tuple(await self._context.bus.children(key)),
        )

    async def _needs_record(self, key: RunKey) -> bool:
        """True where nothing that is known shows what started it, its flow, and when."""
        state = (await self._context.observer.known((key,))).get(key)
        # One that is not known yet has its parts' origin: see `with_origin`.
        known = await self._context.bus.children(key) if state is None else [state]
        return not known or any(
            None in (run.pipeline, run.created_at) or run.trigger is Trigger.UNKNOWN
            for run in known
        )

    def _is_enough(self, tracked: TrackedFlowRun, parts: Sequence[RunState], status: str) -> bool:
        """True where the flow run's own list of job groups would hardly show more."""
        if not has_ended(status):
            return tracked.reads < _STATUS_READS
        if summed_up(parts) is not status_of(status):
            return False
        if self._usual.are_known(parts):
            return True
        # A list that a late row cannot lack any more has shown nothing else of an old one.
        return tracked.is_old and self._usual.are_first(parts) and self._are_listed(parts)

    def _can_wait(self, tracked: TrackedFlowRun, parts: Sequence[RunState], status: str) -> bool:
        """True where the budget has no room at once, and the list is likely to show no more."""
        is_likely = summed_up(parts) is status_of(status) and self._usual.are_first(parts)
        if tracked.urgency is not Urgency.NOW or not is_likely:
            return False
        return self._context.client.requester.budget.seconds_until_turn(Priority.ENDS) > 0

    def _are_listed(self, parts: Sequence[RunState]) -> bool:
        """True where all changes were listed so long after these that none is missing."""
        listed = self._context.live_state.complete.get((self._context.name, RunKind.JOB_GROUP))
        written = [part.updated_at for part in parts if part.updated_at is not None]
        if listed is None or len(written) < len(parts):
            return False
        return listed - max(written) >= timedelta(seconds=self._context.settings.overlap_seconds)


def _of_flow_run(row: JobGroupRow, flow_run_id: str) -> JobGroupRow:
    """Add what the list may leave out: that these are the flow run's job groups."""
    return msgspec.structs.replace(row, shows_flow_run=True, flow_run_id=flow_run_id)
