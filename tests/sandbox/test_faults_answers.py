"""Faults between a caller and the workspace's answer, observed over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from email.utils import parsedate_to_datetime

import aiohttp
import pytest

from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from monitor.sandbox.world.faults import parse_faults
from tests.clocks import ManualClock
from tests.sandbox.http_workspace import Workspace, open_workspace

FLOWS = "/v4/flows"


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


async def waited(workspace: Workspace) -> float:
    """Return how many seconds of the handed clock an answer took, a little more at most."""
    began = workspace.clock.monotonic()
    request = asyncio.create_task(workspace.get(FLOWS))
    while not request.done():
        await workspace.get("/sandbox/ledger")  # one turn of the network
        await workspace.clock.advance(0.05)
    assert (await request).status == 200
    return workspace.clock.monotonic() - began


async def test_answers_are_late(workspace: Workspace) -> None:
    """Nothing comes before the latency has passed on the handed clock."""
    assert await waited(workspace) < 2
    workspace.world.options.latency = 2.0
    assert 2 <= await waited(workspace) < 4


async def test_an_answer_grows_old_on_its_way(workspace: Workspace) -> None:
    """Its rows and its Date are those of the moment when it was made, not when it comes."""
    workspace.world.options.answer_latency = 60.0
    made_at = workspace.clock.now()
    request = asyncio.create_task(workspace.get("/v4/jobLibrary"))
    await workspace.get("/sandbox/ledger")
    while not request.done():
        await workspace.get("/sandbox/ledger")
        await workspace.clock.advance(1)
        if workspace.clock.now() - made_at > timedelta(seconds=30):
            workspace.job_group()
    answer = await request
    assert answer.ids == []
    assert parsedate_to_datetime(answer.headers["Date"]) < made_at + timedelta(seconds=20)
    assert workspace.clock.now() >= made_at + timedelta(seconds=60)


async def test_lateness_varies(workspace: Workspace) -> None:
    """The jitter comes on top, by chance and within its limit."""
    workspace.world.options.latency = 1.0
    workspace.world.options.latency_jitter = 4.0
    waits = [await waited(workspace) for _ in range(5)]
    assert len({round(wait, 1) for wait in waits}) > 2
    assert min(waits) >= 1
    assert max(waits) < 7


async def test_too_many_requests(workspace: Workspace) -> None:
    """A made-up quota answers 429 with the headers of a real one."""
    workspace.world.options.status_429 = 1.0
    workspace.world.options.retry_after_seconds = 6.5
    answer = await workspace.get(FLOWS)
    assert answer.is_refused(429, "TooManyRequestsException", "7 seconds")
    headers = answer.headers
    assert (headers["x-retry-after"], headers["x-rate-limit-user-remaining"]) == ("7", "0")
    reset = int(headers["x-rate-limit-workspace-reset"])
    assert reset == int(workspace.clock.now().timestamp() * 1_000) + 7_000


@pytest.mark.parametrize("status", [500, 503])
async def test_the_workspace_fails(workspace: Workspace, status: int) -> None:
    """A failure comes in the usual envelope, and the request has had no effect."""
    setattr(workspace.world.options, f"status_{status}", 1.0)
    answer = await workspace.post(f"/v4/flows/{workspace.things.orders.id}/run")
    assert answer.status == status
    assert answer.exception["message"]
    assert list(workspace.world.flow_runs) == []


@pytest.mark.parametrize(("name", "status"), [("html_error", 502), ("html_login", 200)])
async def test_something_else_answers(workspace: Workspace, name: str, status: int) -> None:
    """A proxy's page or a login page comes instead of JSON."""
    setattr(workspace.world.options, name, 1.0)
    answer = await workspace.get(FLOWS)
    assert (answer.status, answer.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert answer.content.startswith(b"<!DOCTYPE html>")


async def test_the_connection_is_dropped(workspace: Workspace) -> None:
    """No answer comes, although the request has had its effect."""
    workspace.world.options.dropped = 1.0
    with pytest.raises(aiohttp.ClientConnectionError):
        await workspace.post(f"/v4/flows/{workspace.things.orders.id}/run")
    assert len(workspace.world.flow_runs) == 1


async def test_the_body_breaks_off(workspace: Workspace) -> None:
    """The answer begins well and never comes to the length that it announced."""
    workspace.world.options.broken_off = 1.0
    with pytest.raises(aiohttp.ClientPayloadError):
        await workspace.get(FLOWS)


async def test_json_is_cut(workspace: Workspace) -> None:
    """Half of the JSON comes as though it were the whole."""
    whole = (await workspace.get(FLOWS)).content
    workspace.world.options.truncated = 1.0
    half = await workspace.get(FLOWS)
    assert half.status == 200
    assert half.content == whole[: len(whole) // 2]
    assert half.headers["Content-Length"] == str(len(half.content))


async def test_faults_can_be_kept_to_some_operations(workspace: Workspace) -> None:
    """Only the named operations are struck; the others, and unknown paths, stay well."""
    workspace.world.options.status_500 = 1.0
    workspace.world.options.only = frozenset({"listFlows"})
    paths = (FLOWS, "/v4/plans", "/v4/nothing")
    assert [(await workspace.get(path)).status for path in paths] == [500, 200, 404]


async def test_only_the_api_is_struck(workspace: Workspace) -> None:
    """The ledger, which is no part of the workspace, can always be read."""
    workspace.world.options.status_500 = 1.0
    assert (await workspace.get("/sandbox/ledger")).status == 200


async def test_an_operation_is_lost_while_it_runs(workspace: Workspace) -> None:
    """From its moment on it is a route not found; without the fault it is there again."""
    workspace.world.options.lose["listJobLibrary"] = 30.0
    assert (await workspace.get("/v4/jobLibrary")).status == 200
    await workspace.clock.advance(30)
    answer = await workspace.get("/v4/jobLibrary")
    assert answer.is_refused(404, "RouteNotFoundException")
    assert (await workspace.get("/v4/jobLibrary/count")).status == 200
    del workspace.world.options.lose["listJobLibrary"]
    assert (await workspace.get("/v4/jobLibrary")).status == 200


async def test_a_renewed_workspace_has_the_current_set_only(workspace: Workspace) -> None:
    """From its moment on what PC does not list is a route not found; it can come back."""
    workspace.world.options.renewal = 30.0
    lists = ("/v4/jobLibrary", "/v4/plans", FLOWS, "/v4/open-api-spec")
    assert [(await workspace.get(list_)).status for list_ in lists] == [200, 200, 200, 200]
    await workspace.clock.advance(30)
    assert [(await workspace.get(list_)).status for list_ in lists] == [404, 404, 200, 200]
    workspace.world.options.renewal = None
    assert (await workspace.get("/v4/plans")).status == 200


async def test_the_specification_is_not_made_for_the_caller(workspace: Workspace) -> None:
    """Where it is whole it names operations that this edition does not offer."""
    usage = "/v4/usages/jobMetrics/compute/from/{from}/to/{to}"
    assert usage not in (await workspace.get("/v4/open-api-spec")).body["paths"]
    workspace.world.options.specification = "whole"
    assert usage in (await workspace.get("/v4/open-api-spec")).body["paths"]


async def test_the_clock_is_off_by_minutes(workspace: Workspace) -> None:
    """The Date of answers and the stamps of runs agree with each other, not with us."""
    workspace.world.options.clock_offset_seconds = -300.0
    row = await workspace.get(f"/v4/jobGroups/{workspace.job_group().id}")
    past = workspace.clock.now() - timedelta(minutes=5)
    assert parsedate_to_datetime(row.headers["Date"]) == past
    assert row.body["createdAt"] == past.strftime("%Y-%m-%dT%H:%M:%S.000Z")


async def statuses(spec: str, *, seed: int = 1) -> list[int]:
    """Return what sixty requests to a sandbox with these faults are answered."""
    settings = SandboxSettings(seed=seed, traffic=None, options=parse_faults([spec]))
    sandbox = Sandbox(settings, ManualClock())
    url = await sandbox.start()
    try:
        headers = {"Authorization": f"Bearer {sandbox.token}"}
        async with aiohttp.ClientSession(url, headers=headers) as session:
            return [(await session.get(FLOWS)).status for _ in range(60)]
    finally:
        await sandbox.stop()


async def test_the_seed_decides_who_is_struck() -> None:
    """The same seed strikes the same requests, another seed others, each at about its ratio."""
    spec = "status_500=0.2,status_503=0.1"
    first = await statuses(spec)
    assert first == await statuses(spec)
    assert first != await statuses(spec, seed=2)
    assert 4 <= first.count(500) <= 20
    assert 1 <= first.count(503) <= 14


async def test_faults_do_not_change_each_other() -> None:
    """The requests that one fault strikes are the same with and without another."""
    alone, beside = await statuses("status_500=0.2"), await statuses("status_500=0.2,html_login")
    assert [item == 500 for item in alone] == [item == 500 for item in beside]


async def test_a_listener_can_act_between_requests() -> None:
    """It gets each request just before it is served, and may change the world."""
    sandbox = Sandbox(SandboxSettings(traffic=None, schedules_fire=False), ManualClock())
    url = await sandbox.start()
    requests: list[tuple[str, str]] = []
    recipe = next(iter(sandbox.world.recipes))

    def act(operation_id: str, query: object) -> None:
        requests.append((operation_id, str(query)))
        sandbox.engine.start_job_group(recipe, by=recipe.creator_id)

    sandbox.on_request(act)
    try:
        headers = {"Authorization": f"Bearer {sandbox.token}"}
        async with aiohttp.ClientSession(url, headers=headers) as session:
            answer = await session.get("/v4/jobLibrary?runBy=all")
            rows = (await answer.json())["data"]
    finally:
        await sandbox.stop()
    assert requests == [("listJobLibrary", "{'runBy': 'all'}")]
    assert len(rows) == 1
