"""Exports or imports a dump, and is killed: ``dying_child.py WAY URL DUMP ROWS``."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.bus.dump_scenario import exported, imported


async def main(way: str, url: str, dump: Path, rows: int) -> None:
    def on_progress(done: int) -> None:
        if done >= rows:
            os.kill(os.getpid(), signal.SIGKILL)

    if way == "export":
        await exported(url, dump, on_progress=on_progress)
    else:
        await imported(dump, url, on_progress=on_progress)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
