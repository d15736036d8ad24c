"""The progress of reading back: how far runs before the start of following are known."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import structlog

from monitor.bus.contract import decode_entries
from monitor.catalogue.capabilities import Capability
from monitor.model.live_state import HistoryRead
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import RunKind, Source
from monitor.model.waits import WakeSignal
from monitor.polling.flow_runs.flow_runs import FlowRuns
from monitor.polling.job_groups.job_groups import Changes
from monitor.polling.lists.change_list import ChangeList
from monitor.polling.plan_runs.plan_runs import PlanRuns
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll, WhenDue
from monitor.workspace.payloads import JobGroupRow, PlanRunRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

HISTORY = "history"  # topic of its state entry
_KEY = "read"
_SECONDS = 5.0  # between two looks at what has been read
_RESUMED_RUNS = 5_000  # newest job groups, whose flow runs may be unread
_DECODER = msgspec.json.Decoder(HistoryRead)


class History:
    """Shows in live state how far back lists and flow runs are read; durable once all is."""

    def __init__(
        self, context: PollContext, *, changes: Changes, plan_runs: PlanRuns, flow_runs: FlowRuns
    ) -> None:
        self._context = context
        self._lists: dict[Capability, ChangeList[JobGroupRow] | ChangeList[PlanRunRow]] = {
            Capability.LIST_CHANGES: changes.list,
            Capability.LIST_PLAN_RUNS: plan_runs.list,
        }
        self._needs = (*self._lists, Capability.FOLLOW_FLOW_RUNS)
        self._flow_runs = flow_runs
        self._is_over = False
        self._not_found: datetime | None = None  # what was left out since then cannot be found
        self._due_at = 0.0  # monotonic
        self._wake = WakeSignal(context.clock)

    def declared(self) -> tuple[Poll, ...]:
        timing = WhenDue(seconds_until_due=self.seconds_until_due, wake=self._wake)
        return (Poll(name="history", priority=Priority.INVENTORY, timing=timing, run=self.poll),)

    async def load(self) -> None:
        """Resume what an earlier run of the monitor had not read to its end."""
        entries = await self._context.bus.state_entries(self._context.name, HISTORY)
        self._is_over = bool(decode_entries(entries, _DECODER, topic=HISTORY))
        if not self._is_over:
            await self._resume_flow_runs()
            self._show(self._read())

    async def _resume_left_out(self) -> None:
        """Let those have their turn for which there was no room beside newer ones."""
        old = self._flow_runs.old
        left_out = old.left_out
        if (
            old
            or left_out in (None, self._not_found)
            or self._lists[Capability.LIST_CHANGES].is_first
        ):
            return
        old.left_out = None
        await self._resume_flow_runs()
        if not old:
            old.left_out = self._not_found = left_out

    async def _resume_flow_runs(self) -> None:
        """Let old flow runs be read that are known by their job groups alone."""
        runs = await self._context.bus.recent_runs(
            workspaces=[self._context.name], kind=RunKind.JOB_GROUP, limit=_RESUMED_RUNS
        )
        observed = [
            Observation(
                key=run.key,
                source=Source.RECONCILIATION,
                observed_at=run.confirmed_at,
                native_status=run.native_status,
                created_at=run.created_at,
                pipeline=run.pipeline,
                parents=run.parents,
                trigger=run.trigger,
            )
            for run in runs
            if run.historical and run.parents.flow_run is not None
        ]
        await self._flow_runs.notice([(run, ObservationOutcome.HISTORICAL) for run in observed])

    def seconds_until_due(self) -> float | None:
        """Return when `poll` has something to do; None where all is read."""
        if self._is_over:
            return None
        return max(0.0, self._due_at - self._context.clock.monotonic())

    async def poll(self) -> bool:
        """Show what is read by now. Always return False: it sends no request.

        Raises:
            BusUnavailableError: all is read, and the store does not answer.
        """
        self._due_at = self._context.clock.monotonic() + _SECONDS
        await self._resume_left_out()
        read = self._read()
        if read.is_over:
            entry = self._context.state_entry(HISTORY, _KEY, msgspec.json.encode(read))
            await self._context.observer.observe((), state_entries=(entry,))
            self._is_over = True
            log.info("history read", workspace=self._context.name, back_to=str(read.reached))
        self._show(read)
        return False

    def _show(self, read: HistoryRead) -> None:
        self._context.live_state.update_workspace(self._context.name, history=read)

    def _read(self) -> HistoryRead:
        now, old = self._context.workspace_now(), self._flow_runs.old
        until = self._context.followed_since() or now
        since = until - timedelta(seconds=self._context.settings.first_look_seconds)
        lists = [known for need, known in self._lists.items() if self._context.can(need)]
        unread: list[datetime | None] = [old.newest_unread(), old.left_out]
        unread += [known.reached or now for known in lists if known.is_first]
        reached = max((at for at in unread if at is not None), default=since)
        return HistoryRead(
            since=since,
            until=until,
            reached=min(max(reached, since), until),
            # What is refused for now, or could not be tried yet, is not read either.
            is_over=not old
            and not any(known.is_first for known in lists)
            and not any(map(self._context.is_refused, self._needs)),
        )
