"""How plan runs go in the sandbox, and what a snapshot is."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from monitor.sandbox.callbacks.deliveries import Deliveries
from monitor.sandbox.running.engine import NothingToRunError
from monitor.sandbox.settings import DeliverySettings, WorldOptions
from monitor.sandbox.world.records.objects import HttpTask, Plan, PlanNode
from monitor.sandbox.world.records.runs import (
    FlowRun,
    NativeStatus,
    PlanSnapshotRun,
    RanFor,
    RanFrom,
)
from tests.sandbox.bench import ANYBODY, Bench, advance_until, running, sending

CREATED, IN_PROGRESS, COMPLETE, FAILED, CANCELED = (
    nativestatu.value for nativestatu in NativeStatus
)


def flow_runs_of(bench: Bench, plan_run: PlanSnapshotRun) -> list[FlowRun]:
    return [run for run in bench.world.flow_runs if run.plan_run_id == plan_run.id]


async def test_a_plan_runs_its_flows_along_the_edges() -> None:
    """The second flow starts when the first has ended well; all are children of the plan run."""
    async with running() as bench:
        plan = bench.plan(bench.flow(()), bench.flow(()), edges=((0, 1, "success"),))
        plan_run = bench.engine.start_plan_run(plan, by=ANYBODY, ran_from=RanFrom.API)
        await bench.clock.advance(20)
        assert len(flow_runs_of(bench, plan_run)) == 1
        await bench.clock.advance(100)
        first, second = flow_runs_of(bench, plan_run)
        assert second.created_at > first.updated_at
        assert bench.path("plan_run", plan_run.id) == [CREATED, IN_PROGRESS, COMPLETE]
        job_groups = [
            job_group for run in (first, second) for job_group in bench.world.job_groups_of(run)
        ]
        assert {job_group.plan_run_id for job_group in job_groups} == {plan_run.id}
        assert {(job_group.ran_for, job_group.ran_from) for job_group in job_groups} == {
            (RanFor.PLAN, RanFrom.API)
        }
        assert [run.flow_run_id for run in bench.world.task_runs_of(plan_run.id)] == [
            first.id,
            second.id,
        ]


async def test_a_plan_run_stamps_its_course() -> None:
    """Submission, start and end are those of its transitions."""
    async with running() as bench:
        plan_run = bench.engine.start_plan_run(bench.plan(bench.flow(())), by=ANYBODY)
        await bench.clock.advance(100)
        submitted, started, finished = (
            transition.at for transition in bench.ledger.transitions("plan_run", plan_run.id)
        )
        assert plan_run.submitted_at == submitted
        assert plan_run.started_at == started
        assert plan_run.finished_at == plan_run.updated_at == finished


@pytest.mark.parametrize(
    ("rule", "fails", "runs"),
    [
        ("success", False, 2),
        ("success", True, 1),
        ("failure", False, 1),
        ("failure", True, 2),
        ("always", False, 2),
        ("always", True, 2),
    ],
)
async def test_an_edge_is_followed_by_its_rule(rule: str, *, fails: bool, runs: int) -> None:
    """The end of the node in front decides the rule; any failed node fails the plan."""
    async with running() as bench:
        first = bench.flow(())
        plan = bench.plan(first, bench.flow(()), edges=((0, 1, rule),))
        if fails:
            bench.fail(first)
        plan_run = bench.engine.start_plan_run(plan, by=ANYBODY)
        await bench.clock.advance(200)
        assert len(flow_runs_of(bench, plan_run)) == runs
        assert plan_run.status.value == (FAILED if fails else COMPLETE)


async def test_a_node_waits_for_all_that_lead_to_it() -> None:
    """With one of two conditions unmet it never runs, and neither does what follows it."""
    async with running() as bench:
        good, bad, joined, last = (bench.flow(()) for _ in range(4))
        edges = ((0, 2, "success"), (1, 2, "success"), (2, 3, "always"))
        plan = bench.plan(good, bad, joined, last, edges=edges)
        bench.fail(bad)
        plan_run = bench.engine.start_plan_run(plan, by=ANYBODY)
        await bench.clock.advance(200)
        assert [run.flow_id for run in flow_runs_of(bench, plan_run)] == [good.id, bad.id]
        assert plan_run.status is NativeStatus.FAILED


async def test_canceling_a_plan_run_cancels_what_it_runs() -> None:
    """The plan run is over at once, its flow run follows, nothing new starts."""
    async with running() as bench:
        plan = bench.plan(bench.flow((), (0,)), bench.flow(()), edges=((0, 1, "always"),))
        plan_run = bench.engine.start_plan_run(plan, by=ANYBODY)
        await bench.clock.advance(10)
        bench.engine.cancel_plan_run(plan_run, by=ANYBODY)
        bench.engine.cancel_plan_run(plan_run, by=ANYBODY)
        await bench.clock.advance(200)
        assert bench.path("plan_run", plan_run.id) == [CREATED, IN_PROGRESS, CANCELED]
        (flow_run,) = flow_runs_of(bench, plan_run)
        assert bench.path("flow_run", flow_run.id) == [CREATED, IN_PROGRESS, CANCELED]
        assert not plan_run.failed_to_cancel_some_jobs
        assert bench.ledger.active() == set()


async def test_a_cancel_may_fail_to_reach_the_jobs() -> None:
    """With that fault the job groups work on, and the plan run shows that some were missed."""
    async with running(options=WorldOptions(cancels_fail=True)) as bench:
        plan_run = bench.engine.start_plan_run(bench.plan(bench.flow(())), by=ANYBODY)
        await bench.clock.advance(10)
        bench.engine.cancel_plan_run(plan_run)
        await bench.clock.advance(200)
        assert plan_run.failed_to_cancel_some_jobs
        assert bench.ledger.results()["job_group"]["succeeded"] == 1


async def test_a_plan_run_names_the_snapshot_of_its_plan() -> None:
    """The id that it shows is no plan's id, and leads back to the plan."""
    async with running() as bench:
        plan = bench.plan(bench.flow(()))
        plan_run = bench.engine.start_plan_run(plan, by=ANYBODY)
        shown = bench.world.plan_id_shown(plan_run)
        assert bench.world.plans.get(shown) is None
        snapshot = bench.world.plan_snapshots.get(shown)
        assert snapshot is not None
        assert snapshot.original_plan_id == plan.id
        bench.world.options.plan_runs_name_plans = True
        assert bench.world.plan_id_shown(plan_run) == plan.id


