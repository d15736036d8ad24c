"""A busy workspace followed with the default request budget: everything has its turn."""

from __future__ import annotations

import itertools
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from monitor.polling.settings import PollSettings
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, TrafficSettings
from monitor.workspace.settings import WorkspaceSettings
from tests.app.eventually import eventually
from tests.app.fixture import configuration, daemon, started, workspace_configuration
from tests.paced_clock import PacedClock, PaceFile
from tests.servers import free_port

# As many runs as keep the requests for their ends above the budget.
_TRAFFIC = TrafficSettings(
    flow_runs_per_hour=1_500, plan_runs_per_hour=700, job_groups_per_hour=2_000, samples_per_hour=60
)
_SECONDS = 300.0
_CHANGE_LISTS = ("listJobLibrary", "listPlanSnapshotRuns")


async def test_a_busy_workspace_starves_nothing(tmp_path: Path) -> None:
    """At 120 requests a minute schedules, names and job records are read, tasks registered.

    Within five minutes, and all the while the lists of changes are read in time.
    """
    clock = PacedClock(PaceFile(tmp_path / "pace"), speed=40, start=datetime.now(UTC))
    workspace = Sandbox(SandboxSettings(traffic=_TRAFFIC), clock)
    requests: dict[str, list[float]] = defaultdict(list)
    workspace.on_request(lambda name, _: requests[name].append(clock.monotonic()))
    async with started(workspace) as url:
        port = free_port()
        followed = workspace_configuration(workspace, url, callbacks_port=port)
        budget = WorkspaceSettings(name="acme", url=url, token=followed.workspace.token)
        poll = PollSettings(schedules_seconds=60, names_seconds=60)
        followed = msgspec.structs.replace(followed, workspace=budget, poll=poll)
        settings = configuration(tmp_path, followed, callbacks_port=port)
        async with daemon(settings, clock=clock):
            began = clock.monotonic()
            await eventually(
                lambda: clock.monotonic() - began >= _SECONDS,
                why="time does not go on",
                within_seconds=90,
            )
        flows = len(list(workspace.world.flows.live()))
    await clock.stop()
    spent = sum(map(len, requests.values()))

    assert budget.requests_per_minute == 120
    # As many as may be sent: the budget really is too small.
    assert spent >= 0.9 * 2 * _SECONDS
    assert len(requests["createWebhookFlowTask"]) == flows
    for name in ("listSchedules", "listFlows", "listPlans"):
        assert len(requests[name]) >= 3, name
        assert requests[name][-1] - began >= _SECONDS / 2, name
    job_records = ("listJobGroups", "getJobsForJobGroup")  # of many runs by list, or of one
    assert sum(len(requests[name]) for name in job_records) >= 0.04 * spent
    for name in _CHANGE_LISTS:
        waits = [later - first for first, later in itertools.pairwise(requests[name])]
        assert max(waits) <= 20, name
