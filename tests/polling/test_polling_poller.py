"""The poller: every poll at its own pace, an outage survived, and the whole against a sandbox."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from monitor.catalogue.operations import Edition
from monitor.model.clock import SystemClock
from monitor.model.live_state import Reachability
from monitor.model.runs import RunKind
from monitor.model.secrets import Secret
from monitor.polling.poller import WorkspacePoller
from monitor.polling.settings import PollSettings
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings, WorldOptions
from tests.clocks import FastClock, ManualClock
from tests.polling.conftest import NAME, Scenario, asleep, until
from tests.polling.tiny_workspace import FORBIDDEN, NO_ROUTE, OVERLOADED, TinyWorkspace

QUICK = PollSettings(
    active_seconds=0.05,
    idle_seconds=0.1,
    wake_gap_seconds=0.01,
    reconcile_seconds=0.5,
    recovery_seconds=0.05,
    detail_wait_seconds=1.0,
)


@pytest.fixture
def settings() -> PollSettings:
    return QUICK


@asynccontextmanager
async def running(poller: WorkspacePoller) -> AsyncIterator[None]:
    task = asyncio.create_task(poller.run(), name="poller")
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.fixture
async def live(
    workspace: TinyWorkspace, tmp_path: Path, settings: PollSettings
) -> AsyncIterator[Scenario]:
    """A scenario on the real clock, with a workspace that stands still in its own time."""
    workspace.clock = SystemClock()
    made = Scenario(clock=SystemClock(), folder=tmp_path, url=workspace.url, settings=settings)
    await made.open()
    yield made
    await made.close()


def status(scenario: Scenario) -> Reachability:
    return scenario.live_state.workspaces[NAME].reachability


def outcome(scenario: Scenario, poll: str) -> str | None:
    found = scenario.live_state.polls.get((NAME, poll))
    return found.last_outcome if found is not None else None


async def test_one_failing_poll_stops_no_other(live: Scenario, workspace: TinyWorkspace) -> None:
    """With plan runs failing for good, job groups are followed; the workspace is degraded."""
    workspace.faults["planSnapshotRuns"] = OVERLOADED
    async with running(live.poller()):
        await until(lambda: outcome(live, "changes") == "ok")
        workspace.put_job_group(1, "InProgress")
        await until(lambda: live.key(1) in live.live_state.active)
        await until(lambda: outcome(live, "plan_runs") == "unreachable")
        await until(lambda: status(live) is Reachability.DEGRADED)
        since = live.live_state.workspaces[NAME].since
        polls = changes(workspace)
        await until(lambda: changes(workspace) > polls + 5)
        assert live.live_state.workspaces[NAME].since == since
    reason = live.live_state.workspaces[NAME].reason

    assert reason is not None
    assert "plan_runs" in reason
    failures = live.sample(
        "dataprep_monitor_polls_total", workspace=NAME, poll="plan_runs", outcome="unreachable"
    )
    assert failures >= 1


async def test_an_outage_is_shown_and_survived(live: Scenario, workspace: TinyWorkspace) -> None:
    """Unreachable while nothing answers, reachable after; events of the outage are published."""
    async with running(live.poller()):
        await until(lambda: outcome(live, "changes") == "ok")
        workspace.faults[".*"] = OVERLOADED
        await until(lambda: status(live) is Reachability.UNREACHABLE)
        await until(lambda: tries(live) > 3)
        assert status(live) is Reachability.UNREACHABLE
        workspace.put_job_group(1, "InProgress")
        workspace.faults.clear()
        await until(lambda: live.key(1) in live.live_state.active)
        await until(lambda: status(live) is Reachability.REACHABLE)

    assert await live.run_events() == ["1:queued", "1:started"]
    assert live.live_state.workspaces[NAME].reason is None


def tries(scenario: Scenario) -> float:
    """Return how often the workspace was tried in vain in the place of all polls."""
    labels = {"workspace": NAME, "poll": "recovery", "outcome": "unreachable"}
    return scenario.sample("dataprep_monitor_polls_total", **labels)


async def test_a_workspace_that_is_down_at_the_start_is_waited_for(
    live: Scenario, workspace: TinyWorkspace
) -> None:
    """Following begins when it first answers; until then it is unreachable or refuses us."""
    workspace.faults[".*"] = OVERLOADED
    async with running(live.poller()):
        await until(lambda: status(live) is Reachability.UNREACHABLE)
        assert live.live_state.workspaces[NAME].followed_since is None
        assert await live.poller().confirm(live.key(1)) is None
        workspace.faults[".*"] = (401, "Unauthorized")
        await until(lambda: outcome(live, "recovery") == "unauthorized")
        workspace.faults.clear()
        await until(lambda: outcome(live, "changes") == "ok")

    assert live.live_state.workspaces[NAME].followed_since is not None


async def test_many_wakes_cause_one_poll_each_gap(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A burst of callbacks costs one poll; the idle interval is not waited for."""
    unbegun.settings = PollSettings()
    poller = unbegun.poller()
    async with running(poller):
        await asleep(clock)
        await clock.advance(1)
        await asleep(clock)
        polls = changes(workspace)
        for _ in range(100):
            poller.wake()
        await asleep(clock)
        assert changes(workspace) == polls + 1

        for _ in range(100):
            poller.wake()
        await clock.advance(0.5)
        await asleep(clock)
        assert changes(workspace) == polls + 1
        await clock.advance(0.6)
        await asleep(clock)
        assert changes(workspace) == polls + 2


