"""Three daemons on one database lose a daemon, a lease in mid-transaction, the primary, a clock."""

from __future__ import annotations

from pathlib import Path

from tests.crash.cluster.episodes import play
from tests.crash.cluster.scenario import ClusterOptions
from tests.crash.conftest import ReportCounts

LEASE_SECONDS = 5.0  # a shorter one is lost again and again where a store has no processor for 2 s


async def test_a_cluster_loses_nothing_and_says_nothing_twice(
    tmp_path: Path, seed: int, report_counts: ReportCounts
) -> None:
    """A kill and an upgrade, a daemon that wakes after its lease in mid-write, a promotion."""
    options = ClusterOptions(seed=seed % 100_000, lease_seconds=LEASE_SECONDS, workspaces=3)
    findings = await play(tmp_path, options, ["vanish", "freeze_before_write", "promote_standby"])
    assert findings.broken == []
    assert findings.lost == 0
    assert findings.takeovers
    assert findings.failovers
    report_counts("cluster", seed=seed, **findings.counts())


async def test_a_cluster_in_which_a_clock_is_set_loses_nothing(
    tmp_path: Path, seed: int, report_counts: ReportCounts
) -> None:
    """The clock of a holder jumps ahead or back, by up to 40 days, and then to the right time."""
    options = ClusterOptions(seed=seed % 100_000, lease_seconds=LEASE_SECONDS, workspaces=1)
    findings = await play(tmp_path, options, ["set_clock_of_daemon"])
    assert findings.broken == []
    assert findings.lost == 0
    report_counts("cluster with a set clock", seed=seed, **findings.counts())
