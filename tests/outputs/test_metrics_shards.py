"""One page of all shards that a daemon holds, while shards come, go and are lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from monitor.bus.contract import Change
from monitor.bus.sqlite import SqliteBus
from monitor.model.alerts import AlertingSnapshot, Severity
from monitor.model.live_state import PollStatus, Reachability
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import Status
from monitor.outputs.metrics.daemon_metrics import DaemonMetrics
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.metrics.shard_metrics import ShardMetrics
from monitor.polling.poll_loop.runner import PollMetrics
from monitor.tracking.live_state import LiveState
from monitor.workspace.api_metrics import ApiMetrics
from tests.clocks import ManualClock
from tests.outputs.leased_store import LeasedStore
from tests.outputs.metrics_examples import NOON, history, plan, run
from tests.outputs.metrics_parts import shard_metrics

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
ALERTING = AlertingSnapshot(rules=(("run_failed", Severity.CRITICAL),))


class Process:
    """A daemon's metrics, and the shards that it holds."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOON + timedelta(minutes=1))
        self.registry = CollectorRegistry()
        self.daemon = DaemonMetrics(
            registry=self.registry, clock=self.clock, settings=MetricsSettings(), version="1.2.3"
        )

    async def host(self, store: LeasedStore, workspace: str) -> ShardMetrics:
        """Begin to show a shard of one workspace, that counts from what is stored."""
        live_state = LiveState([workspace])
        live_state.update_workspace(workspace, reachability=Reachability.REACHABLE)
        live_state.record_poll(poll_of(workspace))
        shard = shard_metrics(
            store,
            live_state=live_state.view,
            clock=self.clock,
            registry=self.registry,
            alerting=lambda: ALERTING,
        )
        PollMetrics.of(shard.registry).polls.labels(workspace, "changes", "ok").inc()
        PollMetrics.of(shard.registry).duration.labels("changes").observe(1.0)
        ApiMetrics.of(shard.registry).duration.labels("listFlows").observe(1.0)
        connected = Gauge(
            "dataprep_monitor_mqtt_connected", "As of an output.", registry=shard.registry
        )
        connected.set(1)
        self.daemon.add(shard)
        await count(shard)
        return shard

    async def page(self, accept: str = "") -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Return the series of a page, after a proof that each family and series is there once."""
        body, _ = await self.daemon.exposition.render(accept)
        parse: Any = openmetrics if accept else plain
        found = list(parse(body.decode()))
        assert most(family.name for family in found) == 1
        series = [
            ((sample.name, frozenset(sample.labels.items())), sample.value)
            for family in found
            for sample in family.samples
        ]
        assert most(name for name, _ in series) == 1
        return dict(series)


async def count(shard: ShardMetrics) -> None:
    """Count all that is stored."""
    await shard.consumer.restore()
    while await shard.consumer.count_some():
        pass


def most(names: Iterable[object]) -> int:
    return max(Counter(names).values())


def poll_of(workspace: str) -> PollStatus:
    return PollStatus(
        workspace=workspace,
        poll="changes",
        last_attempt_at=NOON,
        last_success_at=NOON,
        last_outcome=PollOutcome.OK,
        overdue_at=None,
    )


def named(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


@asynccontextmanager
async def a_store(folder: Path, shard: str) -> AsyncIterator[LeasedStore]:
    """Yield the store of a shard in which one run of the workspace of its name has succeeded."""
    bus = await SqliteBus.open(
        folder / f"{shard}.db", clock=ManualClock(NOON), registry=CollectorRegistry()
    )
    events = history(run(1, Status.SUCCEEDED, pipeline=plan(7), workspace=shard))
    await bus.commit(Change(events=tuple(events)), timeout_seconds=5)
    yield LeasedStore.of(bus, shard=shard)
    await bus.close()


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[tuple[LeasedStore, LeasedStore]]:
    """The stores of the shards ``acme`` and ``best``."""
    async with AsyncExitStack() as stack:
        first, second = [
            await stack.enter_async_context(a_store(tmp_path, name)) for name in ("acme", "best")
        ]
        yield first, second


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    made = Process()
    yield made
    await made.daemon.exposition.close()


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
async def test_a_page_joins_the_families_of_all_shards(
    process: Process, stores: tuple[LeasedStore, LeasedStore], accept: str
) -> None:
    """Each family and series stands there once; what has no workspace carries its shard's name."""
    for store in stores:
        await process.host(store, store.shard)
    page = await process.page(accept)
    for shard in ("acme", "best"):
        succeeded = {"workspace": shard, "kind": "plan_run", "pipeline": "#7"}
        assert page[named("dataprep_runs_total", **succeeded, result="succeeded")] == 1
        assert page[named("dataprep_workspace_up", workspace=shard)] == 1
        polls = {"workspace": shard, "poll": "changes", "outcome": "ok"}
        assert page[named("dataprep_monitor_polls_total", **polls)] == 1
        transitions = {"shard": shard, "rule": "run_failed", "to": "fired"}
        assert page[named("dataprep_monitor_alert_transitions_total", **transitions)] == 0
        assert page[named("dataprep_monitor_series", shard=shard)] > 0
        assert page[named("dataprep_monitor_mqtt_connected", shard=shard)] == 1
    # What counts the work of the process is one for all of them.
    assert page[named("dataprep_monitor_poll_duration_seconds_count", poll="changes")] == 2
    duration = "dataprep_monitor_api_request_duration_seconds_count"
    assert page[named(duration, operation="listFlows")] == 2
    assert page[named("dataprep_monitor_events_total", type="run.succeeded")] == 2
    assert sum(name == "dataprep_monitor_store_bytes" for name, _ in page) == 1


