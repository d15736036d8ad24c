"""Outages of a workspace as a whole, of every kind: what they prove, and how they end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from monitor.catalogue.capabilities import capabilities_of
from monitor.catalogue.operations import Edition
from monitor.model.errors import WorkspaceUnreachableError
from monitor.model.live_state import Reachability, WorkspaceStatus
from monitor.polling.poll_loop.reachability import ReachabilityJudge
from monitor.polling.settings import PollSettings
from monitor.workspace.client import Priority, WorkspaceClient
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario, asleep
from tests.polling.gateway import PAGES, Gateway, Page, gateway_to
from tests.polling.test_polling_poller import running
from tests.polling.test_polling_restarts import editions_with, lives
from tests.polling.tiny_workspace import OVERLOADED, TinyWorkspace
from tests.workspace.scripted import SkippingClock

SETTINGS = PollSettings(jitter_share=0.0, detail_wait_seconds=0.0)
OUTAGES: dict[str, Page] = {
    **PAGES,
    "refused_token": lambda: web.Response(status=401),
    "server_error": lambda: web.Response(status=503),
}


def status(scenario: Scenario) -> WorkspaceStatus:
    return scenario.live_state.workspaces[NAME]


def assert_is_watched(found: WorkspaceStatus, edition: Edition) -> None:
    assert found.edition == str(edition)
    assert found.capabilities == {str(capability) for capability in capabilities_of(edition)}
    assert found.refused == ()
    assert found.unwatched_causes() == ()
    assert found.reachability is Reachability.REACHABLE


@pytest.mark.parametrize(("edition", "page"), editions_with(*((page,) for page in PAGES)))
async def test_a_page_at_the_start_decides_nothing(
    tmp_path: Path, edition: Edition, page: str
) -> None:
    """Edition and capabilities follow from the API alone; nothing counts as offered before."""
    async with lives(tmp_path, edition) as monitor, gateway_to(monitor.scenario.url) as gateway:
        monitor.scenario.url, gateway.page = gateway.url, PAGES[page]
        async with monitor.life(seconds=300):
            during, requests = status(monitor.scenario), len(gateway.requests)
            gateway.page = None
            await monitor.pass_time(60)
            after = status(monitor.scenario)
            changes = await monitor.scenario.changes()

    assert during.reachability is Reachability.UNREACHABLE
    assert str(during.reason).count("answered") == 1
    assert during.edition is None
    assert requests <= 3 + 5 + 300 / SETTINGS.recovery_seconds
    assert_is_watched(after, edition)
    assert changes == []


@pytest.mark.parametrize("first", range(1, 12, 2))
@pytest.mark.parametrize("edition", [Edition.LE, Edition.RL])
async def test_pages_before_the_first_answers_decide_nothing(
    tmp_path: Path, edition: Edition, first: int
) -> None:
    """Also where they end in the middle of the first reads."""
    async with lives(tmp_path, edition) as monitor, gateway_to(monitor.scenario.url) as gateway:
        monitor.scenario.url, gateway.page = gateway.url, PAGES["html_200"]
        gateway.pages_left = first
        async with monitor.life(seconds=180):
            found = status(monitor.scenario)
            changes = await monitor.scenario.changes()

    assert_is_watched(found, edition)
    assert changes == []


class Followed:
    """A tiny workspace behind a gateway, followed in steps of a second."""

    def __init__(self, scenario: Scenario, workspace: TinyWorkspace, gateway: Gateway) -> None:
        self.scenario, self._workspace, self.gateway = scenario, workspace, gateway

    async def pass_time(self, seconds: int, *, step: int = 1) -> None:
        clock = self.scenario.clock
        assert isinstance(clock, ManualClock)
        for _ in range(0, seconds, step):
            await clock.advance(step)
            await asleep(clock)

    async def seconds_until(self, condition: Callable[[], bool], *, most: int) -> int:
        """Return how long that took; ``most`` where it did not happen."""
        for seconds in range(most):
            if condition():
                return seconds
            await self.pass_time(1)
        return most

    async def seconds_until_a_failure_is_seen(self, *, most: int = 600) -> int:
        for seconds in range(most):
            if "1:failed" in await self.scenario.run_events():
                return seconds
            await self.pass_time(1)
        return most


@pytest.fixture
async def followed(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> AsyncIterator[Followed]:
    """A workspace without runs that has been followed for ten minutes."""
    await unbegun.close()
    async with gateway_to(workspace.url) as gateway:
        unbegun.url, unbegun.settings = gateway.url, SETTINGS
        await unbegun.open()
        async with running(unbegun.poller()):
            made = Followed(unbegun, workspace, gateway)
            await asleep(clock)
            await made.pass_time(600, step=15)  # nothing happens that could be early or late
            yield made


@pytest.mark.parametrize("outage", OUTAGES)
async def test_after_an_outage_of_any_kind_the_next_failure_is_seen_at_once(
    followed: Followed, workspace: TinyWorkspace, outage: str
) -> None:
    """Eight minutes cost one small request in half a minute, and the first success wakes polls."""
    gateway = followed.gateway
    gateway.page = OUTAGES[outage]
    await followed.pass_time(480)
    requests = len(gateway.requests)
    found = status(followed.scenario)
    gateway.page = None
    workspace.put_job_group(1, "Failed")
    seconds = await followed.seconds_until_a_failure_is_seen()

    assert seconds <= SETTINGS.recovery_seconds + 2
    assert requests <= 480 / SETTINGS.recovery_seconds + 15
    assert found.reason is not None
    assert found.reason.startswith("changes: ")
    assert "plan_runs" not in found.reason
    assert followed.scenario.live_state.workspaces[NAME].reachability is Reachability.REACHABLE


async def test_two_broken_operations_hold_up_no_other(
    followed: Followed, workspace: TinyWorkspace
) -> None:
    """The others are polled on, and the broken ones less and less often."""
    workspace.faults |= {"schedules": OVERLOADED, "planSnapshotRuns": OVERLOADED}
    await followed.pass_time(600)
    before = workspace.count("schedules|planSnapshotRuns"), workspace.count("jobLibrary")
    await followed.pass_time(600)
    after = workspace.count("schedules|planSnapshotRuns"), workspace.count("jobLibrary")
    workspace.put_job_group(1, "Failed")
    seconds = await followed.seconds_until_a_failure_is_seen()

    assert seconds <= SETTINGS.idle_seconds + 2
    assert after[0] - before[0] <= 30
    assert after[1] - before[1] >= 20


def throttled(seconds: int | None) -> Page:
    """Return what refuses a request and asks for a pause, or for no certain one."""
    headers = {} if seconds is None else {"Retry-After": str(seconds)}
    return lambda: web.Response(status=429, headers=headers)


async def test_a_long_pause_is_reported_with_its_end_and_tried_before(followed: Followed) -> None:
    """One 429 that asks for an hour; the request of the next minute ends the pause."""
    scenario, gateway = followed.scenario, followed.gateway
    gateway.page, gateway.pages_left = throttled(3_600), 1
    seconds = await followed.seconds_until(lambda: bool(gateway.requests), most=60)
    until = scenario.clock.now() + timedelta(seconds=3_600)
    await followed.pass_time(5)
    found = status(scenario)
    polls = scenario.live_state.polls
    assert found.reachability is Reachability.UNREACHABLE
    assert f"the workspace allows no requests until {until:%H:%M:%SZ}" in str(found.reason)
    assert await followed.seconds_until(is_reachable(scenario), most=90) <= 60
    await followed.pass_time(31)

    assert seconds < 60
    assert {status.last_outcome for status in polls.values()} <= {"ok"}


def is_reachable(scenario: Scenario) -> Callable[[], bool]:
    return lambda: status(scenario).reachability is Reachability.REACHABLE


async def test_a_workspace_that_goes_on_refusing_is_tried_ever_less(followed: Followed) -> None:
    """After 1, 2, 4, 8 and 16 minutes; meanwhile the status is known and does not grow old."""
    gateway, clock = followed.gateway, followed.scenario.clock
    gateway.page = throttled(3_600)
    await followed.seconds_until(lambda: bool(gateway.requests), most=60)
    at_once = len(gateway.requests)
    tried_at, oldest = [], timedelta()
    for second in range(2_000):
        before = len(gateway.requests)
        await followed.pass_time(1)
        known_at = status(followed.scenario).known_at
        assert known_at is not None
        oldest = max(oldest, clock.now() - known_at)
        if len(gateway.requests) > before:
            tried_at.append(second)
    minutes = [60, 180, 420, 900, 1_860]

    assert at_once <= 2
    assert len(tried_at) == len(minutes)
    assert all(abs(at - due) <= 5 for at, due in zip(tried_at, minutes, strict=True))
    assert oldest <= timedelta(seconds=35)
    assert status(followed.scenario).reachability is Reachability.UNREACHABLE


async def test_a_short_pause_is_no_outage(followed: Followed) -> None:
    """Quotas count by the minute: a wait within one is kept, and not reported."""
    followed.gateway.page, followed.gateway.pages_left = throttled(20), 1
    await followed.seconds_until(lambda: bool(followed.gateway.requests), most=60)
    await followed.pass_time(10)
    during = status(followed.scenario).reachability
    await followed.pass_time(60)

    assert during is not Reachability.UNREACHABLE
    assert is_reachable(followed.scenario)()


@pytest.mark.parametrize("seconds", [60, 30, None])
async def test_short_pauses_without_end_leave_the_runs_overdue(
    followed: Followed, seconds: int | None
) -> None:
    """No answer comes between them: two intervals and a minute after the last, that is known."""
    scenario = followed.scenario
    followed.gateway.page = throttled(seconds)
    await followed.seconds_until(lambda: bool(followed.gateway.requests), most=60)

    def is_starved() -> bool:
        monotonic = scenario.clock.monotonic()
        return scenario.live_state.view.why_starved(NAME, monotonic=monotonic) is not None

    assert await followed.seconds_until(is_starved, most=200) <= 120
    followed.gateway.page = None
    assert await followed.seconds_until(lambda: not is_starved(), most=200) <= 130


@pytest.mark.parametrize("outage", ["server_error", "refused_token", "throttled"])
async def test_runs_that_wait_to_be_read_multiply_no_requests(
    followed: Followed, workspace: TinyWorkspace, outage: str
) -> None:
    """Ends whose records are still to be read, by whatever task, wait for the recovery too."""
    workspace.faults["jobGroups.*"] = OVERLOADED
    for row_id in range(100, 140):
        workspace.put_job_group(row_id, "Failed", flowRun={"id": 7})
    await followed.pass_time(40)
    gateway = followed.gateway
    gateway.page = OUTAGES.get(outage, throttled(3_600))
    await followed.pass_time(300)

    assert len(gateway.requests) <= 60


async def test_a_request_is_not_repeated_while_the_workspace_is_cut_off(
    unbegun: Scenario, workspace: TinyWorkspace
) -> None:
    """Five tries of each would make a storm of it; a first failure is tried again as ever."""
    settings = msgspec.structs.replace(unbegun.client.settings, retries=4)
    client = WorkspaceClient(settings, clock=SkippingClock(), registry=CollectorRegistry())
    context = replace(unbegun.context, client=client)
    judge, sent = ReachabilityJudge(context), list[int]()
    judge.succeeded("names")
    workspace.faults[".*"] = OVERLOADED
    async with client:
        for operation_id in ("listFlows", "listPlans", "listSchedules"):
            before = len(workspace.requests)
            with pytest.raises(WorkspaceUnreachableError) as caught:
                await client.requester.request(operation_id, priority=Priority.CHANGES)
            sent.append(len(workspace.requests) - before)
            judge.failed(operation_id, caught.value)

    assert sent == [5, 5, 1]


async def test_two_lists_that_are_broken_for_good_make_a_steady_status(
    followed: Followed, workspace: TinyWorkspace
) -> None:
    """All else answers: neither an outage nor a recovery is reported again and again."""
    workspace.faults |= {"jobLibrary": OVERLOADED, "planSnapshotRuns": OVERLOADED}
    await followed.pass_time(300)
    shown = set[tuple[Reachability, str | None]]()
    for _ in range(600):
        await followed.pass_time(1)
        shown.add((status(followed.scenario).reachability, status(followed.scenario).reason))
    workspace.faults.clear()
    workspace.put_job_group(1, "Failed")
    seconds = await followed.seconds_until_a_failure_is_seen()

    assert {found for found, _ in shown} == {Reachability.DEGRADED}
    assert all("listJobLibrary" in str(reason) for _, reason in shown)
    assert seconds <= SETTINGS.reconcile_seconds
    assert await followed.seconds_until(is_reachable(followed.scenario), most=300) < 300


async def test_an_outage_of_all_is_one_although_two_lists_were_broken_before(
    followed: Followed, workspace: TinyWorkspace
) -> None:
    """An operation that fails beside an answer says nothing once the answering one fails too."""
    workspace.faults |= {"jobLibrary": OVERLOADED, "planSnapshotRuns": OVERLOADED}
    await followed.pass_time(300)
    workspace.faults[".*"] = OVERLOADED
    is_out = lambda: status(followed.scenario).reachability is Reachability.UNREACHABLE  # noqa: E731
    seconds = await followed.seconds_until(is_out, most=600)

    assert seconds <= SETTINGS.reconcile_seconds
