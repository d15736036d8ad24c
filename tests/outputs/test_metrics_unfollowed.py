"""Runs that cannot be followed have no number on the page: not even 0."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.model.live_state import Reachability, UnsharedPipeline, pipeline_key
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status
from tests.outputs.metrics_daemon import Daemon, a_daemon
from tests.outputs.metrics_examples import named, plan, run


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with a_daemon(tmp_path / "state.db") as made:
        yield made


async def test_an_unlisted_kind_of_run_is_not_shown_as_idle(daemon: Daemon) -> None:
    """Where flow runs cannot be followed, no flow has 0 of them active."""
    live_state = daemon.live_state
    live_state.update_workspace("one", reachability=Reachability.REACHABLE)
    live_state.confirm("one", RunKind.JOB_GROUP, daemon.clock.now())
    live_state.name_pipeline("one", PipelineKind.FLOW, "3", "orders")
    kinds = {dict(pairs)["kind"] for pairs in named(await daemon.page(), "dataprep_runs_active")}

    assert kinds == {"job_group"}


async def test_a_run_that_was_named_is_shown_although_none_are_listed(daemon: Daemon) -> None:
    """A tracked flow run has fresh live state of its own."""
    daemon.live_state.update_workspace("one", reachability=Reachability.REACHABLE)
    daemon.activate(run(1, Status.RUNNING, seconds=None))
    shown = named(await daemon.page(), "dataprep_runs_active")

    assert sum(shown.values()) == 1


async def test_a_run_without_observations_is_unknown_beside_fresh_lists(
    daemon: Daemon,
) -> None:
    """A run whose own reads are refused expires, although its kind is listed."""
    daemon.activate(run(1, Status.RUNNING, pipeline=plan(7, "daily"), seconds=None))
    daemon.activate(run(2, Status.RUNNING, pipeline=plan(8, "hourly"), seconds=None))
    await daemon.clock.advance(4 * 300 - 1)
    daemon.reachable()
    before = named(await daemon.page(), "dataprep_runs_active")
    daemon.activate(run(2, Status.RUNNING, pipeline=plan(8, "hourly"), seconds=None))
    await daemon.clock.advance(2)
    after = named(await daemon.page(), "dataprep_runs_active")

    assert {dict(pairs)["pipeline"] for pairs in before} == {"daily", "hourly"}
    assert {dict(pairs)["pipeline"] for pairs in after} == {"hourly"}


async def test_a_pipeline_that_is_not_shared_has_no_number(daemon: Daemon) -> None:
    """Neither where a run of it was seen, nor where none was; all others are counted."""
    daemon.reachable()
    daemon.activate(run(1, Status.RUNNING, pipeline=plan(7, "daily"), seconds=None))
    daemon.activate(run(2, Status.RUNNING, pipeline=plan(8, "hourly"), seconds=None))
    for number, name in ((3, "weekly"), (4, "monthly")):
        daemon.live_state.name_pipeline("one", PipelineKind.PLAN, str(number), name)
    hidden = {
        pipeline_key(PipelineKind.PLAN, number): UnsharedPipeline(
            pipeline=Pipeline(kind=PipelineKind.PLAN, id=number),
            since=daemon.clock.now(),
            hidden_from=daemon.clock.now(),
            reason="403",
        )
        for number in ("7", "3")
    }
    daemon.live_state.update_workspace("one", unshared=hidden)
    page = await daemon.page()
    shown = named(page, "dataprep_runs_active")

    assert {dict(pairs)["pipeline"] for pairs in shown} == {"hourly", "monthly"}
    assert list(named(page, "dataprep_unshared_pipelines").values()) == [2]
