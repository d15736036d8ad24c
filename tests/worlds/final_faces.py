"""What the daemon shows when a batch is over: metrics, JSON API and explanations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import aiohttp
from msgspec import Struct

from tests.app.daemon_http import Face
from tests.worlds.script import End, RunKind, World
from tests.worlds.truth import Run

_SHOWN = frozenset(
    {
        "dataprep_runs_total",
        "dataprep_runs_corrected_total",
        "dataprep_consecutive_failures",
        "dataprep_last_run_result",
    }
)


class Sample(Struct, frozen=True):
    """One sample of the metrics page."""

    name: str
    labels: dict[str, str]
    value: float


class FinalFaces(Struct, frozen=True, kw_only=True):
    """What is shown of one workspace."""

    samples: list[Sample]
    pipelines: list[dict[str, Any]]
    alerts: list[dict[str, Any]]
    explanations: dict[Run, dict[str, Any] | None]  # of failed runs; None: the run is not known
    runs: dict[Run, dict[str, Any]] = {}  # those of the failed runs that are known

    def ends(self) -> Counter[tuple[str, str]]:
        """Return what is counted of ended runs, by kind and result."""
        counted: Counter[tuple[str, str]] = Counter()
        for sample in self.samples:
            if sample.name == "dataprep_runs_total":
                counted[sample.labels["kind"], sample.labels["result"]] += int(sample.value)
        return +counted

    def corrected(self) -> int:
        return sum(
            int(sample.value)
            for sample in self.samples
            if sample.name == "dataprep_runs_corrected_total"
        )


async def read_final_faces(face: Face, worlds: Sequence[World]) -> dict[str, FinalFaces]:
    """Read everything that is shown of these worlds."""
    samples: defaultdict[str, list[Sample]] = defaultdict(list)
    for shown in await face.samples(*_SHOWN):
        labels = dict(shown.labels)
        samples[labels["workspace"]].append(Sample(shown.name, labels, shown.value))
    pipelines = await _rows(face, "/api/v1/pipelines")
    alerts = await _rows(face, "/api/v1/alerts")
    return {
        world.name: FinalFaces(
            samples=samples[world.name],
            pipelines=pipelines[world.name],
            alerts=alerts[world.name],
            explanations=await _of_failed_runs(face, world, "/api/v1/explain?run="),
            runs={
                run: row["run"]
                for run, row in (await _of_failed_runs(face, world, "/api/v1/runs/")).items()
                if row is not None
            },
        )
        for world in worlds
    }


async def _rows(face: Face, path: str) -> defaultdict[str, list[dict[str, Any]]]:
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    cursor = ""
    while True:
        page = await face.json(f"{path}?limit=200&cursor={cursor}")
        for row in page["data"]:
            rows[row["workspace"]].append(row)
        if not (cursor := page.get("next")):
            return rows


async def _of_failed_runs(face: Face, world: World, path: str) -> dict[Run, dict[str, Any] | None]:
    """Read what is shown of each failed run below a path; None where it is not known."""
    failed: list[Run] = [
        *((RunKind.JOB_GROUP, group.id) for group in world.job_groups if group.end is End.FAILED),
        *((RunKind.FLOW_RUN, run.id) for run in world.flow_runs if run.end is End.FAILED),
        *((RunKind.PLAN_RUN, run.id) for run in world.plan_runs if run.end is End.FAILED),
    ]
    rows: dict[Run, dict[str, Any] | None] = {}
    async with aiohttp.ClientSession() as session:
        for kind, run_id in failed:
            url = f"{face.url}{path}{world.name}/{kind}/{run_id}"
            async with session.get(url) as answer:
                found = answer.status == 200
                rows[kind, run_id] = await answer.json() if found else None
    return rows
