"""Each benchmark still yields figures; their values are not tested here."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.bench import (
    alert_engine,
    alert_rules,
    alerts,
    backtest,
    cluster,
    ended_runs,
    idle_shards,
    ingest,
    job_library,
    outage,
    page_bytes,
    page_reads,
    page_viewers,
    pipelines,
    requests,
    run_memory,
    stores,
    subscriber,
)
from tests.bench.figures import Figure, percentile, ratios, table
from tests.bench.load import Report
from tests.bench.results import Measured, comparison, load, results, save, target_rows
from tests.bench.slowed import held_to
from tests.bench.subscriber_figures import BRIDGE, NODE_RED, OURS, Pace, Round, figures_of

MANY = 6_000.0  # requests a minute, so that a daemon is ready soon
NO_REPORT = Report(
    answered=0, refused=0, per_second=0, answer_p50=0, answer_p99=0, busy_share=0, arrival_p50=1
)


def assert_measured(figures: list[Figure]) -> None:
    """Every line has numbers above zero, and at least one has a target."""
    assert any(figure.target is not None for figure in figures)
    assert_positive(figures)


def assert_positive(figures: list[Figure]) -> None:
    values = [value for figure in figures for value in figure.values]
    assert values
    assert all(math.isfinite(value) and value > 0 for value in values), figures


@pytest.mark.soak
async def test_ingest_is_measured() -> None:
    """Both servers accept callbacks and yield a ratio."""
    assert_measured(await ingest.measure(ingest.Sizes(repetitions=1, seconds=0.1, connections=4)))


@pytest.mark.soak
async def test_the_way_to_the_subscriber_is_measured() -> None:
    """Every sent run arrives, from the bridge and from the daemon."""
    pace = Pace(per_second=0.0, seconds=0.0, saturating=20, is_core_busy=True, is_kept=False)
    sizes = subscriber.Sizes(
        repetitions=1,
        requests_per_minute=MANY,
        paces=(pace,),
        warming=20,
        with_node_red=False,
    )
    assert_positive(await subscriber.measure(sizes))


def test_rounds_yield_ratios_with_targets() -> None:
    """Ours is held to the bridge's processor time and p50, and to Node-RED's p99 and rate."""
    ours, theirs = (
        Round(
            report=replace(NO_REPORT, arrival_p50=p50, arrival_p99=p99, arrived_per_second=rate),
            processor_ms=processor_ms,
            commits=1.5,
        )
        for p50, p99, rate, processor_ms in ((2.0, 2.0, 3_000.0, 3.0), (1.0, 4.0, 1_000.0, 1.0))
    )
    sides = {OURS: [ours], BRIDGE: [theirs], NODE_RED: [theirs]}
    paces = (Pace(per_second=rate, seconds=1.0) for rate in (100.0, 200.0))
    saturated = Pace(per_second=0.0, seconds=0.0, saturating=10)
    figures = figures_of(dict.fromkeys((*paces, saturated), sides))

    judged = {it.name: (it.median, it.target) for it in figures if it.target is not None}
    assert judged == {
        "100/s: processor time, ours over the bridge's": (3.0, 2.0),
        "100/s: p50, ours over the bridge's": (2.0, 3.0),
        "100/s: commits for a callback": (1.5, 1.1),
        "200/s: processor time, ours over the bridge's": (3.0, 2.0),
        "200/s: p50, ours over the bridge's": (2.0, 3.0),
        "200/s: p99, ours over Node-RED's": (0.5, 1.0),
        "saturated: ours over Node-RED's": (3.0, 1.3),
    }


def test_nothing_is_judged_with_a_core_busy() -> None:
    """A figure that was measured beside other work is shown without targets."""
    measured = Round(report=replace(NO_REPORT, arrival_p99=1), processor_ms=1, commits=9)
    sides = {OURS: [measured], BRIDGE: [measured], NODE_RED: [measured]}
    figures = figures_of({Pace(per_second=200.0, seconds=1.0, is_core_busy=True): sides})

    assert len(figures) == 13
    assert all(figure.target is None for figure in figures)


@pytest.mark.soak
async def test_the_losses_of_an_outage_are_counted() -> None:
    """Without Node-RED ours is measured alone, and nothing of it is lost."""
    sizes = outage.Sizes(
        requests_per_minute=MANY,
        before_seconds=0.1,
        down_seconds=0.1,
        after_seconds=1.0,
        per_second=50.0,
        with_node_red=False,
    )
    figures = {figure.name: figure for figure in await outage.measure(sizes)}

    assert all(name.startswith("ours") for name in figures)
    assert figures["ours: answered 2xx around the outage"].median == sizes.callbacks
    assert figures["ours: lost of these"].median == 0


@pytest.mark.soak
async def test_callbacks_beside_many_pipelines_are_measured() -> None:
    """Few pipelines, and many that are scraped, yield a ratio."""
    sizes = pipelines.Sizes(
        repetitions=1, requests_per_minute=MANY, seconds=0.3, per_second=50, few=5, many=100
    )
    assert_measured(await pipelines.measure(sizes))


@pytest.mark.soak
async def test_requests_are_measured() -> None:
    """Runs of a fast clock are followed to their ends."""
    assert_measured(await requests.measure(requests.Sizes(runs=4, active=4, speed=200)))


@pytest.mark.soak
async def test_transitions_are_measured() -> None:
    """Few and many runs in memory yield a ratio and a weight."""
    sizes = run_memory.Sizes(repetitions=1, few=10, many=100, transitions=20, weighed=100)
    assert_measured(await run_memory.measure(sizes))


@pytest.mark.soak
async def test_the_memory_of_ended_runs_is_measured() -> None:
    """Before, between and after two parts of ends, with a ratio of each."""
    sizes = ended_runs.Sizes(
        active=100, flows=5, ends=(50, 40), requests_per_minute=MANY, rest_seconds=0.1
    )
    assert_measured(await ended_runs.measure(sizes))


@pytest.mark.soak
async def test_stores_are_measured() -> None:
    """PostgreSQL, SQLite and the bare writer yield rates and ratios."""
    assert_measured(
        await stores.measure(stores.Sizes(repetitions=1, transitions=40, at_once=(10,)))
    )


@pytest.mark.soak
async def test_idle_shards_are_measured() -> None:
    """Idle shards yield queries, memory and processor time."""
    sizes = idle_shards.Sizes(shards=(2,), quiet_seconds=0.1, seconds=2.5)
    assert_measured(await idle_shards.measure(sizes))


@pytest.mark.soak
async def test_a_cluster_is_measured() -> None:
    """Two daemons beside one yield ratios, and the kill of one yields times of a takeover."""
    sizes = cluster.Sizes(
        repetitions=1,
        requests_per_minute=MANY,
        daemons=2,
        workspaces=2,
        warm_ups=0,
        seconds=0.1,
        per_second=40.0,
        rest_seconds=0.1,
        # Longer than the time between two renewals of a lease, so that something is used.
        idle_seconds=0.8,
        kills=1,
        lease_seconds=3.0,
    )
    assert_measured(await cluster.measure(sizes))


@pytest.mark.soak
async def test_pages_of_the_job_library_are_measured() -> None:
    """Few and many job groups yield a ratio."""
    sizes = job_library.Sizes(repetitions=1, few=100, many=500, seconds=0.1)
    assert_measured(await job_library.measure(sizes))


def test_a_table_marks_what_missed_its_target() -> None:
    """Medians, ranges and results are those of the values."""
    ours = Figure(name="ours", values=(3.0, 1.0, 2.0))
    theirs = Figure(name="theirs", values=(1.0, 1.0, 1.0))
    ratio = ratios("ratio", ours, theirs, target=1.5)

    assert (ratio.median, ratio.is_met) == (2.0, False)
    assert "| ratio  | 2 times | 1 - 3 | <= 1.5 | MISSED |" in table("T", [ours, theirs, ratio])
    assert percentile([5.0, 1.0, 3.0], 0.99) == 5.0


def test_saved_results_are_read_compared_and_shown(tmp_path: Path) -> None:
    """A file keeps all figures; two files are compared by medians; targets become rows."""
    for name, ours in (("old", 2.0), ("new", 1.0)):
        mine = Figure(name="ours", values=(ours,), unit="ms")
        ratio = ratios("ratio", mine, Figure(name="theirs", values=(4.0,)), target=0.4)
        figures = Measured(title="Title", figures=(mine, ratio), seconds=1)
        save(tmp_path / name, results({"title": figures}, share=1.0))
    old, new = load(tmp_path / "old"), load(tmp_path / "new")

    assert "| title: ours  | 2 ms      | 1 ms       | 0.5       |" in comparison(old, new)
    rows = target_rows(new)
    assert "| Title: ratio | 1 ms | 4 ms      | 0.25 times (0.25 - 0.25) | <= 0.4 | met |" in rows
    assert len(rows.splitlines()) == 3


def test_a_whole_share_causes_no_slowdown() -> None:
    """Where nothing is cut, no control group is needed."""
    with held_to(1.0, os.getpid()):
        assert Path("/proc/self/cgroup").exists()


@pytest.mark.soak
async def test_the_way_to_an_alert_is_measured() -> None:
    """Every failure arrives twice, as the run's event and as its alert."""
    sizes = alerts.Sizes(repetitions=1, requests_per_minute=MANY, failures=10, with_default=False)
    assert_measured(await alerts.measure(sizes))