def changes(workspace: TinyWorkspace) -> int:
    return sum(
        path == "jobLibrary" and "dateFilter[updatedAt][gte]" in query
        for path, query in workspace.requests
    )


async def test_the_interval_is_short_while_something_runs(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Idle, a poll each half minute; with an active run, each five seconds."""
    unbegun.settings = PollSettings(jitter_share=0.0)
    async with running(unbegun.poller()):
        await asleep(clock)
        idle = await polls_in(60, workspace, clock)
        workspace.put_job_group(1, "InProgress")
        await polls_in(60, workspace, clock)
        active = await polls_in(60, workspace, clock)

    assert idle <= 3
    assert 10 <= active <= 13


async def polls_in(seconds: int, workspace: TinyWorkspace, clock: ManualClock) -> int:
    """Return how many change polls begin in that time, letting every answer arrive."""
    before = changes(workspace)
    for _ in range(seconds):
        await clock.advance(1)
        await asleep(clock)
    return changes(workspace) - before


async def test_in_pc_the_reason_names_why_nothing_is_followed(
    live: Scenario, workspace: TinyWorkspace
) -> None:
    """Flows and the specification are read on; the reason is one clear sentence."""
    live.client.settings = live.client.requester.settings = type(live.client.settings)(
        name=NAME, url=workspace.url, retries=0, requests_per_minute=60_000, edition=Edition.PC
    )
    workspace.tables["flows"][11] = {"id": 11, "name": "Sales"}
    for path in ("jobLibrary", "plan.*", "schedules", "people/.*", "outputObjects"):
        workspace.faults[path] = NO_ROUTE
    async with running(live.poller()):
        await until(lambda: outcome(live, "names") == "ok")
        await until(lambda: workspace.count("open-api-spec") > 2)
        workspace_state = live.live_state.workspaces[NAME]
        assert await live.poller().track(RunKind.JOB_GROUP, "1") is False

    assert workspace_state.reason is not None
    assert "runs cannot be followed here" in workspace_state.reason
    assert workspace_state.reachability is Reachability.REACHABLE
    assert workspace.count("jobGroups/.*") == 0


async def test_a_refused_list_is_requested_ever_less(
    live: Scenario, workspace: TinyWorkspace
) -> None:
    """A poll that is refused goes on, slowly, and the others go on at their own pace."""
    workspace.faults["schedules"] = FORBIDDEN
    async with running(live.poller()):
        await until(lambda: changes(workspace) >= 10)

    assert workspace.count("schedules") <= 2
    assert status(live) is Reachability.REACHABLE


@asynccontextmanager
async def beside_a_sandbox(
    folder: Path, edition: Edition, rows: Literal["with_flow", "bare"]
) -> AsyncIterator[tuple[Scenario, Sandbox]]:
    """Start a sandbox in which nothing runs yet, and open a scenario that reads it."""
    clock = FastClock()
    sandbox = Sandbox(
        SandboxSettings(
            edition=edition,
            work=WorkSettings(speed=150),
            options=WorldOptions(library_rows=rows),
            is_busy_at_once=False,
        ),
        clock,
    )
    url = await sandbox.start()
    scenario = Scenario(
        clock=clock,
        folder=folder,
        url=url,
        settings=QUICK,
        edition=None,
        token=Secret(sandbox.token),
    )
    await scenario.open()
    try:
        yield scenario, sandbox
    finally:
        await scenario.close()
        await sandbox.stop()


@pytest.mark.parametrize(
    ("edition", "rows"),
    [(Edition.RL, "with_flow"), (Edition.RL, "bare"), (Edition.PL, "bare")],
)
async def test_events_equal_the_ledger_of_a_sandbox(
    tmp_path: Path, edition: Edition, rows: Literal["with_flow", "bare"]
) -> None:
    """Every run of a busy workspace is published once, with the result that its ledger names."""
    async with beside_a_sandbox(tmp_path, edition, rows) as (scenario, sandbox):
        async with running(scenario.poller()):
            await until(lambda: outcome(scenario, "changes") == "ok")
            sandbox.open_for_work()
            await until(lambda: ends_of(sandbox).total() > 8)
            sandbox.stop_starting()
            await until(lambda: not sandbox.ledger.active())
            await until(lambda: not scenario.live_state.active)
            expected = ends_of(sandbox)
            async with asyncio.timeout(10):
                while await ends_published(scenario) != expected:  # noqa: ASYNC110 - the store is polled
                    await asyncio.sleep(0)
        events = await scenario.run_events()
        edition_found = scenario.live_state.workspaces[NAME].edition

    assert len(events) == len(set(events))
    assert edition_found == str(edition)
    assert sum(expected[kind, "succeeded"] for kind in RunKind) > 0


def ends_of(sandbox: Sandbox) -> collections.Counter[tuple[str, str]]:
    return collections.Counter(
        {
            (kind, result): count
            for kind, results in sandbox.ledger.results().items()
            for result, count in results.items()
            if count
        }
    )


async def ends_published(scenario: Scenario) -> collections.Counter[tuple[str, str]]:
    results = ("succeeded", "failed", "canceled", "lost")
    counted: collections.Counter[tuple[str, str]] = collections.Counter()
    for kind in RunKind:
        transitions = [event.split(":")[1] for event in await scenario.run_events(kind)]
        counted.update(
            (str(kind), transition) for transition in transitions if transition in results
        )
    return counted


async def test_no_poll_sends_anything_without_the_lease(
    live: Scenario, workspace: TinyWorkspace
) -> None:
    """Every poll ends unsent, which shows nothing about the workspace, and goes on with a lease."""
    lease = [True]
    await live.close()
    live.may_send = lambda: lease[0]
    await live.open()
    async with running(live.poller()):
        await until(lambda: outcome(live, "reconciliation") == "ok")
        lease[0] = False
        await until(lambda: outcome(live, "changes") == "lease")
        sent = len(workspace.requests)
        await until(lambda: outcome(live, "reconciliation") == "lease")
        assert len(workspace.requests) == sent
        assert status(live) is not Reachability.UNREACHABLE
        lease[0] = True
        await until(lambda: outcome(live, "changes") == "ok")
