"""A real Prometheus for tests."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.servers import STOP_SECONDS, free_port, program

_CONFIGURATION = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
scrape_configs:
  - job_name: dataprep-monitor
    static_configs: [{{targets: ["{target}"]}}]
"""


class Prometheus(Face):
    """A scraper, queried through its own API."""

    async def query(self, expression: str) -> list[dict[str, Any]]:
        return await self._data("query", query=expression)

    async def exemplars(self, expression: str) -> list[dict[str, Any]]:
        """Return exemplars; the older text format has none, so they prove OpenMetrics."""
        return await self._data("query_exemplars", query=expression, start="0", end="9999999999")

    async def series(self) -> list[dict[str, str]]:
        """Return the labels of every series that the daemon's scrapes have brought."""
        return await self._data("series", **{"match[]": '{job="dataprep-monitor"}'})

    async def rules(self) -> list[dict[str, Any]]:
        """Return the rules that are loaded, with how their last evaluation went."""
        groups = await self._data("rules")
        return [rule for group in groups for rule in group["rules"]]

    async def _data(self, path: str, **query: str) -> list[dict[str, Any]]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/api/v1/{path}", params=query) as answer,
        ):
            values = await answer.json()
            assert values["status"] == "success", values
            data = values["data"]
            if isinstance(data, dict):
                data = data.get("result", data.get("groups"))
            rows: list[dict[str, Any]] = data
            return rows

    async def is_running(self) -> bool:
        try:
            return "Ready" in await self.text("/-/ready")
        except aiohttp.ClientError:
            return False


@contextlib.asynccontextmanager
async def prometheus(folder: Path, target: str, *, more: str = "") -> AsyncIterator[Prometheus]:
    """Run a Prometheus that scrapes ``target``; ``more`` is added to its configuration."""
    settings, port = folder / "prometheus.yml", free_port()
    settings.write_text(_CONFIGURATION.format(target=target.partition("://")[2]) + more)
    process = await asyncio.create_subprocess_exec(
        program("prometheus"),
        f"--config.file={settings}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--enable-feature=exemplar-storage",
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    try:
        scraper = Prometheus(port)
        await eventually(scraper.is_running, why="prometheus did not start")
        yield scraper
    finally:
        process.terminate()
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
