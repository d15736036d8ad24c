"""What each typed operation requests, and how it reads the answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import structlog
from aiohttp import web

from monitor.catalogue.operations import operations
from monitor.model.errors import (
    NoSuchObjectError,
    RequestRejectedError,
    UnreadableAnswerError,
)
from monitor.model.secrets import Secret
from monitor.workspace.client import Priority
from monitor.workspace.payloads import WebhookTest
from tests.workspace.scripted import answer, client_of, recorded, refusal, serving

AT = datetime(2026, 11, 21, 9, 0, 0, 250_000, tzinfo=UTC)


async def test_runs_are_requested_by_change_and_status() -> None:
    """Dates go out in bracketed epoch milliseconds, the status as the workspace's word."""
    async with serving(answer({"data": []})) as workspace, client_of(workspace.url) as client:
        async for _ in client.runs.job_library(
            updated_since=AT, status="InProgress", priority=Priority.CHANGES
        ):
            pass
        async for _ in client.runs.plan_runs(created_since=AT, priority=Priority.RECONCILIATION):
            pass
        first, second = (request.query for request in workspace.requests)
    assert first["dateFilter[updatedAt][gte]"] == "1795251600250"
    assert first["status"] == "InProgress"
    assert second["dateFilter[createdAt][gte]"] == "1795251600250"
    assert "status" not in second


async def test_a_page_keeps_its_bad_rows_apart() -> None:
    """A row that cannot be read is reported by its id beside the good ones."""
    body = {"data": [{"id": 1, "status": "Complete"}, {"id": 2, "updatedAt": "soon"}]}
    async with serving(answer(body)) as workspace, client_of(workspace.url) as client:
        (page,) = [page async for page in client.runs.job_library(priority=Priority.CHANGES)]
    assert [row.id for row in page.rows] == ["1"]
    assert [bad.id for bad in page.bad_rows] == ["2"]


def embeds(*known: str) -> Any:
    """Return a handler that knows these embeds, and refuses others as the API does."""

    async def handle(request: web.Request) -> web.StreamResponse:
        embed = request.query.get("embed")
        if embed is not None and embed not in known:
            return await refusal(400, "ValidationFailed")(request)
        flow = {"flow": {"id": 5, "name": "sales"}} if embed else {}
        return await answer({"id": 1, "wrangledDataset": {"id": 9, **flow}})(request)

    return handle


@pytest.mark.parametrize(
    ("known", "requests", "flow_id"),
    [
        (("wrangledDataset.flow,wrangledDataset.recipe",), [1, 1], "5"),
        (("wrangledDataset.flow",), [2, 1], "5"),
        ((), [3, 1], None),
    ],
)
async def test_a_job_group_with_its_flow(
    known: tuple[str, ...], requests: list[int], flow_id: str | None
) -> None:
    """The most informative embed that the workspace knows is found once and kept."""
    async with serving(embeds(*known)) as workspace, client_of(workspace.url) as client:
        for sent in requests:
            before = len(workspace.requests)
            row = await client.runs.job_group("1", with_flow=True, priority=Priority.DETAILS)
            assert (row.flow_id, row.recipe_id) == (flow_id, "9")
            assert len(workspace.requests) - before == sent


async def test_an_unknown_id_does_not_cost_the_embed() -> None:
    """400 for an id, with and without embeds, is an error and teaches nothing about embeds."""
    unknown = refusal(400, "ValidationFailed")
    async with (
        serving(unknown, unknown, unknown, embeds("wrangledDataset.flow")) as workspace,
        client_of(workspace.url) as client,
    ):
        with pytest.raises(RequestRejectedError):
            await client.runs.job_group("404", with_flow=True, priority=Priority.DETAILS)
        row = await client.runs.job_group("1", with_flow=True, priority=Priority.DETAILS)
    assert row.flow_id == "5"


async def test_jobs_that_cannot_be_read_are_left_out_and_logged() -> None:
    """The readable job records are returned; one log line counts the others."""
    body = {"data": [{"id": 1, "status": "Failed"}, {"id": 2, "percentComplete": "half"}]}
    async with serving(answer(body)) as workspace, client_of(workspace.url) as client:
        with structlog.testing.capture_logs() as lines:
            jobs = await client.runs.jobs("77", priority=Priority.DETAILS)
    assert [job.id for job in jobs] == ["1"]
    (line,) = [other_line for other_line in lines if other_line["log_level"] == "warning"]
    assert (line["workspace"], line["job_group"], line["unreadable"]) == ("north", "77", 1)


