"""One episode: a cluster under load, a few faults after each other, and the judgement."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.app.eventually import pause
from tests.crash.cluster.faults import CLOCK_FAULTS, DISK_FAULTS, FAULTS
from tests.crash.cluster.judge import Findings, judge
from tests.crash.cluster.scenario import ClusterOptions, cluster


async def play(folder: Path, options: ClusterOptions, faults: Sequence[str]) -> Findings:
    """Let the named faults happen, each when everything is held again after the one before."""
    chosen = {FAULTS[name] for name in faults}
    options = msgspec.structs.replace(
        options,
        sets_clocks=not chosen.isdisjoint(CLOCK_FAULTS),
        fills_disks=not chosen.isdisjoint(DISK_FAULTS),
    )
    async with cluster(folder, options) as scenario:
        async with scenario.load.running():
            for name in faults:
                scenario.faults.append(name)
                scenario.faults_at.append(time.time())
                await FAULTS[name](scenario)
                await scenario.until_settled()
                await pause(scenario.chance.uniform(0, 1.5))
        return await judge(scenario)
