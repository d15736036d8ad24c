"""Counts the callbacks that should have come and did not.

A consumer of the bus whose position stays before an end until that end has been checked, so a
restart forgets nothing: whether a callback came is written in the run's own state.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import structlog

from monitor.bus.contract import WAITING_CONSUMERS, EventBus, Recorded, Start, Step
from monitor.callbacks.own_tasks import registered_at
from monitor.callbacks.settings import CallbackSettings
from monitor.model.clock import Clock
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import RunKey, RunKind, RunState, Trigger
from monitor.tracking.clock_step import recorded_as_of
from monitor.tracking.live_state import LiveState

log = structlog.get_logger()

_BATCH = 500
_ENDS = (EventType.RUN_SUCCEEDED, EventType.RUN_FAILED)


class MissedCallbackWatch:
    """Checks each ended job group of one workspace once its callback is overdue."""

    def __init__(
        self,
        workspace: str,
        *,
        settings: CallbackSettings,
        bus: EventBus,
        live_state: LiveState,
        clock: Clock,
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._bus = bus
        self._live_state = live_state
        self._clock = clock

    @staticmethod
    def consumer(workspace: str) -> str:
        """Return the name under which the bus keeps the position."""
        return f"{WAITING_CONSUMERS}{workspace}"

    async def run(self) -> None:
        """Judge until cancelled; raises `BusUnavailableError`."""
        consumer = self.consumer(self._workspace)
        position = await self._bus.subscribe(consumer, start=Start.NEWEST)
        while True:
            reached = await self.judge(position)
            if reached == position:
                await self._clock.sleep(self._settings.miss_after_seconds / 4)
            position = reached

    async def judge(self, position: int) -> int:
        """Judge what is overdue after ``position`` and return how far that reached."""
        consumer = self.consumer(self._workspace)
        batch = await self._bus.read(consumer, after=position, limit=_BATCH)
        now, step = self._clock.now(), self._live_state.clock_step
        limit = now - timedelta(seconds=self._settings.miss_after_seconds)
        reached = batch.gap.until if batch.gap is not None else position
        overdue: list[RunState] = []
        for recorded in batch.events:
            if recorded_as_of(now, recorded.event.recorded_at, step) > limit:
                break
            reached = recorded.position
            if (run := self._end(recorded)) is not None:
                overdue.append(run)
        missed = await self._missed(overdue)
        if reached != position:
            await self._bus.advance(Step(consumer=consumer, position=reached), timeout_seconds=10.0)
        # Counted after the step: a step that fails is judged again, and must not count twice.
        if missed:
            known = self._live_state.workspaces[self._workspace]
            self._live_state.update_workspace(
                self._workspace, callbacks_missed=known.callbacks_missed + missed
            )
            log.warning("callbacks missed", workspace=self._workspace, count=missed)
        return reached

    def _end(self, recorded: Recorded) -> RunState | None:
        event = recorded.event
        if (
            isinstance(event, RunEvent)
            and event.workspace == self._workspace
            and event.type in _ENDS
            and event.run.key.kind is RunKind.JOB_GROUP
        ):
            return event.run
        return None

    async def _missed(self, ended: list[RunState]) -> int:
        since = await registered_at(self._bus, self._workspace) if ended else {}
        if not since:
            return 0
        # Read again: callback and parents may have been reported after the end.
        stored = await self._bus.runs([run.key for run in ended])
        suspects = [
            run
            for run in (stored.get(run.key, run) for run in ended)
            if _should_have_come(run, since) and not run.is_called_back
        ]
        outside = await self._outside_plans(suspects)
        flows = {run.key.id: run.pipeline.id for run in suspects if run.pipeline is not None}
        return len(outside - await self._waiting(outside, flows))

    async def _outside_plans(self, runs: list[RunState]) -> set[str]:
        """Return the ids of those whose flow run is not part of a plan run either."""
        keys = {
            run.key: RunKey(self._workspace, RunKind.FLOW_RUN, run.parents.flow_run)
            for run in runs
            if run.parents.flow_run is not None
        }
        flow_runs = await self._bus.runs(list(keys.values())) if keys else {}
        inside = {
            key
            for key, parent in keys.items()
            if parent in flow_runs and _is_child(flow_runs[parent])
        }
        return {run.key.id for run in runs if run.key not in inside}

    async def _waiting(self, run_ids: set[str], flows: Mapping[str, str]) -> set[str]:
        """Return those whose callback came and still waits in the inbox for its run.

        ``flows`` has the flow of each: the task of another one has not called about it.
        """
        waiting: set[str] = set()
        arrivals = await self._bus.inbox(self._workspace, limit=_BATCH)
        while arrivals.callbacks:
            waiting |= {
                callback.run_id
                for callback in arrivals.callbacks
                if callback.kind is RunKind.JOB_GROUP
                and callback.run_id in run_ids
                and callback.task_flow_id in (None, flows.get(callback.run_id))
            }
            if not run_ids - waiting:
                break
            arrivals = await self._bus.inbox(self._workspace, after=arrivals.until, limit=_BATCH)
        return waiting


def _should_have_come(run: RunState, registered: dict[str, datetime]) -> bool:
    """True for a job group outside a plan, created after the task of its flow (workspace time)."""
    if run.pipeline is None or run.created_at is None or _is_child(run):
        return False
    since = registered.get(run.pipeline.id)
    return since is not None and run.created_at > since


def _is_child(run: RunState) -> bool:
    """True inside a plan: there the webhooks of a flow do not fire unless switched on."""
    is_planned = run.ran_for == "plan" or run.trigger is Trigger.PLAN
    return is_planned or run.parents.plan_run is not None
