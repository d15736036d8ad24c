"""Counts the callbacks that should have come and did not.

A consumer of the bus whose position stays behind an end until that end has been judged, so a
restart forgets nothing: whether a callback came is written in the run's own state.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from monitor.bus.contract import EventBus, Recorded, Start, Step
from monitor.callbacks.settings import CallbackSettings
from monitor.callbacks.tasks import registered_at
from monitor.model.clock import Clock
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import RunKind, RunState
from monitor.tracking.knowledge import Knowledge

log = structlog.get_logger()

_BATCH = 500
_ENDS = (EventType.RUN_SUCCEEDED, EventType.RUN_FAILED)


class MissWatch:
    """Judges each ended job group of one workspace once its callback is overdue."""

    def __init__(
        self,
        workspace: str,
        *,
        settings: CallbackSettings,
        bus: EventBus,
        knowledge: Knowledge,
        clock: Clock,
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._bus = bus
        self._knowledge = knowledge
        self._clock = clock

    @staticmethod
    def consumer(workspace: str) -> str:
        """Return the name under which the bus keeps the position."""
        return f"misses/{workspace}"

    async def run(self) -> None:
        """Judge until cancelled."""
        consumer = self.consumer(self._workspace)
        position = await self._bus.subscribe(consumer, start=Start.NEWEST)
        while True:
            reached = await self.judge(position)
            if reached == position:
                await self._clock.sleep(self._settings.miss_after_seconds / 4)
            position = reached

    async def judge(self, position: int) -> int:
        """Judge what is overdue behind ``position`` and return how far that reached."""
        consumer = self.consumer(self._workspace)
        batch = await self._bus.read(consumer, after=position, limit=_BATCH)
        limit = self._clock.now() - timedelta(seconds=self._settings.miss_after_seconds)
        reached = batch.gap.until if batch.gap is not None else position
        overdue: list[RunState] = []
        for recorded in batch.events:
            if recorded.event.recorded_at > limit:
                break
            reached = recorded.position
            if (run := self._end(recorded)) is not None:
                overdue.append(run)
        missed = await self._missed(overdue)
        if missed:
            known = self._knowledge.workspaces[self._workspace]
            self._knowledge.update_workspace(
                self._workspace, callbacks_missed=known.callbacks_missed + missed
            )
            log.warning("callbacks did not come", workspace=self._workspace, count=missed)
        if reached != position:
            await self._bus.advance(Step(consumer=consumer, position=reached), timeout_seconds=10.0)
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
        if not ended:
            return 0
        since = await registered_at(self._bus, self._workspace)
        stored = await self._bus.runs([run.key for run in ended])
        return sum(
            1
            for run in ended
            if _should_have_come(run, since) and not stored.get(run.key, run).is_called_back
        )


def _should_have_come(run: RunState, registered: dict[str, datetime]) -> bool:
    """True for a job group outside a plan, created after the task of its flow (workspace time)."""
    if run.pipeline is None or run.created_at is None:
        return False
    if run.parents.plan_run is not None or run.ran_for == "plan":
        return False  # the webhooks of a flow do not fire inside plans unless switched on there
    since = registered.get(run.pipeline.id)
    return since is not None and run.created_at > since
