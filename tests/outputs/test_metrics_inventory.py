"""The inventory on the page: as the workspace reports it, until it expires, within the budget."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.model.inventory import Inventory
from monitor.model.runs import PipelineKind, RunKind, Status
from monitor.outputs.metrics.families import SERIES_OF_PIPELINE
from monitor.outputs.metrics.settings import MetricsSettings
from tests.outputs.metrics_daemon import Daemon, a_daemon
from tests.outputs.metrics_examples import flow, history, named, run, samples, series
from tests.outputs.metrics_page_parts import connection, full_inventory, quality

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


def update_inventory(daemon: Daemon, inventory: Inventory) -> None:
    daemon.live_state.update_workspace("one", inventory=inventory)


async def test_the_inventory_is_shown_as_reported(daemon: Daemon) -> None:
    """Counts, times and measures are the workspace's; qualities are shares of all values."""
    update_inventory(daemon, full_inventory(SALES))
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


async def test_an_expired_figure_is_not_repeated(daemon: Daemon) -> None:
    """An expired figure is absent; the quality of a run's output stays valid."""
    update_inventory(daemon, full_inventory(SALES))
    await daemon.clock.advance(3_600)
    page = await daemon.page()
    assert [name for name in FAMILIES if named(page, name)] == ["dataprep_output_values_ratio"]


async def test_equal_names_are_distinguished(daemon: Daemon) -> None:
    """The lower id keeps the plain name, of connections as of the outputs of a pipeline."""
    update_inventory(
        daemon,
        Inventory(
            connections=(connection(10, "db"), connection(9, "db", is_up=False)),
            outputs=(quality(SALES, 2, "out", 1, 0, 0), quality(SALES, 11, "out", 0, 0, 1)),
        ),
    )
    page = await daemon.page()
    up = {dict(pairs)["connection"]: value for pairs, value in named(page, FAMILIES[1]).items()}
    valid = {
        labels["output"]: value
        for pairs, value in named(page, FAMILIES[4]).items()
        if (labels := dict(pairs))["quality"] == "valid"
    }
    assert up == {"db": 0, "db#10": 1}
    assert valid == {"out": 1, "out#11": 0}


async def test_an_output_without_values_has_no_quality(daemon: Daemon) -> None:
    """An output without values has no shares."""
    update_inventory(daemon, Inventory(outputs=(quality(SALES, 2, "out", 0, 0, 0),)))
    assert named(await daemon.page(), FAMILIES[4]) == {}


async def test_outputs_above_their_limit_are_shown_as_one(daemon: Daemon) -> None:
    """Five hundred outputs have series; the rest is one share over all their values."""
    many = [quality(SALES, number, f"out {number}", 1, 0, 0) for number in range(1, 500)]
    rest = [quality(SALES, number, f"out {number}", 1, 1, 2) for number in range(500, 510)]
    update_inventory(daemon, Inventory(outputs=(*many, *rest)))
    page = await daemon.page()
    assert len(named(page, FAMILIES[4])) == 3 * 500
    shared = {"workspace": "one", "pipeline": "__other__", "output": "__other__"}
    found = samples(page)
    assert found[series(FAMILIES[4], **shared, quality="missing")] == 0.5


async def test_the_budget_holds_and_counts_what_it_left_out(tmp_path: Path) -> None:
    """With hardly any series left the pipelines stay, and dropped series are counted by metric."""
    reserved = len(RunKind) * 2 * sum(SERIES_OF_PIPELINE.values())
    settings = MetricsSettings(series_budget=reserved + sum(SERIES_OF_PIPELINE.values()))
    async with a_daemon(tmp_path / "state.db", settings) as daemon:
        daemon.reachable()
        pipeline = flow(3, "Sales")
        ended = run(1, Status.SUCCEEDED, kind=RunKind.JOB_GROUP, pipeline=pipeline)
        await daemon.emit(*history(ended))
        update_inventory(daemon, full_inventory(pipeline))
        page = await daemon.page()
        found = samples(page)
        dropped = {
            name: found[series("dataprep_monitor_series_dropped_total", metric=name)]
            for name in FAMILIES
        }
    assert [name for name in FAMILIES if named(page, name)] == []
    assert dropped == dict(zip(FAMILIES, (2, 1, 1, 1, 3), strict=True))
