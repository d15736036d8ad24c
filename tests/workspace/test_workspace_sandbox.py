"""The client and a whole workspace in which things run, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeVar

import pytest
from prometheus_client import CollectorRegistry

from monitor.catalogue.operations import Edition, operations
from monitor.model.errors import NoSuchObjectError, NotAvailableError, UnauthorizedError
from monitor.model.runs import PipelineKind, Status, status_of
from monitor.model.secrets import Secret
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings, WorldOptions
from monitor.sandbox.world.records.objects import Token
from monitor.workspace.client import Priority, WorkspaceClient
from monitor.workspace.payloads import Page, ScheduleRow
from monitor.workspace.settings import WorkspaceSettings
from tests.clocks import ManualClock
from tests.workspace.scripted import answer, serving

T = TypeVar("T")


@asynccontextmanager
async def meeting(
    edition: Edition = Edition.RL, *, token: str | None = None, page_size: int = 250
) -> AsyncIterator[tuple[Sandbox, WorkspaceClient, ManualClock]]:
    """Run a quiet sandbox and a client of it on one clock."""
    clock = ManualClock()
    settings = SandboxSettings(
        edition=edition,
        traffic=None,
        schedules_fire=False,
        work=WorkSettings(failure_factor=0.0, cancel_ratio=0.0),
    )
    sandbox = Sandbox(settings, clock)
    url = await sandbox.start()
    try:
        async with client_with(token or sandbox.token, url, clock, page_size) as client:
            yield sandbox, client, clock
    finally:
        await sandbox.stop()


def client_with(
    token: str, url: str | None, clock: ManualClock, page_size: int = 250
) -> WorkspaceClient:
    """Return a client of the sandbox that sends this token."""
    settings = WorkspaceSettings(
        name="north",
        url=url or "",
        token=Secret(token),
        requests_per_minute=10_000,
        page_size=page_size,
    )
    return WorkspaceClient(settings, clock=clock, registry=CollectorRegistry())


async def all_rows(pages: AsyncIterator[Page[T]]) -> list[T]:
    """Read a list to its end; every row must be readable and every page must know its time."""
    rows: list[T] = []
    async for page in pages:
        assert page.bad_rows == ()
        assert page.began_at is not None
        rows.extend(page.rows)
    return rows


async def test_a_flow_run_is_read_from_start_to_end() -> None:
    """Job groups, their jobs and their flow run show the run that the world really had."""
    async with meeting() as (sandbox, client, clock):
        flow = next(iter(sandbox.world.flows.live()))
        run = sandbox.engine.start_flow_run(flow, by=1)
        begun_at = client.workspace_now() or clock.now()
        group, *_ = await all_rows(
            client.runs.job_library(created_since=clock.now(), priority=Priority.CHANGES)
        )
        assert (group.shows_flow_run, group.flow_run_id) == (True, str(run.id))
        assert status_of(group.native_status) is Status.PENDING
        await clock.advance(2_000)

        changed = await all_rows(
            client.runs.job_library(updated_since=begun_at, priority=Priority.CHANGES)
        )
        assert {row.flow_run_id for row in changed} == {str(run.id)}
        assert {status_of(row.native_status) for row in changed} == {Status.SUCCEEDED}
        row = await client.runs.job_group(group.id, with_flow=True, priority=Priority.DETAILS)
        assert (row.flow_id, row.flow_name) == (str(flow.id), flow.name)
        assert row.recipe_name is not None
        jobs = await client.runs.jobs(group.id, priority=Priority.DETAILS)
        assert {status_of(job.native_status) for job in jobs} == {Status.SUCCEEDED}
        assert all(job.started_at and job.finished_at and job.job_type for job in jobs)

        flow_run = await client.runs.flow_run(str(run.id), priority=Priority.ENDS)
        assert flow_run.flow_id == str(flow.id)
        status = await client.runs.flow_run_status(str(run.id), priority=Priority.ENDS)
        assert status_of(status) is Status.SUCCEEDED
        page = await client.runs.flow_run_job_groups(str(run.id), priority=Priority.ENDS)
        assert {other_row.id for other_row in page.rows} == {other_row.id for other_row in changed}
        assert page.bad_rows == ()


async def test_a_plan_run_leads_back_to_its_plan() -> None:
    """The plan run names a snapshot, and the snapshot read whole names the plan."""
    async with meeting() as (sandbox, client, clock):
        plan = next(iter(sandbox.world.plans.live()))
        run = sandbox.engine.start_plan_run(plan, by=1)
        await clock.advance(6_000)

        (row,) = await all_rows(
            client.runs.plan_runs(
                updated_since=clock.now() - timedelta(days=1), priority=Priority.CHANGES
            )
        )
        assert row == await client.runs.plan_run(str(run.id), priority=Priority.ENDS)
        assert status_of(row.native_status) is Status.SUCCEEDED
        assert row.started_at
        assert row.finished_at
        assert row.plan_id
        snapshot = await client.pipelines.plan_full(row.plan_id, priority=Priority.NAMES)
        assert (snapshot.is_snapshot, snapshot.original_plan_id) == (True, str(plan.id))
        assert snapshot.flow_ids
        plans = {
            other_row.id: other_row
            for other_row in await all_rows(client.pipelines.plans(priority=Priority.NAMES))
        }
        assert plans[str(plan.id)].latest_run_created_at == row.created_at
        assert plans[str(plan.id)].name == plan.name
        assert not plans[str(plan.id)].is_snapshot


@pytest.mark.parametrize("cap", [3, 7, 37])
async def test_lists_are_whole_under_an_unusual_cap(cap: int) -> None:
    """A workspace that shows fewer rows than the limit asks for loses no run of a busy day."""
    async with meeting() as (sandbox, client, _):
        recipe = next(iter(sandbox.world.recipes.live()))
        made = {str(sandbox.engine.start_job_group(recipe, by=1).id) for _ in range(3 * cap + 1)}
        sandbox.world.options.page_cap = cap
        rows = await all_rows(client.runs.job_library(priority=Priority.CHANGES))
        assert {row.id for row in rows} == made


async def test_lists_are_whole_in_small_pages() -> None:
    """Everything that the world has is read, page by page, and nothing that it has not."""
    async with meeting(page_size=2) as (sandbox, client, clock):
        world = sandbox.world
        for flow in world.flows.live():
            sandbox.engine.start_flow_run(flow, by=1)
        await clock.advance(3_000)
        flows = await all_rows(client.pipelines.flows(priority=Priority.NAMES))
        plans = await all_rows(client.pipelines.plans(priority=Priority.NAMES))
        groups = await all_rows(client.runs.job_library(priority=Priority.CHANGES))
        done = await all_rows(
            client.runs.job_library(status="Complete", priority=Priority.RECONCILIATION)
        )
        assert {row.id: row.name for row in flows} == {
            str(f.id): f.name for f in world.flows.live()
        }
        assert {row.id for row in plans} == {str(plan.id) for plan in world.plans.live()}
        assert {row.id for row in groups} == {
            str(job_group.id) for job_group in world.job_groups.live()
        }
        assert {row.id for row in done} == {row.id for row in groups}


async def test_each_owner_reads_his_own_schedules() -> None:
    """All owners' tokens together show every schedule, its triggers and what it starts."""
    async with meeting() as (sandbox, _, clock):
        world = sandbox.world
        found: list[ScheduleRow] = []
        for owner in sorted({schedule.creator_id for schedule in world.schedules.live()}):
            token = f"made-up-{owner}"
            world.create(Token, by=owner, token_id=token, value=token)
            async with client_with(token, sandbox.url, clock, page_size=2) as client:
                mine = await all_rows(client.pipelines.schedules(priority=Priority.INVENTORY))
            assert {row.owner_id for row in mine} == {str(owner)}
            found.extend(mine)
        schedules = {str(schedule.id): schedule for schedule in world.schedules.live()}
        assert {row.id: row.triggers for row in found} == {
            schedule_id: schedule.triggers for schedule_id, schedule in schedules.items()
        }
        assert all(row.is_enabled == schedules[row.id].enabled for row in found)
        assert {pipeline.kind for row in found for pipeline in row.pipelines} == set(PipelineKind)


