"""Series have a budget; pipelines beyond it share a series and nothing is counted twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.model.runs import PipelineKind, RunKind, Status
from monitor.outputs.metrics.families import SERIES_OF_IDLE_PIPELINE, SERIES_OF_PIPELINE
from monitor.outputs.metrics.series_budget import limits_of
from monitor.outputs.metrics.settings import MetricsSettings
from tests.outputs.metrics_daemon import Daemon, a_daemon
from tests.outputs.metrics_examples import NOON, flow, history, named, plan, run, samples, series
from tests.pipeline_healths import end_at, failures_until

# `unknown` and `__other__` of one workspace come first; then series for two pipelines.
COST = sum(SERIES_OF_PIPELINE.values())
TIGHT = MetricsSettings(series_budget=6 * COST + 2 * COST)


def by_pipeline(page: bytes, name: str) -> dict[str, float]:
    """Return the sums of one metric over all labels but the pipeline."""
    sums: dict[str, float] = {}
    for labels, value in named(page, name).items():
        pipeline = dict(labels)["pipeline"]
        sums[pipeline] = sums.get(pipeline, 0) + value
    return sums


async def run_plans(daemon: Daemon, numbers: range, *, first_run: int = 0) -> None:
    daemon.reachable()
    for number in numbers:
        name = f"plan {number}"
        daemon.live_state.name_pipeline("one", PipelineKind.PLAN, str(number), name)
        pipeline = plan(number, name)
        await daemon.emit(*history(run(first_run + number, Status.SUCCEEDED, pipeline=pipeline)))
        ends = failures_until(NOON, 5) if number == 4 else [end_at(NOON)]
        daemon.stand(None, pipeline, *ends)


async def test_pipelines_beyond_the_budget_share_a_series(tmp_path: Path) -> None:
    """The sum over all pipelines is the true one, however many of them share a series."""
    async with a_daemon(tmp_path / "state.db", TIGHT) as daemon:
        await run_plans(daemon, range(1, 6))
        page = await daemon.page()
    assert by_pipeline(page, "dataprep_runs_total") == {"plan 1": 1, "plan 2": 1, "__other__": 3}
    assert by_pipeline(page, "dataprep_run_duration_seconds_count")["__other__"] == 3
    assert by_pipeline(page, "dataprep_consecutive_failures")["__other__"] == 5
    worst = series(
        "dataprep_last_run_result",
        workspace="one",
        kind="plan_run",
        pipeline="__other__",
        result="failed",
    )
    assert samples(page)[worst] == 1


async def test_pipelines_that_share_a_series_keep_sharing_it(tmp_path: Path) -> None:
    """No counter decreases, neither within a process nor over a restart."""
    async with a_daemon(tmp_path / "state.db", TIGHT) as daemon:
        await run_plans(daemon, range(1, 6))
        before = by_pipeline(await daemon.page(), "dataprep_runs_total")
        daemon.metrics = daemon.restarted()
        assert by_pipeline(await daemon.page(), "dataprep_runs_total") == before
        await run_plans(daemon, range(1, 6), first_run=100)
        after = by_pipeline(await daemon.page(), "dataprep_runs_total")
    assert after == {name: 2 * value for name, value in before.items()}


async def test_a_larger_budget_begins_counts_and_removes_none(tmp_path: Path) -> None:
    """With a larger budget later runs have their own series; existing series keep their counts."""
    async with a_daemon(tmp_path / "state.db", TIGHT) as daemon:
        await run_plans(daemon, range(1, 6))
        await daemon.page()
        daemon.settings = MetricsSettings()
        daemon.metrics = daemon.restarted()
        await run_plans(daemon, range(1, 6), first_run=100)
        after = by_pipeline(await daemon.page(), "dataprep_runs_total")
    assert after.pop("__other__") == 3
    assert sum(after.values()) == 7


async def test_the_budget_holds_and_its_cost_is_reported(tmp_path: Path) -> None:
    """However many pipelines there are, the page stays within its budget and reports the rest."""
    async with a_daemon(tmp_path / "state.db", TIGHT) as daemon:
        await run_plans(daemon, range(1, 6))
        for number in range(500):
            name, recipe = f"flow {number}", f"recipe {number}"
            daemon.live_state.name_pipeline("one", PipelineKind.FLOW, str(number), name)
            daemon.stand(recipe, flow(number, name), end_at(NOON))
            state = run(
                number,
                Status.RUNNING,
                kind=RunKind.FLOW_RUN,
                pipeline=flow(number, name),
                seconds=None,
            )
            daemon.activate(state)
        first = await daemon.page()
        second = await daemon.page()
    watched = [sample for sample in samples(first) if not sample[0].startswith("dataprep_monitor")]
    watched = [key for key in watched if key[0].startswith("dataprep_")]
    assert samples(first)[series("dataprep_monitor_series")] == len(watched)
    assert len(watched) <= TIGHT.series_budget
    active = named(first, "dataprep_runs_active")
    assert sum(active.values()) == 500
    dropped = named(first, "dataprep_monitor_series_dropped_total")
    assert dropped[frozenset({("metric", "dataprep_runs_total")})] == 4 * 1_003
    assert named(second, "dataprep_monitor_series_dropped_total") == dropped


async def test_pipelines_that_never_ran_use_only_the_rest_of_the_budget(tmp_path: Path) -> None:
    """A pipeline that runs has its series, however many idle ones were shown before."""
    async with a_daemon(tmp_path / "state.db", TIGHT) as daemon:
        for number in range(1, 101):
            name = f"plan {number}"
            daemon.live_state.name_pipeline("one", PipelineKind.PLAN, str(number), name)
        idle = by_pipeline(await daemon.page(), "dataprep_runs_total")
        await run_plans(daemon, range(99, 101))
        busy = by_pipeline(await daemon.page(), "dataprep_runs_total")
    shown = 2 * COST // sum(SERIES_OF_IDLE_PIPELINE.values())
    assert shown > 2
    assert set(idle) == {f"plan {number}" for number in range(1, shown + 1)}
    assert busy == {"plan 99": 1, "plan 100": 1}


@pytest.mark.parametrize(("budget", "places"), [(1, 0), (6 * COST, 0), (7 * COST, 1)])
def test_the_reserved_series_are_paid_first(budget: int, places: int) -> None:
    """A budget that is too small leaves no series for pipelines, and never a negative number."""
    limits = limits_of(series_budget=budget, forget_seconds=1.0, workspaces=1)
    assert limits.places == places


async def test_without_any_budget_everything_is_still_counted(tmp_path: Path) -> None:
    """An empty budget shows one sum for each workspace and kind."""
    async with a_daemon(tmp_path / "state.db", MetricsSettings(series_budget=1)) as daemon:
        await run_plans(daemon, range(1, 4))
        page = await daemon.page()
    assert by_pipeline(page, "dataprep_runs_total") == {"__other__": 3}
    assert not named(page, "dataprep_pipeline_info")
