"""What is shown beyond runs: as told, for as long as it holds, and inside the budget."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.model.inventory import Inventory
from monitor.model.runs import PipelineKind, RunKind, Status
from monitor.outputs.metrics.families import SERIES_OF_PIPELINE
from monitor.outputs.settings import MetricsSettings
from tests.outputs.metrics_daemon import Daemon, a_daemon
from tests.outputs.metrics_examples import flow, history, named, run, samples, series
from tests.outputs.metrics_page_parts import connection, quality, told

SALES = flow(3, "Sales")
FAMILIES = (
    "dataprep_objects",
    "dataprep_connection_up",
    "dataprep_token_expiry_timestamp_seconds",
    "dataprep_usage",
    "dataprep_output_values_ratio",
)


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with a_daemon(tmp_path / "state.db") as made:
        made.reachable()
        made.live_state.name_pipeline("one", PipelineKind.FLOW, "3", "Sales")
        yield made


def tell(daemon: Daemon, inventory: Inventory) -> None:
    daemon.live_state.update_workspace("one", inventory=inventory)


async def test_what_was_told_is_shown_as_told(daemon: Daemon) -> None:
    """Counts, times and measures are the workspace's; qualities are shares of all values."""
    tell(daemon, told(SALES))
    found = samples(await daemon.page())
    output = {"workspace": "one", "pipeline": "Sales", "output": "orders"}
    assert found[series("dataprep_objects", workspace="one", type="flow")] == 3
    assert found[series("dataprep_objects", workspace="one", type="plan")] == 0
    assert found[series("dataprep_connection_up", workspace="one", connection="warehouse")] == 0
    expiry = series("dataprep_token_expiry_timestamp_seconds", workspace="one", token_id="abc")
    assert found[expiry] == 1_800_000_000
    assert found[series("dataprep_usage", workspace="one", measure="computeSeconds")] == 12.5
    shares = [
        found[series("dataprep_output_values_ratio", **output, quality=text)]
        for text in ("valid", "mismatched", "missing")
    ]
    assert shares == [0.9, 0.06, 0.04]


async def test_what_could_not_be_read_again_is_not_repeated(daemon: Daemon) -> None:
    """Past its time a figure is absent; what a run's profile said stays true of that run."""
    tell(daemon, told(SALES))
    await daemon.clock.advance(3_600)
    page = await daemon.page()
    assert [name for name in FAMILIES if named(page, name)] == ["dataprep_output_values_ratio"]


async def test_equal_names_are_told_apart(daemon: Daemon) -> None:
    """The lower id keeps the plain name, of connections as of the outputs of one pipeline."""
    tell(
        daemon,
        Inventory(
            connections=(connection(10, "db"), connection(9, "db", is_up=False)),
            outputs=(quality(SALES, 2, "out", 1, 0, 0), quality(SALES, 11, "out", 0, 0, 1)),
        ),
    )
    page = await daemon.page()
    up = {dict(item)["connection"]: value for item, value in named(page, FAMILIES[1]).items()}
    valid = {
        labels["output"]: value
        for item, value in named(page, FAMILIES[4]).items()
        if (labels := dict(item))["quality"] == "valid"
    }
    assert up == {"db": 0, "db#10": 1}
    assert valid == {"out": 1, "out#11": 0}


async def test_an_output_without_values_has_no_quality(daemon: Daemon) -> None:
    """No share of nothing is shown."""
    tell(daemon, Inventory(outputs=(quality(SALES, 2, "out", 0, 0, 0),)))
    assert named(await daemon.page(), FAMILIES[4]) == {}


async def test_outputs_beyond_their_number_are_shown_as_one(daemon: Daemon) -> None:
    """Five hundred have series; the rest is one share over all their values."""
    many = [quality(SALES, number, f"out {number}", 1, 0, 0) for number in range(1, 500)]
    rest = [quality(SALES, number, f"out {number}", 1, 1, 2) for number in range(500, 510)]
    tell(daemon, Inventory(outputs=(*many, *rest)))
    page = await daemon.page()
    assert len(named(page, FAMILIES[4])) == 3 * 500
    other = {"workspace": "one", "pipeline": "__other__", "output": "__other__"}
    found = samples(page)
    assert found[series(FAMILIES[4], **other, quality="missing")] == 0.5


async def test_the_budget_holds_and_says_what_it_left_out(tmp_path: Path) -> None:
    """With hardly any series left the pipelines stay, and what is dropped is counted by metric."""
    reserved = len(RunKind) * 2 * sum(SERIES_OF_PIPELINE.values())
    settings = MetricsSettings(series_budget=reserved + sum(SERIES_OF_PIPELINE.values()))
    async with a_daemon(tmp_path / "state.db", settings) as daemon:
        daemon.reachable()
        pipeline = flow(3, "Sales")
        ended = run(1, Status.SUCCEEDED, kind=RunKind.JOB_GROUP, pipeline=pipeline)
        await daemon.tell(*history(ended))
        tell(daemon, told(pipeline))
        page = await daemon.page()
        found = samples(page)
        dropped = {
            name: found[series("dataprep_monitor_series_dropped_total", metric=name)]
            for name in FAMILIES
        }
    assert [name for name in FAMILIES if named(page, name)] == []
    assert dropped == dict(zip(FAMILIES, (2, 1, 1, 1, 3), strict=True))