async def test_a_webhook_task_lives_and_dies() -> None:
    """Created, found on its flow, read, tested against a real URL, deleted, and gone."""
    async with (
        meeting() as (sandbox, client, _),
        serving(answer(None, 204)) as receiver,
    ):
        flow_id = str(next(iter(sandbox.world.flows.live())).id)
        task_id = await client.webhook_tasks.create(
            flow_id=flow_id,
            name="monitor",
            url=Secret(receiver.url + "/hooks/north"),
            body='{"job_id":"$jobId","status":"$jobStatus"}',
            headers={"X-Monitor-Secret": Secret("hush")},
            priority=Priority.INVENTORY,
        )
        task = await client.webhook_tasks.read(task_id, priority=Priority.INVENTORY)
        assert (task.flow_id, task.trigger_event) == (flow_id, "onJobDone")
        assert task.url.reveal() == receiver.url + "/hooks/north"
        found = await client.webhook_tasks.of_flow(flow_id, priority=Priority.INVENTORY)
        assert [other_task.id for other_task in found] == [task_id]
        test = await client.webhook_tasks.test(
            url=receiver.url + "/hooks/north",
            headers={"X-Monitor-Secret": Secret("hush")},
            priority=Priority.INVENTORY,
        )
        assert test.is_ok
        assert receiver.requests[0].headers["X-Monitor-Secret"] == "hush"
        quotas = {budget.scope: budget.limit for budget in client.requester.budget.status()}
        assert (quotas["user"], quotas["workspace"]) == (20, 30)
        for _ in range(2):
            await client.webhook_tasks.delete(task_id, priority=Priority.INVENTORY)
        assert await client.webhook_tasks.of_flow(flow_id, priority=Priority.INVENTORY) == ()
        with pytest.raises(NoSuchObjectError):
            await client.webhook_tasks.read(task_id, priority=Priority.INVENTORY)


