"""A workspace in which job groups run and nothing changes, as a process.

``python -m tests.bench.quiet_workspace FIRST COUNT FLOWS`` shows so many running job groups of
so many flows, written an hour ago: the daemon finds them in its initial poll and no poll shows them
again, so that what is measured is the way of the callbacks. Job records are there for each.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import Any

from monitor.model.clock import SystemClock
from tests.polling.tiny_workspace import TinyWorkspace, stamp


async def main(first: str, count: str, flows: str) -> None:
    """Serve until cancelled."""
    workspace = TinyWorkspace(SystemClock())
    written_at = stamp(workspace.now() - timedelta(hours=1))
    for number in range(int(first), int(first) + int(count)):
        flow = number % int(flows) + 1
        fields: dict[str, Any] = {
            "createdAt": written_at,
            "updatedAt": written_at,
            "wrangledDataset": {"id": flow, "flow": {"id": flow, "name": f"flow {flow}"}},
        }
        row = workspace.put_job_group(number, **fields)
        row.update(fields)
        workspace.put_job(number)
    await workspace.start()
    sys.stdout.write(f"{workspace.url.rpartition(':')[2]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
