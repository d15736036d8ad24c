"""The sandbox's time: work may be hurried, its clock may not."""

from __future__ import annotations

from datetime import timedelta

from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings
from tests.clocks import ManualClock


async def test_hurried_work_leaves_the_clock_alone() -> None:
    """An hour of work is over in a minute, and every stamp of it lies within that minute.

    With a clock that runs as fast as the work, a monitor is an hour late after a minute.
    """
    clock = ManualClock()
    work = WorkSettings(speed=60.0, queue_seconds=(60.0, 60.0), work_seconds=(3_000.0, 3_000.0))
    settings = SandboxSettings(traffic=None, schedules_fire=False, work=work)
    sandbox = Sandbox(settings, clock)
    await sandbox.start()
    began = clock.now()
    group = sandbox.engine.start_job_group(next(iter(sandbox.world.recipes.live())), by=11)
    await clock.advance(60)
    await sandbox.stop()

    assert not sandbox.ledger.active()
    assert began <= group.created_at < group.updated_at <= began + timedelta(seconds=60)
    assert sandbox.world.now() == clock.now() == began + timedelta(seconds=60)