async def test_the_workspace_shows_who_and_what_and_when() -> None:
    """The person, the specification and the clock."""
    async with meeting() as (sandbox, client, clock):
        assert client.workspace_now() is None
        person = await client.inventory.current_person(priority=Priority.INVENTORY)
        assert person.email
        assert not person.is_disabled
        found = await client.operations.open_api_spec(priority=Priority.INVENTORY)
        served = {
            (operation.method, operation.path)
            for operation in operations()
            if Edition.RL in operation.editions
        }
        assert found & served == served
        now = client.workspace_now()
        assert now is not None
        assert abs((now - clock.now()).total_seconds()) <= 1
        assert client.requester.time.skew_seconds() == 0
        sandbox.world.options.clock_offset_seconds = -3600
        for _ in range(3):
            await clock.advance(30)
            await client.inventory.current_person(priority=Priority.INVENTORY)
        assert client.requester.time.skew_seconds() == pytest.approx(-3600, abs=1)


async def test_a_capability_that_the_edition_lacks_is_switched_off() -> None:
    """LE serves single job groups but no list, and the list is requested only once."""
    async with meeting(Edition.LE) as (sandbox, client, _):
        flow = next(iter(sandbox.world.flows.live()))
        run = sandbox.engine.start_flow_run(flow, by=1)
        group = sandbox.world.job_groups_of(run)[0]
        row = await client.runs.job_group(
            str(group.id), with_flow=True, priority=Priority.RECONCILIATION
        )
        assert row.flow_id == str(flow.id)
        assert await client.runs.jobs(row.id, priority=Priority.DETAILS)
        with pytest.raises(NotAvailableError):
            await all_rows(client.runs.job_library(priority=Priority.CHANGES))
        assert client.requester.unavailable == {"listJobLibrary"}


async def test_a_wrong_token_and_an_unknown_id() -> None:
    """401 is distinguished from an id that does not exist, and neither switches anything off."""
    async with meeting(token="made-up") as (_, client, _clock):
        with pytest.raises(UnauthorizedError):
            await client.runs.job_group("1", priority=Priority.RECONCILIATION)
        assert client.requester.unavailable == frozenset()
    async with meeting() as (_, client, _clock):
        with pytest.raises((NoSuchObjectError, NotAvailableError)):
            await client.runs.job_group("999999", priority=Priority.RECONCILIATION)
        assert client.requester.unavailable == frozenset()


async def test_incomplete_rows_are_completed_by_single_reads() -> None:
    """Where the list shows neither flow nor flow run, the single read shows both."""
    async with meeting() as (sandbox, client, _):
        sandbox.world.options = WorldOptions(library_rows="bare")
        flow = next(iter(sandbox.world.flows.live()))
        run = sandbox.engine.start_flow_run(flow, by=1)
        row = (await all_rows(client.runs.job_library(priority=Priority.CHANGES)))[0]
        assert (row.shows_flow_run, row.flow_id) == (False, None)
        whole = await client.runs.job_group(row.id, with_flow=True, priority=Priority.DETAILS)
        assert (whole.flow_run_id, whole.flow_id) == (str(run.id), str(flow.id))
