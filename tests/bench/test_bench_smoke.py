"""Each benchmark still yields figures; their values are not tested here."""

from __future__ import annotations

import math

from tests.bench import (
    alert_engine,
    alert_rules,
    alerts,
    backtest,
    ingest,
    job_library,
    node_red,
    requests,
    run_memory,
    scrapes,
    subscriber,
)
from tests.bench.figures import Figure, percentile, ratios, table


def assert_measured(figures: list[Figure]) -> None:
    """Every line has numbers above zero, and at least one has a target."""
    assert any(figure.target is not None for figure in figures)
    values = [value for figure in figures for value in figure.values]
    assert values
    assert all(math.isfinite(value) and value > 0 for value in values), figures


async def test_ingest_is_measured() -> None:
    """Both servers accept callbacks and yield a ratio."""
    assert_measured(await ingest.measure(ingest.Sizes(repetitions=1, seconds=0.2, connections=4)))


async def test_the_way_to_the_subscriber_is_measured() -> None:
    """Every sent run arrives, from the bridge and from the daemon."""
    sizes = subscriber.Sizes(repetitions=1, seconds=0.2, per_second=50)
    assert_measured(await subscriber.measure(sizes))


async def test_our_side_beside_node_red_is_measured() -> None:
    """Without Node-RED ours is measured alone, and the losses of a short outage are counted."""
    sizes = node_red.Sizes(
        repetitions=1,
        seconds=0.2,
        paces=(50.0,),
        saturating=20,
        before_seconds=0.2,
        down_seconds=0.2,
        after_seconds=1.0,
        outage_rate=50.0,
        with_node_red=False,
    )
    figures = {figure.name: figure for figure in await node_red.measure(sizes)}

    assert all(name.startswith("ours") for name in figures)
    assert figures["ours: saturated, at the subscriber"].median > 0
    assert figures["ours: p99 at 50 a second"].median > 0
    assert figures["ours: answered 2xx around the outage"].median == sizes.outage_callbacks
    assert figures["ours: lost of these"].median == 0


async def test_scrapes_are_measured() -> None:
    """Repetitions with and without scrapes yield a ratio."""
    sizes = scrapes.Sizes(repetitions=1, seconds=0.3, per_second=50, series=500)
    assert_measured(await scrapes.measure(sizes))


async def test_requests_are_measured() -> None:
    """Runs of a fast clock are followed to their ends."""
    assert_measured(await requests.measure(requests.Sizes(runs=4, active=4, speed=200)))


async def test_transitions_are_measured() -> None:
    """Few and many runs in memory yield a ratio and a weight."""
    sizes = run_memory.Sizes(repetitions=1, few=10, many=100, transitions=20, weighed=100)
    assert_measured(await run_memory.measure(sizes))


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


async def test_the_way_to_an_alert_is_measured() -> None:
    """Every failure arrives twice, as the run's event and as its alert."""
    sizes = alerts.Sizes(repetitions=1, failures=10, with_default=False)
    assert_measured(await alerts.measure(sizes))


async def test_alerting_is_measured() -> None:
    """Events, evaluations and starts are timed with few and many rules."""
    sizes = alert_engine.Sizes(repetitions=1, pipelines=200, active=20, burst=50, alone=2)
    assert_measured(await alert_engine.measure(sizes))


async def test_trying_rules_is_measured() -> None:
    """A past day is evaluated again, and alerts fire."""
    assert_measured(await backtest.measure(backtest.Sizes(repetitions=1, flows=30, days=1)))


async def test_the_evaluation_of_rules_is_measured() -> None:
    """Few and many rules yield a ratio."""
    assert_measured(await alert_rules.measure(alert_rules.Sizes(repetitions=1, pipelines=1_000)))
