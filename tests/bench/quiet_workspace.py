"""A workspace in which job groups run and nothing changes, as a process.

``python -m tests.bench.quiet_workspace FIRST RUNNING FLOWS ENDED ENDED_FLOWS`` shows so many
running job groups of so many flows, and after them so many that have ended, all written an hour
ago: the daemon finds them in its initial poll and no poll shows them again, so that what is
measured is the way of the callbacks. Job records are there for each that runs.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import Any

from monitor.model.clock import SystemClock
from tests.polling.tiny_workspace import TinyWorkspace, stamp


async def main(first: str, running: str, flows: str, ended: str, ended_flows: str) -> None:
    """Serve until cancelled."""
    workspace = filled(int(first), int(running), int(flows), int(ended), int(ended_flows))
    await workspace.start()
    sys.stdout.write(f"{workspace.url.rpartition(':')[2]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def filled(
    first: int, running: int, flows: int, ended: int = 0, ended_flows: int = 1
) -> TinyWorkspace:
    """Return a workspace with these job groups, not yet started."""
    workspace = TinyWorkspace(SystemClock())
    end_of_running = first + running
    for number in range(first, end_of_running):
        _put(workspace, number, "InProgress", flow=number % flows + 1)
        workspace.put_job(number)
    for number in range(end_of_running, end_of_running + ended):
        _put(workspace, number, "Complete", flow=number % ended_flows + 1)
    return workspace


def _put(workspace: TinyWorkspace, number: int, status: str, *, flow: int) -> None:
    written_at = stamp(workspace.now() - timedelta(hours=1))
    fields: dict[str, Any] = {
        "createdAt": written_at,
        "updatedAt": written_at,
        "wrangledDataset": {"id": flow, "flow": {"id": flow, "name": f"flow {flow}"}},
    }
    workspace.put_job_group(number, status, **fields)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
