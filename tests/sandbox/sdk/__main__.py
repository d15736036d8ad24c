"""Run the vendor's Python SDK of 2021 against a sandbox and print what each of its calls came to.

By hand only: it makes an environment of its own in a temporary folder, and pip fetches the SDK
and what it needs. Ends with 1 if a call failed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import venv
from pathlib import Path

from monitor.catalogue.operations import Edition
from monitor.model.clock import SystemClock
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings

SDK = "trifacta==8.5.1"
# It asks for Python 3.8 and old versions of all of these; it works with today's.
NEEDS = (
    *("boto3", "ijson", "ipywidgets", "metaphone", "numpy", "pandas", "python-slugify"),
    *("pywebhdfs", "regex", "requests", "simplejson", "tqdm"),
)
CALLS = Path(__file__).with_name("calls.py")
LIMIT_SECONDS = 600.0


async def main() -> int:
    settings = SandboxSettings(
        edition=Edition.OPEN,
        traffic=None,
        schedules_fire=False,
        work=WorkSettings(speed=100.0, failure_factor=0.0, cancel_ratio=0.0),
    )
    sandbox = Sandbox(settings, SystemClock())
    with tempfile.TemporaryDirectory(prefix="sandbox-sdk-") as folder:
        python = await _environment(Path(folder))
        url = await sandbox.start()
        try:
            return await _run(str(python), str(CALLS), url, sandbox.token, home=folder)
        finally:
            await sandbox.stop()


async def _environment(folder: Path) -> Path:
    venv.create(folder / "environment", with_pip=True)
    python = folder / "environment" / "bin" / "python"
    pip = (str(python), "-m", "pip", "install", "--quiet")
    for packages in (NEEDS, ("--no-deps", "--ignore-requires-python", SDK)):
        if await _run(*pip, *packages, home=str(folder)):
            raise SystemExit(f"pip could not install {' '.join(packages)}")
    return python


async def _run(*command: str, home: str) -> int:
    # The SDK reads its settings from the home directory, and opens pages with BROWSER.
    environment = {**os.environ, "HOME": home, "BROWSER": "true", "PYTHONWARNINGS": "ignore"}
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    try:
        return await asyncio.wait_for(process.wait(), LIMIT_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
