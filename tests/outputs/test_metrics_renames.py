"""Pipelines change, swap and lose names; every run stays counted once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.model.runs import PipelineKind, Status
from tests.outputs.metrics_daemon import Daemon, a_daemon
from tests.outputs.metrics_examples import history, named, plan, run


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with a_daemon(tmp_path / "state.db") as made:
        yield made


async def succeeded(daemon: Daemon) -> dict[str, float]:
    page = await daemon.page()
    return {
        dict(labels)["pipeline"]: value
        for labels, value in named(page, "dataprep_runs_total").items()
        if dict(labels)["result"] == "succeeded"
    }


async def test_counters_follow_their_pipeline_through_every_name(daemon: Daemon) -> None:
    """A rename moves the count, a swap swaps it, equal names keep two; so after a restart."""
    for number, pipeline in ((1, 7), (2, 7), (3, 8)):
        ended = run(number, Status.SUCCEEDED, pipeline=plan(pipeline, f"plan {pipeline}"))
        await daemon.emit(*history(ended))
    shown = []
    for seven, eight in (
        ("a", "b"),
        ("b", "a"),
        ("a", "a"),
        ("unknown", "__other__"),
        ("a#8", "a"),
    ):
        daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "7", seven)
        daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "8", eight)
        shown.append(await succeeded(daemon))
    daemon.metrics = daemon.restarted()
    again = await succeeded(daemon)

    assert shown == [
        {"a": 2, "b": 1},
        {"b": 2, "a": 1},
        {"a": 2, "a#8": 1},
        {"unknown#7": 2, "__other__#8": 1},
        {"a#8": 2, "a": 1},
    ]
    assert again == shown[-1]


async def test_a_removed_pipeline_keeps_its_count_under_its_last_name(daemon: Daemon) -> None:
    """The count stays with the id; another pipeline of that name begins at 0."""
    await daemon.emit(*history(run(1, Status.SUCCEEDED, pipeline=plan(7, "daily"))))
    daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "7", "daily")
    before = await succeeded(daemon)
    daemon.live_state.forget_pipeline("one", PipelineKind.PLAN, "7")
    gone = await succeeded(daemon)
    daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "9", "daily")
    reused = await succeeded(daemon)

    assert before == gone == {"daily": 1}
    assert reused == {"daily": 0, "daily#7": 1}
