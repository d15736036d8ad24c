"""Ten restarts under load: the daemon reports what happened in the workspace, and nothing else."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

from monitor.sandbox.faults import parse_faults
from monitor.sandbox.settings import TrafficSettings
from tests.app.eventually import pause
from tests.crash.conftest import ReportCounts
from tests.crash.scene import Scene, scene

RESTARTS = 10


def workspace_events(crash: Scene) -> Counter[str]:
    """Return the received events of the workspace itself, each id once, by what they say."""
    events = {}
    for message in crash.subscriber.messages:
        if "/acme/event/" in message.topic:
            event = json.loads(message.payload)
            events[event["id"]] = json.dumps(event["data"], sort_keys=True)
    return Counter(events.values())


async def test_restarts_report_nothing_of_their_own(
    tmp_path: Path, seed: int, report_counts: ReportCounts
) -> None:
    """Every second one is a kill: no change of the workspace, no run and no end is made up."""
    load = TrafficSettings(
        flow_runs_per_hour=40, plan_runs_per_hour=20, job_groups_per_hour=100, samples_per_hour=10
    )
    faults = parse_faults(["status_500=0.05,dropped=0.03,shifted_pages=0.3"])
    async with scene(tmp_path, seed=seed, traffic=load, speed=120, options=faults) as crash:
        before = workspace_events(crash)
        for number in range(RESTARTS):
            await pause(crash.chance.uniform(0.2, 1.0))
            if number % 2:
                await crash.kill()
            else:
                assert await crash.daemon.end(signal.SIGTERM) == 0
                await crash.daemon.start()
        crash.workspace.stop_starting()
        await crash.until_ended()
        events = await crash.check()
        assert workspace_events(crash) == before
        report_counts(
            "restarts",
            seed=seed,
            restarts=RESTARTS,
            events=events,
            workspace_events=before.total(),
            lost=crash.lost,
        )
