"""Plays episodes by hand: ``python -m tests.crash.cluster --minutes N --seed S``.

Each episode has the next seed, a new cluster and a few faults in random order. ``--faults`` names
the faults of every episode. Exits 1 if a promise was broken; the logs of those episodes are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pytest

from tests.crash.cluster.episodes import play
from tests.crash.cluster.faults import DISK_FAULTS, FAULTS
from tests.crash.cluster.judge import Findings
from tests.crash.cluster.scenario import ClusterOptions
from tests.crash.cluster.takeovers import quantiles


def main() -> int:
    """Play until the time is over and return the exit code."""
    options = _options()
    end = time.monotonic() + options.minutes * 60
    seed = options.seed
    played: list[Findings] = []
    while not played or time.monotonic() < end:
        played.append(_episode(seed, options))
        seed += 1
    takeovers = quantiles([seconds for findings in played for seconds in findings.takeovers])
    broken = sum(bool(findings.broken) for findings in played)
    lost = sum(findings.lost for findings in played)
    print(f"{len(played)} episodes, {broken} broken, lost {lost}, takeovers {takeovers}")  # noqa: T201 - a command
    return 1 if broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.cluster")
    parser.add_argument("--minutes", type=float, default=0, help="0 plays a single episode")
    parser.add_argument("--seed", type=int, default=0, help="that of the first episode")
    parser.add_argument("--lease", type=float, default=9.0, help="storage.lease_seconds")
    parser.add_argument("--workspaces", type=int, default=4)
    parser.add_argument("--length", type=int, default=6, help="faults of an episode")
    parser.add_argument("--faults", nargs="*", choices=sorted(FAULTS), help="these, in this order")
    return parser.parse_args()


def _possible_faults() -> list[str]:
    # Only root may make a disk that can be full.
    return [name for name, fault in FAULTS.items() if fault not in DISK_FAULTS or os.geteuid() == 0]


def _episode(seed: int, options: argparse.Namespace) -> Findings:
    chance = random.Random(seed)  # noqa: S311 - no secret
    faults = options.faults or chance.choices(_possible_faults(), k=options.length)
    print(f"seed {seed}: {', '.join(faults)}", flush=True)  # noqa: T201 - a command
    folder = Path(tempfile.mkdtemp(prefix="cluster-"))
    chosen = ClusterOptions(seed=seed, lease_seconds=options.lease, workspaces=options.workspaces)
    try:
        findings = asyncio.run(play(folder, chosen, faults))
    except (Exception, BaseExceptionGroup, pytest.fail.Exception):  # noqa: BLE001 - the next episode may show more
        findings = Findings(broken=[traceback.format_exc()])
    counts = ", ".join(f"{name} {count}" for name, count in findings.counts().items())
    print(f"  {counts}", *findings.broken, sep="\n  ", flush=True)  # noqa: T201 - a command
    if findings.broken:
        print(f"  logs: {folder}")  # noqa: T201 - a command
    else:
        shutil.rmtree(folder)
    return findings


if __name__ == "__main__":
    sys.exit(main())