async def test_a_snapshot_lasts_until_the_plan_is_edited() -> None:
    """Equal plans share one; a renamed plan, a new node and the option make another."""
    async with running() as bench:
        plan = bench.plan(bench.flow(()), bench.flow(()))
        first, second = (bench.engine.start_plan_run(plan, by=ANYBODY) for _ in range(2))
        assert first.snapshot_id == second.snapshot_id
        await bench.clock.advance(1)
        bench.world.update(plan, name="renamed")
        third = bench.engine.start_plan_run(plan, by=ANYBODY)
        bench.world.delete(bench.world.nodes_of(plan.id)[0])
        fourth = bench.engine.start_plan_run(plan, by=ANYBODY)
        bench.world.options.snapshot_every_plan_run = True
        fifth = bench.engine.start_plan_run(plan, by=ANYBODY)
        ids = [item.snapshot_id for item in (second, third, fourth, fifth)]
        assert len(set(ids)) == 4


async def test_runs_of_a_plan_know_their_neighbours() -> None:
    """Each run names the one before and the one after it, over snapshots."""
    async with running() as bench:
        plan = bench.plan(bench.flow(()))
        first, second = (bench.engine.start_plan_run(plan, by=ANYBODY) for _ in range(2))
        assert (first.previous_run_id, first.next_run_id) == (None, second.id)
        assert (second.previous_run_id, second.next_run_id) == (first.id, None)


async def test_a_plan_that_lost_a_flow_cannot_run() -> None:
    """Neither can a plan without nodes; nothing is made."""
    async with running() as bench:
        flow = bench.flow(())
        plan, empty = bench.plan(flow), bench.plan()
        bench.world.delete(flow)
        for item in (plan, empty):
            with pytest.raises(NothingToRunError):
                bench.engine.start_plan_run(item, by=ANYBODY)
        assert bench.ledger.transitions() == []


async def test_deleting_an_active_plan_run_ends_its_course() -> None:
    """It is lost; the flow run that it had begun ends by itself and nothing follows it."""
    async with running() as bench:
        plan = bench.plan(bench.flow(()), bench.flow(()), edges=((0, 1, "always"),))
        plan_run = bench.engine.start_plan_run(plan, by=ANYBODY)
        await bench.clock.advance(10)
        bench.engine.delete_run(plan_run)
        await bench.clock.advance(200)
        assert bench.path("plan_run", plan_run.id) == [CREATED, IN_PROGRESS, "Deleted"]
        assert [run.status.value for run in flow_runs_of(bench, plan_run)] == [COMPLETE]


def add_request(bench: Bench, plan: Plan, url: str) -> PlanNode:
    return bench.world.create(
        PlanNode,
        by=ANYBODY,
        plan_id=plan.id,
        handle="http",
        name="Send HTTP request",
        task_type="http",
        http_task=HttpTask(
            url=url, body='{"plan_run_id": "{{$plan.runId}}", "plan": "{{$plan.name}}"}'
        ),
    )


async def test_a_plans_request_carries_the_run_and_is_retried() -> None:
    """The request is really sent, names the plan run, and 503 is tried again until it is 2xx."""
    received: list[dict[str, str]] = []

    async def receive(request: web.Request) -> web.Response:
        received.append(await request.json())
        return web.Response(status=503 if len(received) == 1 else 204)

    app = web.Application()
    app.router.add_post("/", receive)
    async with TestServer(app) as server, running() as bench:
        deliveries = Deliveries(bench.world, DeliverySettings())
        bench.engine.send_plan_requests_by(deliveries.send_plan_request)
        plan = bench.plan()
        add_request(bench, plan, str(server.make_url("/")))
        async with sending(deliveries):
            plan_run = bench.engine.start_plan_run(plan, by=ANYBODY)
            await advance_until(bench.clock, lambda: plan_run.status.is_over)
        assert received == [{"plan_run_id": str(plan_run.id), "plan": "plan"}] * 2
        assert plan_run.status is NativeStatus.COMPLETE