async def test_a_flow_run_is_read_in_three_operations() -> None:
    """Its row, its status as a plain string, and its job groups so far."""
    job_groups = {"data": [{"id": 1, "flowRun": {"id": 71}}, {"id": []}]}
    row = {"id": 71, "flow": {"id": 5, "name": "sales"}, "scheduleExecutionId": 3}
    async with (
        serving(answer(row), answer("InProgress"), answer(job_groups)) as workspace,
        client_of(workspace.url) as client,
    ):
        run = await client.runs.flow_run("71", priority=Priority.ENDS)
        status = await client.runs.flow_run_status("71", priority=Priority.ENDS)
        page = await client.runs.flow_run_job_groups("71", priority=Priority.ENDS)
        paths = [request.path for request in workspace.requests]
    assert (run.flow_id, run.flow_name, run.schedule_execution_id) == ("5", "sales", "3")
    assert status == "InProgress"
    assert [group.flow_run_id for group in page.rows] == ["71"]
    assert len(page.bad_rows) == 1
    assert paths == [
        "/v4/flowRuns/71",
        "/v4/flowRuns/71/status",
        "/v4/flowRuns/71/jobGroups",
    ]


async def test_plans_and_people() -> None:
    """A plan run, a plan read whole, and the token's person."""
    person = {"id": 1, "email": "ann@example.org", "state": "active", "isDisabled": False}
    async with (
        serving(
            answer(recorded("planSnapshotRun_shape")),
            answer(recorded("plan_full_extract_2022-ui-fixture")),
            answer(person),
        ) as workspace,
        client_of(workspace.url) as client,
    ):
        run = await client.runs.plan_run("7", priority=Priority.ENDS)
        plan = await client.pipelines.plan_full("13", priority=Priority.NAMES)
        who = await client.inventory.current_person(priority=Priority.INVENTORY)
        paths = [request.path for request in workspace.requests]
    assert (run.id, plan.id) == ("7", "13")
    assert (who.email, who.is_disabled) == ("ann@example.org", False)
    assert paths == ["/v4/planSnapshotRuns/7", "/v4/plans/13/full", "/v4/people/current"]


async def test_the_specification_is_returned_in_the_catalogues_spelling() -> None:
    """Braces, other parameter names and a root given elsewhere come out as the catalogue's path."""
    known = {(operation.method, operation.path) for operation in operations()}
    document = {
        "openapi": "3.0.1",
        "servers": [{"url": "https://api.example.org/v4"}],
        "paths": {
            "/jobGroups/{jobGroupId}": {"get": {}, "parameters": []},
            "/v4/plans/:planId/permissions/:who": {"delete": {}},
            "/flows": {"get": {}, "post": {}},
            "/unheardOf/{thing}": {"get": {}},
        },
    }
    async with serving(answer(document)) as workspace, client_of(workspace.url) as client:
        found = await client.operations.open_api_spec(priority=Priority.INVENTORY)
    assert found - known == {("GET", "/v4/unheardOf/:thing")}
    assert found & known == {
        ("GET", "/v4/jobGroups/:id"),
        ("DELETE", "/v4/plans/:id/permissions/:subjectId"),
        ("GET", "/v4/flows"),
        ("POST", "/v4/flows"),
    }


async def test_a_webhook_task_is_created_with_its_secrets() -> None:
    """Secrets are written out into the request and nowhere else; the id comes back as text."""
    async with serving(answer({"id": 12}, 201)) as workspace, client_of(workspace.url) as client:
        task_id = await client.webhook_tasks.create(
            flow_id="5",
            name="monitor",
            url=Secret("https://monitor.example.org/hooks/north/hush"),
            body='{"job":"$jobId"}',
            headers={"X-Monitor-Secret": Secret("hush"), "Content-Type": "application/json"},
            secret_key=Secret("signing"),
            priority=Priority.INVENTORY,
        )
        sent = msgspec.json.decode(workspace.bodies[0])
    assert task_id == "12"
    assert sent == {
        "name": "monitor",
        "flowId": 5,
        "url": "https://monitor.example.org/hooks/north/hush",
        "method": "post",
        "triggerEvent": "onJobDone",
        "triggerObject": "any",
        "body": '{"job":"$jobId"}',
        "headers": {"X-Monitor-Secret": "hush", "Content-Type": "application/json"},
        "secretKey": "signing",
        "sslVerification": True,
        "retryOnFailure": True,
    }


