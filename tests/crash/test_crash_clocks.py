"""The clock of a daemon is set while it works: nothing is lost, and nothing is deleted."""

from __future__ import annotations

from pathlib import Path

from tests.app.eventually import eventually, pause
from tests.crash import store_copy
from tests.crash.conftest import ReportCounts
from tests.crash.scene import Scene, scene
from tests.set_clock import SetClock

_HOUR, _FAR = 3_600.0, 40 * 86_400.0
_SEEN_SECONDS = 1.5  # within which the daemon sees that its clock was set
_JOB_GROUPS = 15


async def let_some_end(crash: Scene) -> None:
    """Let runs begin and end, with a callback of each; `Scene.check` compares the ends."""
    job_groups = crash.start_job_groups(_JOB_GROUPS, work_seconds=(0.2, 1))
    await crash.until_ended()
    await crash.sender.send([(str(run.id), str(run.status)) for run in job_groups])
    await crash.until_received("started", job_groups)


async def test_steps_of_the_clock_lose_and_delete_nothing(
    tmp_path: Path, seed: int, report_counts: ReportCounts
) -> None:
    """A second, an hour and 40 days, both ways; retention comes while it is 40 days ahead."""
    clock = SetClock(tmp_path / "clock")
    async with scene(tmp_path, seed=seed, environment=clock.environment) as crash:
        for seconds in (0.0, 1.0, -1.0, _HOUR, -_HOUR, -_FAR, _FAR):
            clock.ahead_by(seconds)
            await pause(_SEEN_SECONDS)
            await let_some_end(crash)

        async def was_judged() -> bool:
            behind = await crash.daemon.face.metric("dataprep_monitor_retention_behind_seconds")
            return bool(behind)

        await eventually(was_judged, why=lambda: crash.daemon.log[-3000:], within_seconds=90)
        clock.ahead_by(0.0)
        await pause(_SEEN_SECONDS)
        await let_some_end(crash)
        events = await crash.check()
        assert store_copy.oldest_position(crash.store) == 1
        report_counts("clocks that are set", seed=seed, events=events, lost=crash.lost)
