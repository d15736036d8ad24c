"""Cuts the processor share of a process, as on a machine that is so much smaller.

Each server gets a control group of its own, which may use so much of all cores together; sender,
subscriber and broker stay outside, as they would be on machines of their own. The period is the
shortest that the kernel's tick enforces well: with the usual 100 ms a server that needs less than
its share would not be slowed at all, and one that needs more would halt for most of each period.

Version 2 of control groups where its ``cpu`` controller is at hand, version 1 otherwise; both need
the right to write there, so in practice root.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

QUARTER = 0.25
_PERIOD_MICROSECONDS = 4_000
_ROOT = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def held_to(share: float, process_id: int) -> Iterator[None]:
    """Let a process use that share of all cores together; 1 changes nothing.

    Raises:
        RuntimeError: no control group can be made here.
    """
    if share >= 1:
        yield
        return
    group = _make_group(process_id, share)
    try:
        (group / "cgroup.procs").write_text(str(process_id))
        yield
    finally:
        # Only an empty group can be removed; its process may live on, or has ended by itself.
        with contextlib.suppress(ProcessLookupError):
            (group.parent / "cgroup.procs").write_text(str(process_id))
        group.rmdir()


def _make_group(process_id: int, share: float) -> Path:
    quota = int(share * len(os.sched_getaffinity(0)) * _PERIOD_MICROSECONDS)
    is_version_2 = (_ROOT / "cgroup.controllers").exists()
    group = (_ROOT if is_version_2 else _ROOT / "cpu") / f"bench-{process_id}"
    try:
        group.mkdir()
        if is_version_2:
            (group / "cpu.max").write_text(f"{quota} {_PERIOD_MICROSECONDS}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_MICROSECONDS))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
    except OSError as exc:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise RuntimeError(f"no control group for processor time: {exc}") from exc
    return group
