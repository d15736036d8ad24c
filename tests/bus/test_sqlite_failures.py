"""A store that fails at each of its steps in turn, and observations that are repeated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.bus.failing_child import Report
from tests.bus.test_sqlite_crash import ROOT

# A callback reports the end of the first run before a poll does.
EXPECTED_LOG = sorted(
    f"marketing:job_group:{run}:{word}"
    for run, ends in (("1", ("succeeded", "confirmed")), ("2", ("failed",)))
    for word in ("queued", "started", *ends)
)
FEWEST_STEPS = 20  # five commits of several statements each


@pytest.mark.parametrize("failure", ["kill", "full", "locked"])
def test_every_event_is_stored_once_whichever_step_fails(tmp_path: Path, failure: str) -> None:
    """Killed, full or locked at any statement: a retry publishes nothing twice."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.bus.failing_child", str(tmp_path), failure],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [line for line in child.stdout.splitlines() if line.startswith("{")]
    reports = [msgspec.json.decode(line, type=Report) for line in lines]

    assert child.returncode == 0, child.stderr[-3000:]
    assert len(reports) > FEWEST_STEPS
    assert [sorted(report.log) for report in reports] == [EXPECTED_LOG] * len(reports)
    assert {(report.waiting, report.watermark) for report in reports} == {(0, "end")}
    assert failure == "kill" or any(report.failures for report in reports)