TASK = {
    "id": 12,
    "name": "monitor",
    "flow": {"id": 5},
    "url": "https://monitor.example.org/hooks/north/hush",
    "method": "POST",
    "triggerEvent": "onJobDone",
    "headers": {"X-Monitor-Secret": "hush"},
    "secretKey": "signing",
}


async def test_a_webhook_task_hides_what_it_holds() -> None:
    """A task that is read shows neither its URL nor its headers' values."""
    async with serving(answer(TASK)) as workspace, client_of(workspace.url) as client:
        task = await client.webhook_tasks.read("12", priority=Priority.INVENTORY)
    assert (task.id, task.flow_id, task.method) == ("12", "5", "post")
    assert task.url.reveal().endswith("hush")
    assert task.headers["X-Monitor-Secret"].matches("hush")
    assert task.has_secret_key
    assert "hush" not in repr(task)
    assert "signing" not in repr(task)


@pytest.mark.parametrize("key", ["webhookFlowTasks", "webhookflowtasks"])
async def test_a_flow_shows_its_webhook_tasks(key: str) -> None:
    """Under either key, wrapped; unreadable ones are left out; silence is none."""
    task = {"id": 5, key: {"data": [TASK, {"id": 13}]}}
    async with (
        serving(answer(task), answer({"id": 5})) as workspace,
        client_of(workspace.url) as client,
    ):
        tasks = await client.webhook_tasks.of_flow("5", priority=Priority.INVENTORY)
        none = await client.webhook_tasks.of_flow("5", priority=Priority.INVENTORY)
        assert workspace.requests[0].query["embed"] == "webhookflowtasks"
    assert [task.id for task in tasks] == ["12"]
    assert none == ()


@pytest.mark.parametrize(
    "handler", [answer(None, 204), answer(TASK), refusal(404, "DataNotFoundException")]
)
async def test_a_deleted_webhook_task_is_gone(handler: Any) -> None:
    """204, 200 with a body, and "no such object" all mean that the task is gone."""
    async with serving(handler) as workspace, client_of(workspace.url) as client:
        await client.webhook_tasks.delete("12", priority=Priority.INVENTORY)
        assert workspace.requests[0].method == "DELETE"


@pytest.mark.parametrize(
    ("body", "expected", "is_ok"),
    [
        ({"statusCode": 204}, WebhookTest(status_code=204), True),
        ({"statusCode": 404}, WebhookTest(status_code=404), False),
        ({"error": {"message": "timeout"}}, WebhookTest(error="timeout"), False),
        ({}, WebhookTest(), False),
    ],
)
async def test_a_webhook_url_is_tested(body: Any, expected: WebhookTest, is_ok: int) -> None:
    """The workspace shows what it got when it called the URL."""
    async with serving(answer(body)) as workspace, client_of(workspace.url) as client:
        test = await client.webhook_tasks.test(url="https://x.org", priority=Priority.INVENTORY)
    assert test == expected
    assert test.is_ok == is_ok


async def test_a_missing_object_has_an_error_of_its_own() -> None:
    """An id that the workspace does not have is not an unreadable answer."""
    async with (
        serving(refusal(404, "DataNotFoundException"), answer("text")) as workspace,
        client_of(workspace.url) as client,
    ):
        with pytest.raises(NoSuchObjectError):
            await client.runs.plan_run("7", priority=Priority.ENDS)
        with pytest.raises(UnreadableAnswerError):
            await client.runs.plan_run("7", priority=Priority.ENDS)


async def test_a_retry_is_logged_once_and_quietly() -> None:
    """One debug line for each retry, none for the failure itself: the caller reports that."""
    with structlog.testing.capture_logs() as lines:
        async with (
            serving(refusal(503, "")) as workspace,
            client_of(workspace.url, retries=1) as client,
        ):
            with pytest.raises(Exception, match="503"):
                await client.runs.plan_run("7", priority=Priority.ENDS)
    log_events = [(line["event"], line["log_level"], line["operation"]) for line in lines]
    assert log_events == [("request is tried again", "debug", "getPlanSnapshotRun")]
