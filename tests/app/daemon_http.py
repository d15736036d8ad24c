"""What a daemon shows over HTTP, whether it runs in this process or in one of its own."""

from __future__ import annotations

import ssl
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
from msgspec import Struct
from prometheus_client.samples import Sample

from tests.app.exposition import samples_of

_TIMEOUT = aiohttp.ClientTimeout(total=15)


class Readiness(Struct, frozen=True):
    """The answer of ``/readyz``."""

    status: int
    checks: dict[str, dict[str, Any]]


class Face:
    """Client of one daemon's server. A stopped daemon answers nothing."""

    def __init__(self, port: int, *, authority: Path | None = None) -> None:
        """``authority`` has signed the certificate of the server, which speaks TLS then."""
        self.url = f"{'http' if authority is None else 'https'}://127.0.0.1:{port}"
        self._tls = True if authority is None else ssl.create_default_context(cafile=authority)

    def _session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(ssl=self._tls)
        return aiohttp.ClientSession(timeout=_TIMEOUT, connector=connector)

    async def answers(self) -> bool:
        try:
            await self.json("/healthz")
        except aiohttp.ClientError:
            return False
        return True

    async def text(self, path: str, **headers: str) -> str:
        async with (
            self._session() as session,
            session.get(self.url + path, headers=headers) as answer,
        ):
            return await answer.text()

    async def json(self, path: str) -> Any:
        async with (
            self._session() as session,
            session.get(self.url + path) as answer,
        ):
            return await answer.json()

    async def post(self, path: str, **body: str | bool) -> Any:
        async with (
            self._session() as session,
            session.post(self.url + path, json=body) as answer,
        ):
            return await answer.json()

    async def has_webhook_tasks(self) -> bool:
        """Let the daemon register its webhook tasks now; False while it knows of no flow."""
        rows = (await self.post("/api/v1/webhooks", action="sync")).get("data", [])
        return bool(rows) and all(row["state"] == "registered" for row in rows)

    async def readiness(self) -> Readiness:
        async with (
            self._session() as session,
            session.get(self.url + "/readyz") as answer,
        ):
            return Readiness(answer.status, (await answer.json())["checks"])

    async def is_following(self, *workspaces: str) -> bool:
        """True once each of them has its ``followed_since`` and is polled for changes."""
        received = {
            row["workspace"]: row for row in (await self.json("/api/v1/workspaces"))["data"]
        }
        return all(
            name in received and received[name]["followed_since"] and received[name]["capabilities"]
            for name in workspaces
        )

    async def metric(self, name: str, **labels: str) -> float | None:
        """Return one sample of the metrics page, None where it is absent."""
        for sample in await self.samples(name):
            if labels.items() <= sample.labels.items():
                return float(sample.value)
        return None

    async def shows(self, name: str, value: float, **labels: str) -> bool:
        return await self.metric(name, **labels) == value

    async def total(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples."""
        samples = await self.samples(name)
        return float(
            sum(sample.value for sample in samples if labels.items() <= sample.labels.items())
        )

    async def has_counted(self, workspace: str) -> bool:
        """True once an end of every kind was counted for the workspace."""
        kinds = {kind for kind, _ in await self.ends(workspace=workspace)}
        return kinds == {"flow_run", "job_group", "plan_run"}

    async def watches(self, *workspaces: str) -> bool:
        """True when the daemon watches exactly these, in page and metrics."""
        received = [row["workspace"] for row in (await self.json("/api/v1/workspaces"))["data"]]
        up = await self.samples("dataprep_workspace_up")
        return received == [sample.labels["workspace"] for sample in up] == list(workspaces)

    async def ends(self, **labels: str) -> Counter[tuple[str, str]]:
        """Return what ``dataprep_runs_total`` counts, by kind and result."""
        ends: Counter[tuple[str, str]] = Counter()
        for sample in await self.samples("dataprep_runs_total"):
            if labels.items() <= sample.labels.items():
                ends[sample.labels["kind"], sample.labels["result"]] += int(sample.value)
        return +ends

    async def samples(self, *names: str) -> list[Sample]:
        """Return the samples with these names of the metrics page."""
        return samples_of(await self.text("/metrics"), *names)
