"""A real Prometheus scrapes the daemon."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from monitor.catalogue.operations import Edition
from tests.app import stage
from tests.app.faces import Face
from tests.app.waiting import eventually
from tests.servers import STOP_SECONDS, free_port, program

_CONFIGURATION = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: dataprep-monitor
    static_configs: [{{targets: ["{target}"]}}]
"""


class Prometheus(Face):
    """A scraper, asked through its own API."""

    async def query(self, expression: str) -> list[dict[str, Any]]:
        return await self._data("query", query=expression)

    async def exemplars(self, expression: str) -> list[dict[str, Any]]:
        """Return exemplars; the older text format has none, so they prove OpenMetrics."""
        return await self._data("query_exemplars", query=expression, start="0", end="9999999999")

    async def _data(self, path: str, **query: str) -> list[dict[str, Any]]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/api/v1/{path}", params=query) as answer,
        ):
            data = (await answer.json())["data"]
            rows: list[dict[str, Any]] = data["result"] if isinstance(data, dict) else data
            return rows

    async def is_running(self) -> bool:
        try:
            return "Ready" in await self.text("/-/ready")
        except aiohttp.ClientError:
            return False


@contextlib.asynccontextmanager
async def prometheus(folder: Path, target: str) -> AsyncIterator[Prometheus]:
    settings, port = folder / "prometheus.yml", free_port()
    settings.write_text(_CONFIGURATION.format(target=target.removeprefix("http://")))
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


async def test_prometheus_scrapes_runs_and_their_exemplars(tmp_path: Path) -> None:
    """The target is up, the runs are counted there as here, and exemplars carry run ids."""
    workspace, kinds = stage.sandbox(), stage.kinds_of(Edition.RL)
    async with (
        stage.started(workspace) as url,
        stage.daemon(
            stage.configuration(tmp_path, stage.workspace_configuration(workspace, url))
        ) as face,
        prometheus(tmp_path, face.url) as scraper,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        workspace.open_for_work()
        await stage.until_ended(workspace, kinds, at_least=1)
        await stage.until_quiet(workspace)
        happened = {
            kind: str(sum(results.values())) for kind, results in workspace.ledger.results().items()
        }
        scraped: dict[str, str] = {}

        async def agrees() -> bool:
            rows = await scraper.query("sum by (kind) (dataprep_runs_total)")
            scraped.update({row["metric"]["kind"]: row["value"][1] for row in rows})
            return scraped == happened

        await eventually(agrees, why=lambda: f"scraped {scraped}, happened {happened}")
        assert [row["value"][1] for row in await scraper.query("up")] == ["1"]
        told = await scraper.exemplars("dataprep_run_duration_seconds_bucket")
        named = {one["labels"]["run_id"] for row in told for one in row["exemplars"]}
        ended = {str(one.run_id) for one in workspace.ledger.transitions()}
        assert named
        assert named <= ended
