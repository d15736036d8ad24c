"""A plan, a flow that it runs, and when their runs fail and are linked to each other."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from monitor.bus.contract import Change
from monitor.model.alerts import AlertState
from monitor.model.events import STATUS_EVENTS, EventType, RunEvent, run_event_id
from monitor.model.live_state import ActiveRun
from monitor.model.runs import (
    FailedPart,
    Parents,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
    Trigger,
)
from tests.alerting.engine_scenario import WORKSPACE, EngineScenario

PLAN = Pipeline(kind=PipelineKind.PLAN, id="70", name="nightly")
FLOW = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")
OTHER = Pipeline(kind=PipelineKind.FLOW, id="8", name="returns")
_CAPABILITIES = frozenset({"follow_flow_runs", "list_plan_runs"})


async def evidence(engine_scenario: EngineScenario) -> list[set[str]]:
    """Return the evidence of each alert that was notified and that still fires."""
    await engine_scenario.round()
    return [
        set(alert.evidence)
        for alert in engine_scenario.engine.snapshot().alerts
        if alert.name == "run_failed" and alert.state is AlertState.FIRING and alert.is_notified
    ]


class Family:
    """One plan run with one flow run inside, whose link is not known at first."""

    def __init__(self, engine_scenario: EngineScenario, number: int = 1) -> None:
        self.engine_scenario = engine_scenario
        now = engine_scenario.clock.now()
        self._began_at = now - timedelta(seconds=20)
        self.plan_run = _run(RunKind.PLAN_RUN, f"p{number}", PLAN, now - timedelta(seconds=60))
        flow_run = _run(RunKind.FLOW_RUN, f"f{number}", FLOW, now - timedelta(seconds=30))
        self.flow_run = msgspec.structs.replace(flow_run, trigger=Trigger.PLAN)
        engine_scenario.live_state.update_workspace(WORKSPACE, capabilities=_CAPABILITIES)

    def _run_of(self, run: RunState) -> RunEvent:
        return RunEvent(
            id=run_event_id(run.key, STATUS_EVENTS[run.status]),
            type=STATUS_EVENTS[run.status],
            run=run,
            before=Status.RUNNING,
            occurred_at=run.finished_at,
            recorded_at=self.engine_scenario.clock.now(),
            observed_by=Source.POLL,
        )

    async def child_ends(self, status: Status = Status.FAILED, *, error: str | None = None) -> None:
        self.flow_run = msgspec.structs.replace(self.flow_run, error=error)
        self.flow_run = await self._ends(self.flow_run, status)

    async def part_of_child_fails(self) -> None:
        """Let a job group inside the flow run fail, which goes on for now."""
        job_group = _run(RunKind.JOB_GROUP, f"j-{self.flow_run.key.id}", FLOW, self._began_at)
        parents = Parents(flow_run=self.flow_run.key.id)
        job_group = msgspec.structs.replace(job_group, parents=parents, trigger=Trigger.PLAN)
        await self._ends(job_group, Status.FAILED)

    async def another_child_fails(self) -> None:
        """Let a run of another flow fail, which is known to be a part of the plan run."""
        run = _run(RunKind.FLOW_RUN, f"o-{self.plan_run.key.id}", OTHER, self._began_at)
        parents = Parents(plan_run=self.plan_run.key.id)
        await self._ends(
            msgspec.structs.replace(run, parents=parents, trigger=Trigger.PLAN), Status.FAILED
        )

    def begin(self) -> None:
        """Let both be known to run."""
        for run in (self.plan_run, self.flow_run):
            self.engine_scenario.live_state.active[run.key] = ActiveRun(
                run=run, confirmed_at=self._began_at, confirmed_by=Source.POLL
            )

    async def plan_ends(self, status: Status = Status.FAILED) -> None:
        self.plan_run = await self._ends(self.plan_run, status)

    async def reason_of_plan(self, error: str, *, part: str) -> None:
        """Let it become known why the plan run failed."""
        failed_part = FailedPart(key=self.flow_run.key, name=part, error=error)
        self.plan_run = msgspec.structs.replace(
            self.plan_run, error=error, failed_part=failed_part, detailed=True
        )
        event = self._run_of(self.plan_run)
        event = msgspec.structs.replace(
            event,
            id=run_event_id(self.plan_run.key, EventType.RUN_DETAILED),
            type=EventType.RUN_DETAILED,
        )
        await self._keep(Change(runs=(self.plan_run,), events=(event,)))

    async def detail_of_child(self) -> None:
        """Let what became known of the flow run after its end be published."""
        event = self._run_of(msgspec.structs.replace(self.flow_run, detailed=True))
        event = msgspec.structs.replace(
            event,
            id=run_event_id(self.flow_run.key, EventType.RUN_DETAILED),
            type=EventType.RUN_DETAILED,
        )
        await self._keep(Change(runs=(event.run,), events=(event,)))

    async def ends(self, run: RunState, status: Status) -> RunState:
        """Let any run end now."""
        return await self._ends(run, status)

    async def seen(self, run: RunState) -> None:
        """Let a run that has ended become known with its end."""
        await self._keep(Change(runs=(run,), events=(self._run_of(run),)))

    async def keep(self, run: RunState) -> None:
        """Let something of a run become known; no event says so."""
        await self._keep(Change(runs=(run,)))

    async def link(self) -> None:
        """Let it become known that the flow run was a part of the plan run; no event says so."""
        parents = Parents(plan_run=self.plan_run.key.id)
        self.flow_run = msgspec.structs.replace(self.flow_run, parents=parents)
        await self._keep(Change(runs=(self.flow_run,)))
        if self.flow_run.key in self.engine_scenario.live_state.active:
            self.begin()

    async def _ends(self, run: RunState, status: Status) -> RunState:
        now = self.engine_scenario.clock.now()
        run = msgspec.structs.replace(run, status=status, finished_at=now)
        self.engine_scenario.live_state.active.pop(run.key, None)
        await self._keep(Change(runs=(run,), events=(self._run_of(run),)))
        return run

    async def _keep(self, change: Change) -> None:
        await self.engine_scenario.bus.commit(change, timeout_seconds=10)


def _run(kind: RunKind, run_id: str, pipeline: Pipeline, created_at: datetime) -> RunState:
    return RunState(
        key=RunKey(WORKSPACE, kind, run_id),
        status=Status.RUNNING,
        created_at=created_at,
        started_at=created_at,
        pipeline=pipeline,
        confirmed_at=created_at,
        confirmed_by=Source.POLL,
    )