async def test_every_series_says_whose_it_is(
    process: Process, stores: tuple[LeasedStore, LeasedStore]
) -> None:
    """A series has a workspace or a shard, or is there however many shards are hosted."""
    alone = await process.page()
    for store in stores:
        await process.host(store, store.shard)
    both = await process.page()
    await process.host(LeasedStore.of(stores[0], shard="other"), "other")
    more = await process.page()
    anonymous = {
        series for series in both if not {"workspace", "shard"} & {label for label, _ in series[1]}
    }
    assert alone.keys() <= anonymous
    assert anonymous == {
        series for series in more if not {"workspace", "shard"} & {label for label, _ in series[1]}
    }


async def test_a_sole_shard_has_no_label_of_its_own(process: Process, tmp_path: Path) -> None:
    """The shard of an embedded store has no name, and its series stay as they are."""
    async with a_store(tmp_path, "acme") as store:
        await process.host(LeasedStore.of(store), "acme")
        page = await process.page()
    assert not any(label == "shard" for _, labels in page for label, _ in labels)
    assert named("dataprep_monitor_series") in page
    assert page[named("dataprep_monitor_mqtt_connected")] == 1


async def test_a_lost_shard_is_on_no_page(
    process: Process, stores: tuple[LeasedStore, LeasedStore]
) -> None:
    """Its series end at once, of all kinds; the others stay."""
    for store in stores:
        await process.host(store, store.shard)
    stores[0].lose()
    page = await process.page()
    values = {value for _, labels in page for _, value in labels}
    assert "acme" not in values
    assert "best" in values


async def test_a_shard_that_is_lost_while_a_page_is_made_is_not_on_it(
    process: Process, stores: tuple[LeasedStore, LeasedStore]
) -> None:
    """The lease ends at each moment at which it is asked for: the page is then made again."""
    for store in stores:
        await process.host(store, store.shard)
    moments = 0
    while stores[0].is_held:
        stores[0].allow(moments)
        page = await process.page()
        shows = {value for _, labels in page for _, value in labels}
        assert ("acme" in shows) == stores[0].is_held
        assert "best" in shows
        if stores[0].is_held:
            break
        stores[0].regain()
        moments += 1
    assert moments == 2  # when the page is begun, and when it is whole


async def test_a_shard_is_not_shown_before_its_counters_are_known(
    process: Process, stores: tuple[LeasedStore, LeasedStore]
) -> None:
    """A new holder would show counters that begin at 0, and a jump when it has read them."""
    shard = shard_metrics(
        stores[0],
        live_state=LiveState(["acme"]).view,
        clock=process.clock,
        registry=process.registry,
    )
    process.daemon.add(shard)
    assert named("dataprep_monitor_callbacks_missed_total", workspace="acme") not in (
        await process.page()
    )
    await count(shard)
    assert named("dataprep_monitor_callbacks_missed_total", workspace="acme") in (
        await process.page()
    )


async def test_counters_go_on_at_the_new_holder(
    process: Process, stores: tuple[LeasedStore, LeasedStore]
) -> None:
    """The former holder shows the shard no more, the new one shows it with the same counts."""
    runs = named(
        "dataprep_runs_total",
        workspace="acme",
        kind="plan_run",
        pipeline="#7",
        result="succeeded",
    )
    shard = await process.host(stores[0], "acme")
    before = await process.page()
    process.daemon.remove(shard)
    assert runs not in await process.page()
    new = Process()
    await new.host(LeasedStore.of(stores[0], shard="acme"), "acme")
    events = history(run(2, Status.SUCCEEDED, pipeline=plan(7), workspace="acme"))
    await stores[0].commit(Change(events=tuple(events)), timeout_seconds=5)
    after = await new.page()
    assert (before[runs], after[runs]) == (1, 1)
    await new.daemon.exposition.close()


async def test_shards_come_and_go_while_pages_are_made(
    process: Process, stores: tuple[LeasedStore, LeasedStore]
) -> None:
    """Every page is whole: a shard is on it with all of its families or with none."""
    await process.host(stores[1], "best")
    process.daemon.remove(await process.host(stores[0], "acme"))  # its run is counted now

    async def move() -> None:
        for _ in range(10):
            shard = await process.host(stores[0], "acme")
            await asyncio.sleep(0)
            process.daemon.remove(shard)

    async with asyncio.TaskGroup() as group:
        moving = group.create_task(move())
        while not moving.done():
            page = await process.page()
            shown = {name for name, labels in page if ("workspace", "acme") in labels}
            assert not shown or shown >= {"dataprep_runs_total", "dataprep_monitor_polls_total"}
            assert named("dataprep_workspace_up", workspace="best") in page
    assert named("dataprep_workspace_up", workspace="acme") not in await process.page()
