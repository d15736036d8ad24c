"""Too little room at the start, too few descriptors later: one line, or a daemon that goes on."""

from __future__ import annotations

import resource
from pathlib import Path

from tests.app.eventually import eventually, pause
from tests.crash import store_copy
from tests.crash.conftest import ReportCounts
from tests.crash.disks import small_file_system
from tests.crash.lone_daemon import flood, lone_daemon, reason_of, settings_for, start_of

_STARVED_SECONDS = 2.0
_LOG_BYTES = 100_000


async def test_a_disk_that_is_full_at_the_start_is_named(
    tmp_path: Path, report_counts: ReportCounts
) -> None:
    """Neither a new store nor one in use is opened for half a life; with room both are."""
    with small_file_system(tmp_path) as disk:
        settings = settings_for(tmp_path / "daemon", disk.path)
        disk.fill(0)
        assert "is full" in reason_of(await start_of(settings))
        disk.free(0)
        async with lone_daemon(settings) as (daemon, sender):
            await sender.send([("1", "Complete")])
            assert await daemon.end() == 0
            disk.fill(0)
            assert "is full" in reason_of(await start_of(settings))
            disk.free(0)
            await daemon.start()
            await sender.send([("2", "Complete")])
            assert await daemon.end() == 0
            assert store_copy.read(disk.path).lost(sender.fingerprints) == set()
        report_counts("disk full at the start", refused=2, acknowledged=len(sender.acknowledged))


def without_free_handles(process_id: int) -> tuple[int, int]:
    """Leave the process the file descriptors that it has; return the former limits."""
    handles = len(list(Path(f"/proc/{process_id}/fd").iterdir()))
    _, hard = resource.prlimit(process_id, resource.RLIMIT_NOFILE)
    return resource.prlimit(process_id, resource.RLIMIT_NOFILE, (handles, hard))


async def test_without_a_free_handle_the_store_goes_on(
    tmp_path: Path, report_counts: ReportCounts
) -> None:
    """Callbacks on open connections are stored, new ones wait, and nothing of it floods the log."""
    settings = settings_for(tmp_path)
    async with lone_daemon(settings) as (daemon, sender):
        during = 0

        async def starve() -> None:
            nonlocal during
            limits = without_free_handles(daemon.process_id)
            before = len(sender.acknowledged)
            await pause(_STARVED_SECONDS)
            during = len(sender.acknowledged) - before
            resource.prlimit(daemon.process_id, resource.RLIMIT_NOFILE, limits)

        await flood(sender, starve)
        assert during > 0
        await eventually(daemon.face.answers, why=lambda: daemon.log[-2_000:])
        readiness = await daemon.face.readiness()
        assert readiness.checks["store"]["ok"]
        assert await daemon.end() == 0
        assert store_copy.read(settings.store).lost(sender.fingerprints) == set()
        assert "Traceback" not in daemon.log
        assert len(daemon.log) < _LOG_BYTES
        report_counts("no free handle", acknowledged=len(sender.acknowledged), meanwhile=during)
