"""Which plan run a run belongs to, and why a plan run failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.model.events import EventType, RunEvent
from monitor.model.runs import RunKind, RunState
from monitor.polling.settings import PollSettings
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.settings import WorldOptions
from monitor.sandbox.world.records.runs import JobGroup, PlanSnapshotRun
from tests.decisions.followed import ADA, HAND_OVER_SECONDS, Followed, following

ERROR = "column amount is missing"


async def fail_plan_run(it: Followed) -> tuple[PlanSnapshotRun, JobGroup]:
    """Run a plan whose first job group works for a while and fails; return when all is over."""
    plan = next(plan for plan in it.sandbox.world.plans.live() if plan.name == "Sensors")
    it.sandbox.engine.order(
        Order(outcome=Outcome.FAILED, queue_seconds=1.0, work_seconds=120.0, error_message=ERROR)
    )
    run = it.sandbox.engine.start_plan_run(plan, by=ADA)
    await it.pass_time(6 * HAND_OVER_SECONDS)
    assert run.status.is_over
    (group,) = it.sandbox.world.job_groups.live()
    return run, group


async def failed(it: Followed) -> dict[RunKind, RunEvent]:
    """Return the events of failures by kind of run: one of each."""
    events = [event for event in await it.events() if event.type is EventType.RUN_FAILED]
    assert len(events) == len(RunKind)
    return {event.run.key.kind: event for event in events}


async def states(it: Followed, events: dict[RunKind, RunEvent]) -> dict[RunKind, RunState]:
    known = await it.scenario.observer.known([event.run.key for event in events.values()])
    return {key.kind: state for key, state in known.items()}


async def test_parts_are_linked_while_the_plan_runs(tmp_path: Path) -> None:
    """A part that fails names its plan run, and each failure around it names the part.

    Read after the end of the plan run, every failure inside a plan is reported as a flow's.
    """
    async with following(tmp_path) as it:
        run, group = await fail_plan_run(it)
        ends = await failed(it)

        parts = (ends[RunKind.JOB_GROUP].run, ends[RunKind.FLOW_RUN].run)
        assert [part.parents.plan_run for part in parts] == [str(run.id)] * 2
        for kind in (RunKind.FLOW_RUN, RunKind.PLAN_RUN):
            end = ends[kind].run
            assert end.failed_part is not None
            assert (end.failed_part.key.id, end.error) == (str(group.id), ERROR)


async def test_a_record_of_a_plan_that_fills_late(tmp_path: Path) -> None:
    """Named after the end of the plan run only, its parts are linked then, and name the reason.

    Read once at the end, a record that fills a moment later links nothing forever.
    """
    async with following(tmp_path, options=WorldOptions(late_plan_results=True)) as it:
        run, group = await fail_plan_run(it)
        now = await states(it, await failed(it))

        parts = (now[RunKind.JOB_GROUP], now[RunKind.FLOW_RUN])
        assert [part.parents.plan_run for part in parts] == [str(run.id)] * 2
        reason = now[RunKind.PLAN_RUN].failed_part
        assert reason is not None
        assert (reason.key.id, reason.error) == (str(group.id), ERROR)


@pytest.mark.parametrize("requests_per_minute", [20.0, 60.0])
async def test_links_have_a_share_of_the_budget(tmp_path: Path, requests_per_minute: float) -> None:
    """A part is linked before the job records of dozens of ends, which get their share as well.

    In order of arrival, the plan run is known when its part has long failed.
    """
    settings = PollSettings(detail_wait_seconds=0.0, jitter_share=0.0)
    async with Followed(tmp_path, settings=settings, requests_per_minute=requests_per_minute) as it:
        it.begin_unawaited()
        await it.live(60)
        for _ in range(80):
            it.run_job_group()
        await it.live(20)
        plan = next(plan for plan in it.sandbox.world.plans.live() if plan.name == "Sensors")
        it.sandbox.engine.order(Order(outcome=Outcome.COMPLETE, work_seconds=3_000.0))
        run = it.sandbox.engine.start_plan_run(plan, by=ADA)
        await it.live(int(HAND_OVER_SECONDS) + 120)
        active = it.scenario.live_state.active.values()
        linked = [each.run for each in active if each.run.parents.plan_run == str(run.id)]
        assert {each.key.kind for each in linked} == {RunKind.JOB_GROUP, RunKind.FLOW_RUN}
        detailed = [
            recorded.event.id
            for recorded in await it.scenario.bus.events(after=0, limit=10_000)
            if recorded.event.type is EventType.RUN_DETAILED
        ]
        assert len(detailed) >= requests_per_minute / 10