@pytest.mark.soak
async def test_alerting_is_measured() -> None:
    """Events, evaluations and starts are timed with few and many rules."""
    sizes = alert_engine.Sizes(repetitions=1, pipelines=200, active=20, burst=50, alone=2)
    assert_measured(await alert_engine.measure(sizes))


@pytest.mark.soak
async def test_trying_rules_is_measured() -> None:
    """A past day is evaluated again, and alerts fire."""
    assert_measured(await backtest.measure(backtest.Sizes(repetitions=1, flows=30, days=1)))


@pytest.mark.soak
async def test_the_evaluation_of_rules_is_measured() -> None:
    """Few and many rules yield a ratio."""
    assert_measured(await alert_rules.measure(alert_rules.Sizes(repetitions=1, pipelines=1_000)))


@pytest.mark.soak
async def test_reads_beside_many_pipelines_are_measured() -> None:
    """Few and many pipelines yield a ratio for each path."""
    sizes = page_reads.Sizes(
        repetitions=1, requests_per_minute=MANY, requests=5, few=5, many=50, runs_each=1
    )
    assert_measured(await page_reads.measure(sizes))


@pytest.mark.soak
async def test_viewers_are_measured() -> None:
    """Callbacks beside viewers, who ask for the page again, and without viewers yield a ratio."""
    sizes = page_viewers.Sizes(
        repetitions=1, requests_per_minute=MANY, seconds=0.3, viewers=3, pipelines=5
    )
    assert_measured(await page_viewers.measure(sizes))


@pytest.mark.soak
async def test_the_first_view_is_measured() -> None:
    """Its bytes are counted, and a browser shows ours and plain files."""
    sizes = page_bytes.Sizes(repetitions=1, requests_per_minute=MANY, pipelines=5, runs=10)
    assert_measured(await page_bytes.measure(sizes))
